package tally

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/caddy-tally/caddy-tally/identity/reference"
	"github.com/caddy-tally/caddy-tally/internal/instance"
	"github.com/caddy-tally/caddy-tally/internal/matcher"
	"github.com/caddy-tally/caddy-tally/internal/meter"
	"github.com/caddy-tally/caddy-tally/internal/operator"
	"github.com/caddy-tally/caddy-tally/internal/page"
	"github.com/caddy-tally/caddy-tally/limiter/engine"
	"github.com/caddy-tally/caddy-tally/storage"
)

// id returns the reference of the refusal, by which somebody who was refused can ask why. It
// is made when it is asked for first, and empty if there is no secret to seal it under.
func (r *refusal) id() string {
	if r.reference == "" && r.app.zones { // without a zone there is no instance, and no secret
		if h := r.app.use(); h != nil {
			r.reference = h.Refer(r.content(time.Now()), r.limit(), string(r.key))
			h.Recent.Add(r.recent())
		}
	}
	return r.reference
}

// references returns the reference in both forms that people are shown.
func (r *refusal) references() page.Reference {
	return page.Reference{Short: reference.Short(r.id()), Whole: r.id()}
}

// content returns what the reference says, but for the name of the key.
func (r *refusal) content(now time.Time) reference.Refusal {
	return reference.Refusal{Scope: uint32(r.policy.ID), Reason: uint8(r.reason), Time: now} // #nosec G115 -- its lower half
}

// limit returns the limit that the key is counted by, or nil if the key has a record that is banned.
func (r *refusal) limit() *engine.Limit {
	if r.reason == engine.Banned {
		return nil
	}
	return &r.policy.Limit
}

// referredRefusal is what a reference says of a refusal.
type referredRefusal struct {
	Zone, Limit string // "" if the configuration has no such limit any more; "ban" for a ban
	Outcome     string // as in metrics
	At          time.Time
	// Name is the name at rest of what was counted by, in the scope of the limit, or if the
	// client was banned, of its record. It is zero if nothing was counted.
	Name storage.Key

	recalled *instance.Recent // more about it; nil if memory has forgotten it

	policy *policy // the limit; nil for a ban, and if the configuration has it no more
	key    string  // the text of what was counted by, once memory was asked; "" if it doesn't know
}

// openReference returns what a reference says, or an error if it is none that was made here.
func (a *shared) openReference(text string) (referredRefusal, error) {
	h := a.use()
	if h == nil || h.Sealer() == nil {
		return referredRefusal{}, errors.New("reference: the secret can't be had at the moment")
	}
	recalled, err := h.Recent.Find(text)
	if err != nil {
		return referredRefusal{}, err
	}
	if recalled != nil {
		text = recalled.Reference
	}
	content, err := h.Sealer().Open(text)
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
func (a *shared) limitByID(id uint32) (found *policy) {
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

// note notes the request that is refused, as it was sent.
func (r *refusal) note(sent *http.Request) {
	if original := matcher.Original(sent); original != nil {
		sent = original
	}
	r.method, r.path = sent.Method, sent.URL.Path
}

// recent returns what memory is to hold of the refusal, and of which key, which is nil if all clients
// share it.
func (r *refusal) recent() (key []byte, held instance.Recent) {
	if r.policy.zone.per != perEveryone {
		key = r.key
	}
	return key, instance.Recent{
		Reference: r.reference, Cost: r.cost, Left: r.left, Capacity: r.policy.Capacity(),
		Request: strings.TrimSpace(shortened(r.method, maxLoggedMethod) + " " + pathClass(r.path)),
	}
}

// describe adds to what a reference tells what memory knows more.
func (r *referredRefusal) describe() *operator.Refusal {
	told := &operator.Refusal{Zone: r.Zone, Limit: r.Limit, At: r.At.UTC()}
	if m := r.recalled; m != nil {
		told.Request, told.Cost, told.Left = m.Request, m.Cost, m.Left
		told.Text = m.Text()
	}
	return told
}
