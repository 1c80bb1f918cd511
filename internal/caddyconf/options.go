// Package caddyconf parses values of a Caddyfile, and adds places to its errors.
package caddyconf

import (
	"math"
	"strconv"
	"strings"

	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/dustin/go-humanize"
)

// OrList joins words as in `a, b or c`.
func OrList(words []string) string {
	last := len(words) - 1
	if last < 1 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// ParseCount parses an integer. `_` may separate digits.
func ParseCount(s string) (int64, error) {
	return strconv.ParseInt(strings.ReplaceAll(s, "_", ""), 10, 64)
}

// ParseUnits parses a number of units: an integer, or a size such as 500MB or 1GiB if units are
// bytes.
func ParseUnits(s string) (int64, error) {
	if !strings.HasSuffix(strings.ToLower(s), "b") {
		return ParseCount(s)
	}
	size, err := humanize.ParseBytes(s)
	return int64(min(size, math.MaxInt64)), err
}

// Module reads the options of a module, and returns it, and its JSON with its name in key.
func Module(d *caddyfile.Dispenser, namespace, name, key string) (module any, raw []byte, err error) {
	if module, err = caddyfile.UnmarshalModule(d, namespace+"."+name); err != nil {
		return nil, nil, err
	}
	var warnings []caddyconfig.Warning
	raw = caddyconfig.JSONModuleObject(module, key, name, &warnings)
	if len(warnings) > 0 {
		return nil, nil, d.Errf("encoding module %s: %s", name, warnings[0].Message)
	}
	return module, raw, nil
}
