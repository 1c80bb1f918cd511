package tally

import (
	"fmt"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-tally/caddy-tally/internal/matcher"
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
func (z *zoneSetup) checkMatchers() error { return z.mistake(matcher.CheckSets(z.MatcherSetsRaw)) }

func (z *zoneSetup) loadMatchers() (err error) {
	if z.run.Matchers, err = loadMatchers(z.ctx, z.Zone); err != nil {
		return err
	}
	z.warnOfSpellings("match", z.run.Matchers)
	matcher.ForLimit(z.run.Matchers)
	return nil
}

func (h *Handler) loadExempt(ctx caddy.Context) error {
	if err := matcher.CheckSets(h.ExemptRaw); err != nil {
		return fmt.Errorf("exempt: %w", err)
	}
	loaded, err := ctx.LoadModule(h, "ExemptRaw")
	if err == nil {
		err = h.run.Exempt.FromInterface(loaded)
	}
	if err != nil {
		return fmt.Errorf("exempt: %w", err)
	}
	h.warnOfExemptions()
	matcher.ForExemption(h.run.Exempt)
	return nil
}

// warnOfSpellings warns of matchers of the zone that miss spellings of what is to be
// limited.
func (z *zoneSetup) warnOfSpellings(option string, sets caddyhttp.MatcherSets) {
	for _, set := range sets {
		if words := matcher.Safer(option, set); words != "" {
			z.warn(option+": "+matcher.MissedSpellings, words)
		}
	}
}

// warnOfExemptions warns of exempt extensions: a backend that takes the format of an
// answer from the extension has the same action under it.
func (h *Handler) warnOfExemptions() {
	for _, set := range h.run.Exempt {
		for _, m := range set {
			path, ok := m.(*caddyhttp.MatchPath)
			if !ok {
				continue
			}
			if i := slices.IndexFunc(*path, func(p string) bool { return strings.HasPrefix(p, "*.") }); i >= 0 {
				h.warn("exempt: path "+(*path)[i]+" also exempts /login"+(*path)[i][1:]+", which some backends take for /login", "the folder that the files are in, such as exempt /static/*")
			}
		}
	}
}
