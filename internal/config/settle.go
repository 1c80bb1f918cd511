package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/caddy-tally/caddy-tally/internal/settle"

	"github.com/caddy-tally/caddy-tally/internal/bodyfield"
	"github.com/caddy-tally/caddy-tally/internal/enforce"
	"github.com/caddy-tally/caddy-tally/internal/engine"
	"github.com/caddy-tally/caddy-tally/internal/routing"
)

// The measures of Zone.Settle other than placeholders.
const (
	SettleBytes    = "bytes"
	SettleDuration = "duration"
)

// checkSettle returns an error about a measure that is invalid, or of no use beside other options.
func (z *Zone) checkSettle() error {
	switch {
	case z.Settle == "":
		return nil
	case z.Settle != SettleBytes && z.Settle != SettleDuration &&
		len(routing.PlaceholderNames(z.Settle)) < len(strings.Fields(z.Settle)):
		return fmt.Errorf("settle: must be bytes, duration or a placeholder such as {http.response.header.X-Tokens} or {http.rate_limit.answer.usage.total_tokens}, got %q", z.Settle)
	case z.Count != nil:
		return errors.New("settle: count says already from the answer what a request uses up: leave out one of both")
	case z.Cost == "" && len(z.Costs) == 0:
		return fmt.Errorf("settle: the cost that is taken on arrival is missing: write cost 1000 and settle %s, each on a line of its own; the cost is about what a request will use", z.Settle)
	case z.Cost == "0":
		return errors.New("settle: a cost of 0 takes nothing on arrival, so that all requests pass that come at once: write cost 1000 in the place of cost 0; with about what a request will use")
	}
	if err := routing.CheckPlaceholders(z.Settle); err != nil {
		return fmt.Errorf("settle: %w", err)
	}
	for _, name := range routing.PlaceholderNames(z.Settle) {
		if rest, ours := strings.CutPrefix(name, enforce.OurPlaceholders+"answer"); ours && !strings.HasPrefix(rest, ".") {
			return fmt.Errorf("settle: {%s} is never set: write settle {%susage.total_tokens}", name, bodyfield.Answer)
		}
	}
	for _, name := range answerFields(z.Settle) {
		if slices.ContainsFunc(bodyfield.AnswerPaths(name), func(path []string) bool { return path == nil }) {
			return fmt.Errorf("settle: {%s}: a name is missing: write settle {%susage.total_tokens}; or another path, or alternatives with | between them", name, bodyfield.Answer)
		}
	}
	return nil
}

// answerFields returns the placeholders of an answer's fields in a measure.
func answerFields(measure string) []string {
	isOther := func(name string) bool { return !strings.HasPrefix(name, bodyfield.Answer) }
	return slices.DeleteFunc(routing.PlaceholderNames(measure), isOther)
}

// compileSettle compiles the measure of what requests have used.
func (z *zoneCompiler) compileSettle() error {
	if err := z.checkSettle(); err != nil || z.Settle == "" {
		return err
	}
	if z.run.DeniesAll {
		return errors.New("settle: the zone admits nothing, so nothing is used: leave it out")
	}
	if z.app.survey.bodyUse(routing.PlaceholderNames(z.Settle)) != (enforce.BodyUse{}) {
		z.note("settle: the request's body isn't known any more when the request ends, so that the cost stays",
			"bytes, duration or a placeholder of the answer")
		return nil
	}
	z.run.Counting, z.run.Settle = engine.Held, new(settle.Rule)
	switch z.Settle {
	case SettleBytes:
		z.run.Settle.Bytes = true
	case SettleDuration:
		z.run.Settle.Duration = true
	default:
		z.run.Settle.From, z.run.Settle.Answer = z.Settle, answerFields(z.Settle)
	}
	return nil
}

// setSettle adds a placeholder to what the zone settles by.
func (z *Zone) setSettle(word string) error {
	if word == SettleBytes || word == SettleDuration {
		return fmt.Errorf("%s stands alone, and not beside placeholders", word)
	}
	z.Settle = strings.TrimSpace(z.Settle + " " + word)
	return nil
}
