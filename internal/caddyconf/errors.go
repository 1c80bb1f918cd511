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

// ModulePath is the path of this module, as binaries and xcaddy have it.
const ModulePath = "github.com/caddy-tally/caddy-tally"

// Source returns where the current token stands, such as `Caddyfile:12`.
func Source(d *caddyfile.Dispenser) string { return fmt.Sprintf("%s:%d", d.File(), d.Line()) }

// InLine adds to an error of the Caddyfile adapter what it is about, and where that
// is unless the error says so already.
func InLine(d *caddyfile.Dispenser, about string, err error) error {
	if strings.Contains(err.Error(), ", at ") {
		return fmt.Errorf("%s: %w", about, err)
	}
	return d.Errf("%s: %w", about, err)
}

// sourceError is an error with the place in a config file that it is about. It is
// written as Caddy writes those of the Caddyfile adapter.
type sourceError struct {
	error
	source string
}

// Error implements error.
func (e sourceError) Error() string { return e.error.Error() + ", at " + e.source }

// Unwrap returns the error without the place.
func (e sourceError) Unwrap() error { return e.error }

// AtSource adds to an error where in a config file its cause stands, if that is
// known and the error doesn't say so already.
func AtSource(err error, source string) error {
	if _, placed := errors.AsType[sourceError](err); err == nil || placed || source == "" {
		return err
	}
	return sourceError{err, source}
}

// Logger returns the logger for what concerns no single configuration.
func Logger() *zap.Logger { return caddy.Log().Named("rate_limit") }

// DidYouMean asks whether one of the words was meant that there are, or returns "" if none
// is like word.
func DidYouMean(word string, known []string) string {
	for _, candidate := range known {
		if n := typo.Distance(word, candidate); n <= 2 && 2*n <= len(word) {
			return "did you mean " + candidate + "?"
		}
	}
	return ""
}
