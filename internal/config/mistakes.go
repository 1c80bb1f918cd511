package config

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/caddy-tally/caddy-tally/internal/answer"
	"github.com/caddy-tally/caddy-tally/internal/bodyfield"
	"github.com/caddy-tally/caddy-tally/internal/enforce"
	"github.com/caddy-tally/caddy-tally/internal/matcher"
	"github.com/caddy-tally/caddy-tally/internal/routing"
	"github.com/caddy-tally/caddy-tally/internal/typo"
)

// checkMistakes returns an error about an option that Caddy accepts but is certainly a mistake. A
// zone in the grammar of mholt/caddy-ratelimit must be accepted: it gets advice.
func (z *zoneCompiler) checkMistakes() error {
	for _, err := range []error{z.checkKey(), z.checkOurPlaceholders(), matcher.CheckSets(z.MatcherSetsRaw)} {
		if err != nil && z.HasOwnWords() {
			return err
		}
		if m, ok := errors.AsType[*matcher.MistakeError](err); ok {
			z.note(strings.TrimSuffix(err.Error(), ": write "+m.Fix), m.Fix)
		} else if err != nil {
			z.note(err.Error(), "")
		}
	}
	return nil
}

// checkKey returns an error about a key that is almost certainly a mistake.
func (z *Zone) checkKey() error {
	names := routing.PlaceholderNames(z.Key)
	for _, name := range names {
		switch {
		case name == "http.request.remote":
			return &matcher.MistakeError{Problem: "key: {" + name +
				"} has the port in it, which is another for every connection, so that nobody is limited",
				Fix: "per ip"}
		case routing.IsFleeting(name):
			return &matcher.MistakeError{Problem: "key: {" + name +
				"} changes from one request or connection to the next, so that nobody is limited", Fix: "per ip"}
		}
	}
	if len(names) > 0 {
		return nil
	}
	switch key := strings.ToLower(z.Key); {
	case strings.ContainsAny(key, "{}$") && !strings.Contains(key, `\`):
		return fmt.Errorf("key: %q has no placeholder in it, so that everybody shares one count: is a brace missing? write per ip; or key {http.request.header.X-Tenant}", z.Key)
	case slices.Contains([]string{"ip", "client", "api_key", "remote", "remote_ip", "remote_host", "remote_addr",
		"client_ip", "address", "user", "session", "header", "host", "path", "uri", "method"}, key),
		isAddress(key), strings.HasPrefix(key, "http.request."):
		return &matcher.MistakeError{
			Problem: fmt.Sprintf("key: %q has no placeholder in it, so that everybody shares one count", z.Key),
			Fix:     "per ip; or a placeholder such as per key {http.request.header.X-Tenant}"}
	}
	return nil
}

func isAddress(s string) bool {
	_, err := netip.ParseAddr(s)
	return err == nil
}

// DoubtfulPlaceholder returns the problem with one of our placeholders that is never set, and what
// to write instead.
func (s *Survey) DoubtfulPlaceholder(name string) (problem, fix string) {
	if bodyfield.IsField(name) {
		return fmt.Sprintf("placeholder {%s} is set for the options of zones only, while they decide",
			name), "one of the request"
	}
	rest := strings.TrimPrefix(name, enforce.OurPlaceholders)
	if strings.HasPrefix(rest, "client") && s.App != nil && s.App.Session == nil && len(s.Zones) > 0 && !slices.ContainsFunc(s.Zones, func(z SitedZone) bool { return z.LooksAtKeys() }) {
		return fmt.Sprintf("placeholder {%s} is never set: no zone counts per client or per api_key, and there is no session", name), "per client in a zone; or {client_ip}"
	}
	known := append(slices.Sorted(maps.Keys(answer.ExceededPlaceholders)), answer.LimitsPlaceholder)
	for _, part := range enforce.ClientPlaceholders {
		known = append(known, "client"+part)
	}
	for _, name := range []string{enforce.ASNPlaceholder, enforce.CountryPlaceholder, enforce.DomainPlaceholder} {
		known = append(known, strings.TrimPrefix(name, enforce.OurPlaceholders))
	}
	for _, z := range s.Zones {
		known = append(known, z.Name+".remaining")
		if z.mayShadow() {
			known = append(known, z.Name+enforce.WouldRefuseSuffix)
		}
	}
	problem, fix = fmt.Sprintf("placeholder {%s} is never set", name), "one that is, such as {"+enforce.OurPlaceholders+
		"exceeded.name}"
	if zone, ok := strings.CutSuffix(rest, enforce.WouldRefuseSuffix); ok &&
		slices.Contains(known, zone+".remaining") && !slices.Contains(known, rest) {
		return fmt.Sprintf("placeholder {%s}: no limit of zone %q has shadow", name,
			zone), "limit 5/1m shadow into the zone"
	}
	least := 3
	if zone, ok := strings.CutSuffix(rest, ".remaining"); ok {
		if len(s.Zones) == 0 {
			return "", "" // there is no survey
		}
		problem, fix = fmt.Sprintf("placeholder {%s}: there is no zone %q", name, zone), "{"+enforce.OurPlaceholders+
			s.Zones[0].Name+".remaining}"
	}
	for _, candidate := range known {
		n := typo.Distance(candidate, rest)
		if n == 0 {
			return "", ""
		} else if strings.HasSuffix(candidate, "."+rest) {
			n = 0
		}
		if n < least {
			least, fix = n, "{"+enforce.OurPlaceholders+candidate+"}"
		}
	}
	return problem, fix
}

// checkOurPlaceholders returns an error about one of our placeholders in the options of the zone that
// is never set.
func (z *zoneCompiler) checkOurPlaceholders() error {
	for _, n := range z.textNeeds() {
		if !strings.HasPrefix(n.Name, enforce.OurPlaceholders) || bodyfield.IsField(n.Name) {
			continue
		}
		if problem, fix := z.app.survey.DoubtfulPlaceholder(n.Name); problem != "" {
			return &matcher.MistakeError{Problem: problem, Fix: fix}
		}
	}
	return nil
}
