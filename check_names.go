package tally

// This file finds names that mean something else than was meant: of zones that share a count
// by accident, and of placeholders that nothing sets.

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/caddy-tally/caddy-tally/internal/enforce"
	"github.com/caddy-tally/caddy-tally/internal/placeholder"
	"github.com/caddy-tally/caddy-tally/internal/typo"
)

// checkMentions finds placeholders of ours in other handlers that are never set.
func checkMentions(s *survey) (found []Advice) {
	for _, name := range slices.Sorted(maps.Keys(s.mentions)) {
		if err := s.checkOurPlaceholder(name); err != nil {
			problem, write, _ := strings.Cut(err.Error(), ": write ")
			found = append(found, Advice{Problem: problem, Fix: write, Handler: s.mentions[name]})
		}
	}
	return found
}

// checkNames finds zones that count together because they have one name, where that may not be
// meant.
func checkNames(s *survey) (found []Advice) {
	first := make(map[string]sitedZone)
	told := make(map[string]bool)
	for _, z := range s.zones {
		before, ok := first[z.Name]
		if !ok {
			first[z.Name] = z
			continue
		}
		switch {
		case told[z.Name] || z.handler == before.handler || z.Scope == scopeSite || before.Scope == scopeSite:
		case !z.limitsLike(before.Zone):
			found = append(found, z.advice("a zone of this name has other limits"+inSource(before.Source)+": both count together where window and algorithm are the same, each up to its own amount",
				"another name, or scope site in both, which counts each site on its own"))
			told[z.Name] = true
		case z.Scope == "" && z.hasOwnWords() && !z.isTwinOf(before):
			found = append(found, z.advice("a zone of this name is also in another handler"+inSource(before.Source)+": both count together",
				"scope shared if that is meant; scope site if each site counts on its own; or another name"))
			told[z.Name] = true
		}
	}
	return found
}

func inSource(source string) string {
	if source == "" {
		return ""
	}
	return ", at " + source
}

// isTwinOf reports whether two zones are one in the config file, of which Caddy has
// made two: for HTTP and for HTTPS, say.
func (z sitedZone) isTwinOf(other sitedZone) bool {
	return z.Source != "" && z.Source == other.Source && z.site == other.site
}

// limitsLike reports whether two zones have the same limits.
func (z *Zone) limitsLike(other *Zone) bool {
	return z.Window == other.Window && z.MaxEvents == other.MaxEvents && z.Tiers == other.Tiers && z.Tier == other.Tier &&
		reflect.DeepEqual(z.Limits, other.Limits)
}

// checkOurPlaceholder returns an error about a placeholder of ours that is never set.
func (s *survey) checkOurPlaceholder(name string) error {
	rest := strings.TrimPrefix(name, enforce.OurPlaceholders)
	known := slices.Sorted(maps.Keys(enforce.ExceededPlaceholders))
	for _, part := range enforce.ClientPlaceholders {
		known = append(known, "client"+part)
	}
	if slices.Contains(known, rest) {
		return nil
	}
	for _, z := range s.zones {
		known = append(known, z.Name+".remaining")
		if z.mayShadow() {
			known = append(known, z.Name+enforce.WouldRefuseSuffix)
		}
	}
	if slices.Contains(known, rest) {
		return nil
	}
	best, least := known[0], 3
	if zone, ok := strings.CutSuffix(rest, enforce.WouldRefuseSuffix); ok && slices.Contains(known, zone+".remaining") {
		return fmt.Errorf("placeholder {%s}: no limit of zone %q has shadow: write limit 5/1m shadow into the zone", name, zone)
	}
	if zone, ok := strings.CutSuffix(rest, ".remaining"); ok {
		if len(s.zones) == 0 {
			return nil // there is no survey
		}
		best = s.zones[0].Name + ".remaining"
		for _, z := range s.zones {
			if n := typo.Distance(z.Name, zone); n < least {
				best, least = z.Name+".remaining", n
			}
		}
		return fmt.Errorf("placeholder {%s}: there is no zone %q: write {%s%s}", name, zone, enforce.OurPlaceholders, best)
	}
	for _, candidate := range known {
		if n := typo.Distance(candidate, rest); n < least {
			best, least = candidate, n
		}
	}
	return fmt.Errorf("placeholder {%s} is never set: write {%s%s}", name, enforce.OurPlaceholders, best)
}

// checkOurPlaceholders checks those in the options of the zone.
func (z *zoneSetup) checkOurPlaceholders() error {
	texts := []string{z.Key, z.Cost, z.Tier}
	for _, c := range z.Costs {
		texts = append(texts, c.Cost)
	}
	for _, text := range texts {
		for _, name := range placeholder.Names(text) {
			if strings.HasPrefix(name, enforce.OurPlaceholders) {
				if err := z.survey.checkOurPlaceholder(name); err != nil {
					return z.mistake(err)
				}
			}
		}
	}
	return nil
}

// checkUser finds what is never known of a user, because only basic_auth authenticates.
func (z *zoneSetup) checkUser() (found []Advice) {
	const user = "http.auth.user."
	if s := z.survey; s.foreign || len(s.providers) != 1 || !s.providers["http_basic"] {
		return nil
	}
	for _, name := range append(placeholder.Names(z.Key), placeholder.Names(z.Tier)...) {
		if field, ok := strings.CutPrefix(name, user); ok && field != "id" {
			found = append(found, z.advice(fmt.Sprintf("{%s} is never set: basic_auth sets {%sid} only", name, user), "{"+user+"id}"))
		}
	}
	return found
}
