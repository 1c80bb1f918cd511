package config

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-tally/caddy-tally/internal/bodyfield"
	"github.com/caddy-tally/caddy-tally/internal/enforce"
	"github.com/caddy-tally/caddy-tally/internal/routing"
)

// The values of on_unreadable_body.
const (
	unreadableRefuse = "refuse"
	unreadableEmpty  = "empty"
)

// Fields returns the fields of bodies in the zone's options.
func (z *Zone) Fields() (names []string) {
	names = append(namesOfSets(z.sets()), namesOf(z.textNeeds())...)
	return slices.DeleteFunc(names, func(name string) bool { return !bodyfield.IsField(name) })
}

// checkFields returns an error about options of fields in bodies.
func (z *Zone) checkFields() error {
	names := z.Fields()
	for _, name := range names {
		if _, ok := bodyfield.NewField(name); !ok {
			return fmt.Errorf("placeholder {%s}: expected the name of a field, such as {%suser} or {%[2]suser[email]}, or a path in JSON, such as {%suser.email}", name, bodyfield.Form, bodyfield.JSON)
		}
	}
	switch {
	case len(names) == 0 && (z.ReadBody != 0 || z.OnUnreadableBody != ""):
		return fmt.Errorf(
			"read_body and on_unreadable_body are for fields of bodies: write per key {%suser} too, or leave them out", bodyfield.Form)
	case z.ReadBody < 0 || z.ReadBody > enforce.MaxReadBody:
		return fmt.Errorf("read_body: must be from 1 to %d bytes, got %d", enforce.MaxReadBody, z.ReadBody)
	case z.OnUnreadableBody != "" && z.OnUnreadableBody != unreadableRefuse && z.OnUnreadableBody != unreadableEmpty:
		return fmt.Errorf("on_unreadable_body: must be refuse or empty, got %q", z.OnUnreadableBody)
	}
	return nil
}

// compileFields determines what the zone needs of bodies.
func (z *zoneCompiler) compileFields() {
	isOther := func(name string) bool { return !bodyfield.IsField(name) }
	z.run.KeyFields = slices.DeleteFunc(routing.PlaceholderNames(z.run.Key), isOther)
	z.run.TierFields = slices.DeleteFunc(routing.PlaceholderNames(z.run.Tier), isOther)
	z.run.MatchReads = readsOf(z.MatcherSetsRaw)
	var costs []caddyhttp.RawMatcherSets
	for _, c := range z.Costs {
		costs = append(costs, c.MatcherSetsRaw)
	}
	z.run.CostReads = readsOf(costs...)
	if z.OnUnreadableBody != unreadableEmpty {
		z.run.Fields = z.Fields()
	}
}

// compileFields determines what the handler reads of bodies. It comes before matchers are loaded, which discards
// their raw JSON.
func (h *handlerCompiler) compileFields(zones []*Zone) {
	seen := make(map[string]bool)
	for _, z := range zones {
		for _, name := range z.Fields() {
			h.run.ReadsFields = max(h.run.ReadsFields, cmp.Or(z.ReadBody, enforce.DefaultReadBody))
			if f, ok := bodyfield.NewField(name); ok && !seen[name] {
				seen[name] = true
				h.run.Fields = append(h.run.Fields, f)
			}
		}
	}
	h.run.MatchesBody = h.app.survey.bodyUse(namesOfSets(h.sets(zones)))
}
