package tally

import (
	"errors"
	"fmt"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"go.uber.org/zap"

	"github.com/caddy-tally/caddy-tally/internal/typo"
)

// sourceOf returns where the current token stands, such as `Caddyfile:12`.
func sourceOf(d *caddyfile.Dispenser) string { return fmt.Sprintf("%s:%d", d.File(), d.Line()) }

// inLine adds to an error of the Caddyfile adapter what it is about, and where that
// is unless the error says so already.
func inLine(d *caddyfile.Dispenser, about string, err error) error {
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

// atSource adds to an error where in a config file its cause stands, if that is
// known and the error doesn't say so already.
func atSource(err error, source string) error {
	if _, placed := errors.AsType[sourceError](err); err == nil || placed || source == "" {
		return err
	}
	return sourceError{err, source}
}

// warnOfConfig warns of a config that can be used and hardly does what was meant:
// problem says what is wrong and what comes of it, write what to write instead.
// source is where it stands, or "".
func warnOfConfig(log *zap.Logger, source, problem, write string, more ...zap.Field) {
	if source != "" {
		more = append(more, zap.String("at", source))
	}
	log.Warn(problem, append([]zap.Field{zap.String("write", write)}, more...)...)
}

// warn warns of something in the zone: see [warnOfConfig].
func (z *Zone) warn(log *zap.Logger, problem, write string) {
	warnOfConfig(log, z.Source, problem, write, zap.String("zone", z.Name))
}

// warn warns of something in the handler that belongs to no zone: see
// [warnOfConfig].
func (h *Handler) warn(problem, write string) { warnOfConfig(h.log, h.Source, problem, write) }

// warn warns of something in the global option: see [warnOfConfig].
func (a *App) warn(problem, write string) { warnOfConfig(a.log, a.Source, problem, write) }

// logger returns the logger for what concerns no single configuration.
func logger() *zap.Logger { return caddy.Log().Named("rate_limit") }

// didYouMean asks whether one of the words was meant that there are, or returns "" if none
// is like word.
func didYouMean(word string, known []string) string {
	for _, candidate := range known {
		if n := typo.Distance(word, candidate); n <= 2 && 2*n <= len(word) {
			return "did you mean " + candidate + "?"
		}
	}
	return ""
}
