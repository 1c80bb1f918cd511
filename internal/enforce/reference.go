package enforce

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
func (r *Refusal) id() string {
	if r.Reference == "" && r.App.Zones { // without a zone there is no instance, and no secret
		if h := r.App.Use(); h != nil {
			r.Reference = h.Names.Refer(r.content(time.Now()), r.limit(), string(r.Key))
			h.Recent.Add(r.Recent())
		}
	}
	return r.Reference
}

// references returns the reference in both forms that people are shown.
func (r *Refusal) references() page.Reference {
	return page.Reference{Short: reference.Short(r.id()), Whole: r.id()}
}

// content returns what the reference says, but for the name of the key.
func (r *Refusal) content(now time.Time) reference.Refusal {
	return reference.Refusal{Scope: uint32(r.Policy.ID), Reason: uint8(r.Reason), Time: now} // #nosec G115 -- its lower half
}

// limit returns the limit that the key is counted by, or nil if the key has a record that is banned.
func (r *Refusal) limit() *engine.Limit {
	if r.Reason == engine.Banned {
		return nil
	}
	return &r.Policy.Limit
}

// ReferredRefusal is what a reference says of a refusal.
type ReferredRefusal struct {
	Zone, Limit string // "" if the configuration has no such limit any more; "ban" for a ban
	Outcome     string // as in metrics
	At          time.Time
	// Name is the name at rest of what was counted by, in the scope of the limit, or if the
	// client was banned, of its record. It is zero if nothing was counted.
	Name storage.Key

	recalled *instance.Recent // more about it; nil if memory has forgotten it

	Policy *Policy // the limit; nil for a ban, and if the configuration has it no more
	Key    string  // the text of what was counted by, once memory was asked; "" if it doesn't know
}

// OpenReference returns what a reference says, or an error if it is none that was made here.
func (a *Config) OpenReference(text string) (ReferredRefusal, error) {
	h := a.Use()
	if h == nil || h.Names.Sealer() == nil {
		return ReferredRefusal{}, errors.New("reference: the secret can't be had at the moment")
	}
	recalled, err := h.Recent.Find(text)
	if err != nil {
		return ReferredRefusal{}, err
	}
	if recalled != nil {
		text = recalled.Reference
	}
	content, err := h.Names.Sealer().Open(text)
	if err != nil {
		return ReferredRefusal{}, err
	}
	reason := engine.Reason(content.Reason)
	if int(reason) >= len(meter.Outcomes) {
		return ReferredRefusal{}, fmt.Errorf("reference: of a newer version: unknown reason %d", reason)
	}
	opened := ReferredRefusal{Outcome: meter.Outcomes[reason], At: content.Time, Name: content.Name, recalled: recalled}
	if reason == engine.Banned {
		opened.Zone, opened.Limit = BanName, BanName
	} else if p := a.limitByID(content.Scope); p != nil {
		opened.Zone, opened.Limit, opened.Policy = p.Zone.Name, p.Name, p
	}
	return opened, nil
}

// limitByID returns the limit whose ID has a lower half, or nil. Of those that count together,
// as in tiers, it returns the one whose name comes first.
func (a *Config) limitByID(id uint32) (found *Policy) {
	for _, z := range a.AllZones {
		sets := z.Sets()
		if z.Concurrency != nil {
			sets = append(sets, &LimitSet{Policies: []*Policy{z.Concurrency.Policy}})
		}
		for _, set := range sets {
			for _, p := range set.All() {
				if uint32(p.ID) == id && (found == nil || p.Name < found.Name) { // #nosec G115 -- its lower half
					found = p
				}
			}
		}
	}
	return found
}

// Note notes the request that is refused, as it was sent.
func (r *Refusal) Note(sent *http.Request) {
	if original := matcher.Original(sent); original != nil {
		sent = original
	}
	r.method, r.path = sent.Method, sent.URL.Path
}

// Recent returns what memory is to hold of the refusal, and of which key, which is nil if all clients
// share it.
func (r *Refusal) Recent() (key []byte, held instance.Recent) {
	if r.Policy.Zone.Per != PerEveryone {
		key = r.Key
	}
	return key, instance.Recent{
		Reference: r.Reference, Cost: r.Cost, Left: r.left, Capacity: r.Policy.Capacity(),
		Request: strings.TrimSpace(shortened(r.method, maxLoggedMethod) + " " + PathClass(r.path)),
	}
}

// Describe adds to what a reference tells what memory knows more.
func (r *ReferredRefusal) Describe() *operator.Refusal {
	told := &operator.Refusal{Zone: r.Zone, Limit: r.Limit, At: r.At.UTC()}
	if m := r.recalled; m != nil {
		told.Request, told.Cost, told.Left = m.Request, m.Cost, m.Left
		told.Text = m.Text()
	}
	return told
}
