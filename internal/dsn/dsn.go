// Package dsn replaces the placeholders in the data source names of database drivers, so that a
// password may contain any characters.
package dsn

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/caddyserver/caddy/v2"
)

// Expand replaces the placeholders of a DSN, including those for environment variables and files.
// quote escapes a value, given the surrounding texts without later placeholders; it isn't used for
// a DSN that is one placeholder. An unset password is left to the server to reject: configs are
// checked in places without secrets.
func Expand(dsn string, quote func(before, value, after string) (string, error)) (string, error) {
	if dsn == "" {
		return "", errors.New("dsn: is required: write how to connect to the server")
	}
	var expanded strings.Builder
	rest, repl := dsn, caddy.NewReplacer()
	for at := placeholders.FindStringIndex(rest); at != nil; at = placeholders.FindStringIndex(rest) {
		value, err := repl.ReplaceOrErr(rest[at[0]:at[1]], false, true)
		if err != nil {
			return "", fmt.Errorf("dsn: %w", err)
		}
		expanded.WriteString(rest[:at[0]])
		if value = strings.TrimRight(value, "\r\n"); at[1]-at[0] < len(dsn) {
			if value, err = quote(expanded.String(), value,
				placeholders.ReplaceAllString(rest[at[1]:], "")); err != nil {
				return "", fmt.Errorf("dsn: the value of %s %w", rest[at[0]:at[1]], err)
			}
		}
		expanded.WriteString(value)
		rest = rest[at[1]:]
	}
	if expanded.WriteString(rest); expanded.Len() == 0 {
		return "", fmt.Errorf("dsn: %s is empty: set it where Caddy runs", dsn)
	}
	return expanded.String(), nil
}

var placeholders = regexp.MustCompile(`\{[^{}]+\}`)
