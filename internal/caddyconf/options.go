// Package caddyconf reads options of a Caddyfile, and adds places to its errors.
package caddyconf

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/dustin/go-humanize"
)

// OneOf reads the option's argument, which is one of words.
func OneOf(d *caddyfile.Dispenser, words ...string) (string, error) {
	option, word := d.Val(), ""
	if !d.AllArgs(&word) {
		return "", d.ArgErr()
	}
	if !slices.Contains(words, word) {
		return "", d.Errf("%s: must be %s, got %q", option, OrList(words), word)
	}
	return word, nil
}

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

// ModuleJSON encodes a module with its name in key.
func ModuleJSON(d *caddyfile.Dispenser, module any, key, name string) ([]byte, error) {
	var warnings []caddyconfig.Warning
	raw := caddyconfig.JSONModuleObject(module, key, name, &warnings)
	if len(warnings) > 0 {
		return nil, d.Errf("encoding module %s: %s", name, warnings[0].Message)
	}
	return raw, nil
}

// EachOption reads the options of a block. It rejects repetitions, except of the repeatable
// options.
func EachOption(d *caddyfile.Dispenser, unmarshal func(*caddyfile.Dispenser) error, repeatable ...string) error {
	return EachChecked(d, unmarshal, func() error { return nil }, repeatable...)
}

// EachChecked is [EachOption] with a check of the settings read so far.
func EachChecked(d *caddyfile.Dispenser, unmarshal func(*caddyfile.Dispenser) error, check func() error, repeatable ...string) error {
	seen := make(map[string]bool)
	wrong, err := EachLine(d, func(d *caddyfile.Dispenser) error {
		option := d.Val()
		if seen[option] {
			return d.Errf("%s is given twice: write it once", option)
		}
		seen[option] = !slices.Contains(repeatable, option)
		return unmarshal(d)
	}, check)
	return cmp.Or(err, wrong)
}

// EachLine reads the lines of a block, and checks the settings after each. An error that remains at
// the end of the block names the line that introduced it; a later line may resolve an earlier one's
// error.
func EachLine(d *caddyfile.Dispenser, unmarshal func(*caddyfile.Dispenser) error, check func() error) (wrong, err error) {
	wrong, source := check(), Source(d)
	for nesting := d.Nesting(); d.NextBlock(nesting); {
		line := Source(d)
		if err := unmarshal(d); err != nil {
			return nil, err
		}
		err := check()
		if err != nil && (wrong == nil || err.Error() != wrong.Error()) {
			source = line
		}
		wrong = err
	}
	return AtSource(wrong, source), nil
}

// Duration reads the option's argument. It rejects zero because in the struct zero means the
// default.
func Duration(d *caddyfile.Dispenser, field *caddy.Duration) error {
	option, arg := d.Val(), ""
	if !d.AllArgs(&arg) {
		return d.ArgErr()
	}
	duration, err := caddy.ParseDuration(arg)
	if err != nil || duration <= 0 {
		return d.Errf("%s: must be a duration above zero such as 100ms or 1m, got %q", option, arg)
	}
	*field = caddy.Duration(duration)
	return nil
}

// Count reads the option's argument, a number above zero.
func Count(d *caddyfile.Dispenser, field *int) error {
	option, arg := d.Val(), ""
	if !d.AllArgs(&arg) {
		return d.ArgErr()
	}
	n, err := ParseCount(arg)
	if err != nil || n < 1 || n > math.MaxInt32 {
		return d.Errf("%s: must be a whole number above zero, got %q", option, arg)
	}
	*field = int(n)
	return nil
}

func String(d *caddyfile.Dispenser, field *string) error {
	option := d.Val()
	if !d.AllArgs(field) {
		return d.ArgErr()
	}
	if *field == "" {
		return d.Errf("%s: must not be empty", option)
	}
	return nil
}

// maxStoreSize is the largest max_size. Numbers of a Caddyfile pass through float64, which is exact
// to the byte up to this size.
const maxStoreSize = 1 << 48

// Size sets a number of bytes.
func Size(d *caddyfile.Dispenser, to *int64) error {
	var arg string
	if !d.AllArgs(&arg) {
		return d.ArgErr()
	}
	size, err := humanize.ParseBytes(arg)
	if err != nil || size == 0 || size > maxStoreSize {
		return d.Errf("max_size: must be a size such as 512MiB or 1GiB, at most 256TiB, got %q", arg)
	}
	*to = int64(size)
	return nil
}
