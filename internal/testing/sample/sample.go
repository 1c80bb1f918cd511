// Package sample is an operator's service with made-up clients, for tests and pictures of the
// dashboard. It uses addresses that are reserved for documentation.
package sample

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/operator"
)

// Service is made up. Orders change its data: a banned client is refused. The zero value isn't
// usable: see [New]. It may be used by several goroutines at once.
type Service struct {
	now func() time.Time

	mu      sync.Mutex
	status  operator.Status
	zones   []operator.Zone
	keys    []operator.Key
	bans    []operator.Rule
	acts    []operator.Act
	refused []operator.Refused
	streams int
	err     error
}

var _ operator.Service = (*Service)(nil)

// New returns a service with clients and times near now.
func New(now func() time.Time) *Service {
	s := &Service{now: now}
	s.fill()
	return s
}

// Empty returns a service without any data.
func Empty(now func() time.Time) *Service {
	return &Service{now: now, status: operator.Status{Started: now()}}
}

// Fail makes all methods fail with err, or succeed again if it is nil.
func (s *Service) Fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
}

// Add adds a key, a zone of its name, a ban and an act, with a text as clients could choose it.
func (s *Service) Add(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keys = slices.Insert(s.keys, 0, operator.Key{Zone: text, Limit: text, Text: text, Kind: "key", Client: "key:" + text, Tag: text, Tier: text, Used: 1, Amount: 2})
	s.zones = slices.Insert(s.zones, 0, operator.Zone{Name: text, Per: text, Limits: []operator.Limit{{Name: text, Text: text, Tier: text}}})
	s.bans = slices.Insert(s.bans, 0, operator.Rule{Action: operator.Ban, Client: "key:" + text, Text: text, Tag: text, By: text, Reason: text, Zone: text})
	s.acts = slices.Insert(s.acts, 0, operator.Act{At: s.now(), By: text, Action: text, Target: text, Reason: text})
	s.refused = slices.Insert(s.refused, 0, operator.Refused{Zone: text, Limit: text, Text: text, Tag: text, Reason: text, Path: text, Agent: text})
	s.status.Rules.Trouble = &operator.FileTrouble{File: text, Since: s.now(), Reason: text}
}

// Acts returns the audit, the newest first.
func (s *Service) Acts() []operator.Act {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.acts)
}

// Streams returns the number of open streams.
func (s *Service) Streams() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.streams
}

// Banned reports whether a client is banned, by its own name or by a network.
func (s *Service) Banned(client string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ruleLocked(client, operator.Ban) != nil
}

func (s *Service) ruleLocked(client string, action operator.Action) *operator.Rule {
	target, err := operator.ParseTarget(client)
	if err != nil {
		return nil
	}
	for _, ban := range s.bans {
		other, err := operator.ParseTarget(ban.Client)
		if err != nil || ban.Action != action {
			continue
		}
		if target == other || target.Kind == operator.Address && other.Kind == operator.Address && other.Network.Contains(target.Network.Addr()) {
			return &ban
		}
	}
	return nil
}

// Status implements operator.Service.
func (s *Service) Status(context.Context) (operator.Status, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.status, s.err
}

// Zones implements operator.Service.
func (s *Service) Zones(context.Context) ([]operator.Zone, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.zones), s.err
}

// Keys implements operator.Service.
func (s *Service) Keys(_ context.Context, q operator.KeysQuery) ([]operator.Key, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []operator.Key
	for _, key := range s.keys {
		if (q.Zone == "" || q.Zone == key.Zone) && (!q.Blocked || key.BlockedUntil != nil) && len(found) < q.N {
			found = append(found, key)
		}
	}
	return found, s.err
}

// Bans implements operator.Service.
func (s *Service) Bans(context.Context) ([]operator.Rule, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.bans), s.err
}

// Audit implements operator.Service.
func (s *Service) Audit(_ context.Context, q operator.AuditQuery) ([]operator.Act, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []operator.Act
	for _, act := range s.acts {
		if (q.Before.IsZero() || act.At.Before(q.Before)) && len(found) < q.N {
			found = append(found, act)
		}
	}
	return found, s.err
}

// Charge implements operator.Service. Every charge is allowed.
func (s *Service) Charge(_ context.Context, c operator.Charge) (operator.Charged, error) {
	return operator.Charged{Zone: c.Zone, Client: c.Client, Allowed: true, Units: c.Units, Outcome: "allowed"}, s.err
}

// Do implements operator.Service.
func (s *Service) Do(_ context.Context, action operator.Action, o operator.Command) (operator.Done, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return operator.Done{}, s.err
	}
	s.noteLocked(operator.Act{By: o.By, Action: string(action), Target: o.Client, Reason: o.Reason})
	done := operator.Done{Client: o.Client, Until: s.endOf(o)}
	switch action {
	case operator.Reset:
		done.Changed = s.resetLocked(o)
	case operator.Unban:
		done.Changed = s.liftLocked(o, operator.Ban)
		done.Bans = done.Changed
	case operator.Disallow:
		done.Changed = s.liftLocked(o, operator.Allow)
	case operator.Unraise:
		done.Changed = s.liftLocked(o, operator.Raise)
	default:
		done.Changed = s.stateLocked(o, action)
	}
	return done, nil
}

func (s *Service) resetLocked(o operator.Command) (changed int) {
	for i := range s.keys {
		if key := &s.keys[i]; key.Client == o.Client && (o.Zone == "" || o.Zone == key.Zone) {
			key.Used, key.BlockedUntil = 0, nil
			changed++
		}
	}
	return changed
}

// TestNotify implements operator.Service. There is no webhook.
func (s *Service) TestNotify(context.Context) ([]operator.Notified, error) { return nil, s.err }

// Import implements operator.Service. It uses only the action and the client of a rule.
func (s *Service) Import(_ context.Context, i operator.Import) (operator.Done, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, rule := range i.Rules {
		words := append(strings.Fields(rule), "", "")
		s.stateLocked(operator.Command{Client: words[1], By: i.By}, operator.Action(words[0]))
	}
	return operator.Done{Changed: len(i.Rules)}, s.err
}

// APIKeys implements operator.Service. There are none.
func (s *Service) APIKeys(context.Context) ([]operator.StoredKey, error) { return nil, s.err }

// AddAPIKey implements operator.Service.
func (s *Service) AddAPIKey(context.Context, string) error { return s.err }

// ChangeAPIKeys implements operator.Service.
func (s *Service) ChangeAPIKeys(context.Context, operator.APIKeyChange) (int, error) { return 0, s.err }

// Reveal implements operator.Service.
func (s *Service) Reveal(_ context.Context, by, list string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.noteLocked(operator.Act{By: by, Action: "reveal", Target: list})
	return s.err
}

func (s *Service) endOf(o operator.Command) *time.Time {
	if o.For == 0 {
		return nil
	}
	return new(s.now().Add(o.For.Duration()))
}

func (s *Service) stateLocked(o operator.Command, action operator.Action) int {
	s.bans = slices.Insert(s.bans, 0, operator.Rule{Action: action, Client: o.Client, Text: o.Client, Tag: tagOf(o.Client), By: "rules", Reason: o.Reason, Factor: o.Factor, Zone: o.Zone, Since: new(s.now()), Until: s.endOf(o)})
	return 1
}

func (s *Service) liftLocked(o operator.Command, action operator.Action) int {
	before := len(s.bans)
	s.bans = slices.DeleteFunc(s.bans, func(ban operator.Rule) bool { return ban.Action == action && ban.Client == o.Client })
	return before - len(s.bans)
}

func (s *Service) noteLocked(act operator.Act) {
	act.At = s.now()
	s.acts = slices.Insert(s.acts, 0, act)
}

// Events implements operator.Service: totals at once and then each second, as on a busy site, and
// refusals.
func (s *Service) Events(ctx context.Context) (<-chan operator.Event, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return nil, s.err
	}
	if s.streams == operator.MaxStreams {
		return nil, operator.Errorf(http.StatusTooManyRequests, "There are %d streams already.", s.streams)
	}
	s.streams++
	events := make(chan operator.Event, 16)
	go func() {
		defer close(events)
		s.tell(ctx, events)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.streams--
	}()
	return events, nil
}
