package caddyconf

import (
	"errors"
	"fmt"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"go.uber.org/zap"

	"github.com/caddy-tally/caddy-tally/internal/typo"
)

// ModulePath is the path of this module in binaries and for xcaddy.
const ModulePath = "github.com/caddy-tally/caddy-tally"

// Source returns the place of the current token, such as `Caddyfile:12`.
func Source(d *caddyfile.Dispenser) string { return fmt.Sprintf("%s:%d", d.File(), d.Line()) }

// InLine adds the subject to an error of the Caddyfile adapter, and the place unless the error
// contains it.
func InLine(d *caddyfile.Dispenser, about string, err error) error {
	if strings.Contains(err.Error(), ", at ") {
		return fmt.Errorf("%s: %w", about, err)
	}
	return d.Errf("%s: %w", about, err)
}

// sourceError is an error with its place in a config file, in the format of Caddy's adapter errors.
type sourceError struct {
	error
	source string
}

// Error implements error.
func (e sourceError) Error() string { return e.error.Error() + ", at " + e.source }

// Unwrap returns the error without the place.
func (e sourceError) Unwrap() error { return e.error }

// AtSource adds the place of the cause to an error, if it is known and the error doesn't contain it
// yet.
func AtSource(err error, source string) error {
	if _, placed := errors.AsType[sourceError](err); err == nil || placed || source == "" {
		return err
	}
	return sourceError{err, source}
}

// Logger returns the logger for messages that concern no single configuration.
func Logger() *zap.Logger { return caddy.Log().Named("rate_limit") }

// DidYouMean returns a question that suggests a known word similar to word, or "" if there is none.
func DidYouMean(word string, known []string) string {
	for _, candidate := range known {
		if n := typo.Distance(word, candidate); n <= 2 && 2*n <= len(word) {
			return "did you mean " + candidate + "?"
		}
	}
	return ""
}
