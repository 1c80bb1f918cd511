package tally

import (
	"fmt"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
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

// checkMatchers returns an error about a matcher of the zone that no request can match.
func (z *zoneSetup) checkMatchers() error { return z.mistake(checkMatcherSets(z.MatcherSetsRaw)) }

func (z *zoneSetup) loadMatchers() (err error) {
	if z.matchers, err = loadMatchers(z.ctx, z.Zone); err != nil {
		return err
	}
	z.warnOfSpellings("match", z.matchers)
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
