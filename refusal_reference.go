package tally

import (
	"errors"
	"fmt"
	"time"

	"github.com/caddy-tally/caddy-tally/identity/reference"
	"github.com/caddy-tally/caddy-tally/internal/meter"
	"github.com/caddy-tally/caddy-tally/internal/page"
	"github.com/caddy-tally/caddy-tally/limiter/engine"
	"github.com/caddy-tally/caddy-tally/storage"
)

// id returns the reference of the refusal, by which somebody who was refused can ask why. It
// is made when it is asked for first, and empty if there is no secret to seal it under.
func (r *refusal) id() string {
	if r.reference == "" && r.app.zones { // without a zone there is no instance, and no secret
		if h := r.app.use(); h != nil {
			r.reference = h.refer(r, time.Now())
			h.recent.add(r)
		}
	}
	return r.reference
}

// references returns the reference in both forms that people are shown.
func (r *refusal) references() page.Reference {
	return page.Reference{Short: reference.Short(r.id()), Whole: r.id()}
}

// refer returns a new reference of a refusal, or "" if it can't be made.
func (h *instance) refer(r *refusal, now time.Time) string {
	sealer := h.sealer()
	if sealer == nil {
		return ""
	}
	content := reference.Refusal{Scope: uint32(r.policy.ID), Reason: uint8(r.reason), Time: now} // #nosec G115 -- its lower half
	if len(r.key) > 0 {
		limit := &r.policy.Limit
		if r.reason == engine.Banned {
			limit = nil
		}
		name, err := h.engine.NameOf(limit, string(r.key))
		if err != nil {
			return ""
		}
		content.Name = name.Key
	}
	return sealer.Seal(content)
}

// sealer returns what references are made and opened with, or nil while there is no secret.
func (h *instance) sealer() *reference.Sealer {
	if s := h.references.Load(); s != nil {
		return s
	}
	secret := h.secret.Load()
	if secret == nil {
		return nil
	}
	s, err := reference.New(secret)
	if err != nil {
		return nil // not reached: the secret was made alike
	}
	h.references.Store(s)
	return s
}

// referredRefusal is what a reference says of a refusal.
type referredRefusal struct {
	Zone, Limit string // "" if the configuration has no such limit any more; "ban" for a ban
	Outcome     string // as in metrics
	At          time.Time
	// Name is the name at rest of what was counted by, in the scope of the limit, or if the
	// client was banned, of its record. It is zero if nothing was counted.
	Name storage.Key

	recalled *recentRefusal // more about it; nil if memory has forgotten it

	policy *policy // the limit; nil for a ban, and if the configuration has it no more
	key    string  // the text of what was counted by, once memory was asked; "" if it doesn't know
}

// openReference returns what a reference says, or an error if it is none that was made here.
func (a *App) openReference(text string) (referredRefusal, error) {
	h := a.use()
	if h == nil || h.sealer() == nil {
		return referredRefusal{}, errors.New("reference: the secret can't be had at the moment")
	}
	recalled, err := h.recent.find(text)
	if err != nil {
		return referredRefusal{}, err
	}
	if recalled != nil {
		text = recalled.reference
	}
	content, err := h.sealer().Open(text)
	if err != nil {
		return referredRefusal{}, err
	}
	reason := engine.Reason(content.Reason)
	if int(reason) >= len(meter.Outcomes) {
		return referredRefusal{}, fmt.Errorf("reference: of a newer version: unknown reason %d", reason)
	}
	opened := referredRefusal{Outcome: meter.Outcomes[reason], At: content.Time, Name: content.Name, recalled: recalled}
	if reason == engine.Banned {
		opened.Zone, opened.Limit = banName, banName
	} else if p := a.limitByID(content.Scope); p != nil {
		opened.Zone, opened.Limit, opened.policy = p.zone.Name, p.name, p
	}
	return opened, nil
}

// limitByID returns the limit whose ID has a lower half, or nil. Of those that count together,
// as in tiers, it returns the one whose name comes first.
func (a *App) limitByID(id uint32) (found *policy) {
	for _, z := range a.allZones {
		for _, set := range z.sets() {
			for _, p := range set.all() {
				if uint32(p.ID) == id && (found == nil || p.name < found.name) { // #nosec G115 -- its lower half
					found = p
				}
			}
		}
	}
	return found
}
