package enforce

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/caddy-tally/caddy-tally/identity/reference"
	"github.com/caddy-tally/caddy-tally/internal/engine"
	"github.com/caddy-tally/caddy-tally/internal/instance"
	"github.com/caddy-tally/caddy-tally/internal/matcher"
	"github.com/caddy-tally/caddy-tally/internal/meter"
	"github.com/caddy-tally/caddy-tally/internal/operator"
	"github.com/caddy-tally/caddy-tally/internal/watch"
	"github.com/caddy-tally/caddy-tally/internal/wording"
	"github.com/caddy-tally/caddy-tally/storage"
)

// ID returns the refusal's reference, with which a refused person can ask for the reason. It is
// made on first use. It is empty if there is no secret to seal it with.
func (r *Refusal) ID() string {
	if r.Reference == "" && r.Config.Zones { // without a zone there is no instance, and no secret
		if inst := r.Config.Use(); inst != nil {
			r.Reference = inst.Names.Refer(r.content(time.Now()), r.limit(), string(r.Key))
			inst.Recent.Add(r.recent())
		}
	}
	return r.Reference
}

// content returns the content of the reference except for the name of the key.
func (r *Refusal) content(now time.Time) reference.Refusal {
	// #nosec G115 -- its lower half
	return reference.Refusal{Scope: uint32(r.Policy.ID), Reason: uint8(r.Reason), Time: now}
}

// limit returns the limit that counts the key, or nil if the key is a banned record.
func (r *Refusal) limit() *engine.Limit {
	if r.Reason == engine.Banned {
		return nil
	}
	return &r.Policy.Limit
}

// ReferredRefusal is the content of a reference.
type ReferredRefusal struct {
	Zone, Limit string // "" if the configuration no longer has the limit; "ban" for a ban
	Outcome     string // as in metrics
	At          time.Time
	// Name is the name at rest of the key, in the scope of the limit, or of the record of a banned
	// client. It is zero if nothing was counted.
	Name storage.Key

	recalled *instance.Recent // details from memory; nil if they are forgotten

	Policy *Policy // the limit; nil for a ban, or if the configuration no longer has it
	Key    string  // the text of the key from memory; "" if unknown
}

// OpenReference returns the content of a reference, or an error if it wasn't made here.
func (cfg *Config) OpenReference(text string) (ReferredRefusal, error) {
	inst := cfg.Use()
	if inst == nil || inst.Names.Sealer() == nil {
		return ReferredRefusal{}, errors.New("reference: the secret can't be had at the moment")
	}
	recalled, err := inst.Recent.Find(text)
	if err != nil {
		return ReferredRefusal{}, err
	}
	if recalled != nil {
		text = recalled.Reference
	}
	content, err := inst.Names.Sealer().Open(text)
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
	} else if p := cfg.limitByID(content.Scope); p != nil {
		opened.Zone, opened.Limit, opened.Policy = p.Zone.Name, p.Name, p
	}
	return opened, nil
}

// limitByID returns the limit whose ID has this lower half, or nil. Of several that count together,
// such as those of tiers, it returns the first by name.
func (cfg *Config) limitByID(id uint32) (found *Policy) {
	for _, z := range cfg.AllZones {
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

// MaxMethod is the most bytes of a request's method that are kept.
const MaxMethod = 32

// Note notes the refused request as it was sent.
func (r *Refusal) Note(sent *http.Request) {
	if original := matcher.Original(sent); original != nil {
		sent = original
	}
	r.Method, r.Path = sent.Method, sent.URL.Path
}

// recent returns the refusal for memory, and its key. The key is nil if all clients share it.
func (r *Refusal) recent() (key []byte, held instance.Recent) {
	if r.Policy.Zone.Per != PerEveryone {
		key = r.Key
	}
	return key, instance.Recent{
		Reference: r.Reference, Cost: r.Cost, Left: r.Left, Capacity: r.Policy.Capacity(),
		Request: strings.TrimSpace(wording.Shortened(r.Method, MaxMethod) + " " + watch.PathClass(r.Path)),
	}
}

// Describe returns the content of a reference and the details from memory.
func (r *ReferredRefusal) Describe() *operator.Refusal {
	refusal := &operator.Refusal{Zone: r.Zone, Limit: r.Limit, At: r.At.UTC()}
	if m := r.recalled; m != nil {
		refusal.Request, refusal.Cost, refusal.Left = m.Request, m.Cost, m.Left
		refusal.Text = m.Text()
	}
	return refusal
}
