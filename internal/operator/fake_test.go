package operator

import (
	"context"
	"net/http"
	"sync"
	"time"
)

// fake is a service that records questions.
type fake struct {
	mu     sync.Mutex
	asked  any // guarded by mu: the last query, question, command or list
	err    error
	events chan Event
}

var moment = time.Date(2026, 11, 22, 8, 0, 0, 0, time.UTC)

func (f *fake) note(asked any) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked = asked
	return f.err
}

func (f *fake) last() any {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.asked
}

func (f *fake) Status(context.Context) (Status, error) {
	return Status{Version: "v1", Started: moment, Stores: []Store{{Kind: "sqlite", Path: "/a/tally.db", Keys: 7}}}, f.note("status")
}

func (f *fake) Zones(context.Context) ([]Zone, error) {
	return []Zone{{Name: "login", Per: "ip", Limits: []Limit{{Name: "login", Text: "5/1m", Window: 60}}, Counts: Counts{Allowed: 3}}}, f.note("zones")
}

func (f *fake) Keys(_ context.Context, q KeysQuery) ([]Key, error) {
	return []Key{{Zone: "login", Text: "203.0.113.9", BlockedUntil: &moment}}, f.note(q)
}

func (f *fake) Bans(context.Context) ([]Rule, error) { return nil, f.note("bans") }

func (f *fake) History(_ context.Context, q HistoryQuery) (History, error) {
	return History{Resolution: 60, Points: []HistoryPoint{{At: moment, Units: 9}}}, f.note(q)
}

func (f *fake) Usage(_ context.Context, q UsageQuery) (Usage, error) {
	return Usage{Client: q.Client, From: moment, Days: []UsageDay{{Day: "2026-11-22", Units: 9}}}, f.note(q)
}

func (f *fake) Audit(_ context.Context, q AuditQuery) ([]Act, error) {
	return []Act{{At: moment, By: "admin", Action: "ban"}}, f.note(q)
}

func (f *fake) Explain(_ context.Context, q Question) (Explanation, error) {
	if _, err := ParseTarget(q.Client); err != nil {
		return Explanation{}, err
	}
	return Explanation{Client: q.Client, Limits: []LimitState{{Zone: "login", FreeAt: &moment}}}, f.note(q)
}

func (f *fake) Do(_ context.Context, action Action, o Command) (Done, error) {
	if _, err := ParseTarget(o.Client); err != nil {
		return Done{}, err
	}
	return Done{Client: string(action), Changed: 1, Until: &moment, Notes: []string{"noted"}}, f.note(o)
}

func (f *fake) Charge(_ context.Context, c Charge) (Charged, error) {
	return Charged{Zone: c.Zone, Client: c.Client, Allowed: true, Units: c.Units, Left: &c.Units, Retry: 1.5}, f.note(c)
}
func (f *fake) TestNotify(context.Context) ([]Notified, error) {
	return []Notified{{Webhook: "ntfy.example.com", Error: "the webhook answers with status 404"}}, f.err
}
func (f *fake) Reveal(_ context.Context, by, list string) error { return f.note(list + by) }

func (f *fake) APIKeys(context.Context) ([]StoredKey, error) {
	return []StoredKey{{Name: "acme", Tier: "free", ID: "9a41c07e", Expires: &moment}}, f.err
}
func (f *fake) AddAPIKey(_ context.Context, line string) error { return f.note(line) }
func (f *fake) ChangeAPIKeys(_ context.Context, c APIKeyChange) (int, error) {
	return 2, f.note(c)
}

func (f *fake) Import(_ context.Context, i Import) (Done, error) {
	return Done{Changed: len(i.Rules)}, f.note(i)
}

func (f *fake) Refusals(_ context.Context, q RefusalsQuery) (Refusals, error) {
	return Refusals{Sampled: 2, Latest: []Refused{{Zone: "login", Tag: "3fa9c1", Times: 2}}, Paths: []RefusedShare{{Text: "/login", Refused: 2, LetIn: 1}}}, f.note(q)
}

// Events passes on the test's events.
func (f *fake) Events(ctx context.Context) (<-chan Event, error) {
	if f.events == nil {
		return nil, Errorf(http.StatusTooManyRequests, "there are %d streams already", MaxStreams)
	}
	out := make(chan Event)
	go func() {
		defer close(out)
		for {
			select {
			case event, more := <-f.events:
				if !more {
					return
				}
				select {
				case out <- event:
				case <-ctx.Done():
					return
				}
			case <-ctx.Done():
				return
			}
		}
	}()
	return out, nil
}
