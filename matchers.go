package tally

import (
	"fmt"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"
)

// loadMatchers loads the matchers of a struct that has them as MatcherSetsRaw.
func loadMatchers(ctx caddy.Context, of any) (sets caddyhttp.MatcherSets, err error) {
	loaded, err := ctx.LoadModule(of, "MatcherSetsRaw")
	if err == nil {
		err = sets.FromInterface(loaded)
	}
	if err != nil {
		return nil, fmt.Errorf("match: %w", err)
	}
	return sets, nil
}

func (z *Zone) loadMatchers(ctx caddy.Context, log *zap.Logger) (err error) {
	if z.matchers, err = loadMatchers(ctx, z); err != nil {
		return err
	}
	z.warnOfSpellings(log, "match", z.matchers)
	forLimit(z.matchers)
	return nil
}

func (h *Handler) loadExempt(ctx caddy.Context) error {
	if err := checkMatcherSets(h.ExemptRaw); err != nil {
		return fmt.Errorf("exempt: %w", err)
	}
	loaded, err := ctx.LoadModule(h, "ExemptRaw")
	if err == nil {
		err = h.exempt.FromInterface(loaded)
	}
	if err != nil {
		return fmt.Errorf("exempt: %w", err)
	}
	h.warnOfExemptions()
	forExemption(h.exempt)
	return nil
}
