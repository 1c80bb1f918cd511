package storagetest

import (
	"context"
	"maps"
	"sync"
	"testing"

	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/storage"
)

// claimPlace is a place whose stores only claim. Something goes wrong in every fifth call.
type claimPlace struct {
	wrong func(s *claimStore, claims []storage.Claim, grants []limiter.Grant) error

	mu            sync.Mutex
	calls         int   // guarded by mu, like all below
	now           int64 // of the last call
	states        model
	before, after model // the last call
}

func (p *claimPlace) open(context.Context) (storage.Store, error) { return &claimStore{place: p}, nil }

type claimStore struct {
	storage.Store
	place *claimPlace
	late  []storage.Claim // of an earlier call, to take effect now
}

func (s *claimStore) Close() error { return nil }

func (s *claimStore) Time(c storage.Clock, _ int64) (storage.Time, error) {
	return storage.Time{Now: c.Read().Wall}, nil
}

func (s *claimStore) Claim(_ context.Context, term *storage.Term, claims []storage.Claim, grants []limiter.Grant) error {
	p := s.place
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls++
	p.now = max(p.now, term.Clock.Read().Wall)
	term.Time = storage.Time{Now: p.now}
	p.states.take(s.late, p.now)
	s.late = nil
	p.before, p.after = p.after, p.states.clone()
	if p.calls%5 == 0 {
		return p.wrong(s, claims, grants)
	}
	copy(grants, p.states.take(claims, p.now))
	return nil
}

// take answers claims as of a time.
func (m model) take(claims []storage.Claim, now int64) (grants []limiter.Grant) {
	for _, c := range claims {
		c.Now = now
		grants = append(grants, m.claim(c))
	}
	return grants
}

func (m model) clone() model {
	c := maps.Clone(m)
	for place, state := range m {
		copied := *state
		copied.Slots = append([]limiter.Slot(nil), state.Slots...)
		c[place] = &copied
	}
	return c
}

// A history of atomic claims is explained, also if the outcomes of some are unknown. Other histories are
// not.
func TestHistoriesThatNothingExplains(t *testing.T) {
	const tries = 50
	for name, c := range map[string]struct {
		wrong   func(s *claimStore, claims []storage.Claim, grants []limiter.Grant) error
		correct bool
	}{
		"nothing": {func(s *claimStore, claims []storage.Claim, grants []limiter.Grant) error {
			copy(grants, s.place.states.take(claims, s.place.now))
			return nil
		}, true},
		"the outcome is unknown": {func(s *claimStore, claims []storage.Claim, _ []limiter.Grant) error {
			if s.place.calls%2 == 0 {
				s.place.states.take(claims, s.place.now)
			}
			return storage.ErrUnknownOutcome
		}, true},
		"a call takes effect late, its outcome unknown": {func(s *claimStore, claims []storage.Claim, _ []limiter.Grant) error {
			s.late = claims // before the next one
			return storage.ErrUnknownOutcome
		}, true},
		"an update is lost": {func(s *claimStore, claims []storage.Claim, grants []limiter.Grant) error {
			copy(grants, s.place.states.clone().take(claims, s.place.now))
			return nil
		}, false},
		"a call that is sent again takes effect again": {func(s *claimStore, claims []storage.Claim, grants []limiter.Grant) error {
			copy(grants, s.place.states.take(claims, s.place.now))
			s.place.states.take(claims, s.place.now)
			return nil
		}, false},
		"a call whose outcome is unknown takes effect twice": {func(s *claimStore, claims []storage.Claim, _ []limiter.Grant) error {
			s.place.states.take(claims, s.place.now)
			s.late = claims
			return storage.ErrUnknownOutcome
		}, false},
		"an answer misses the last call": {func(s *claimStore, claims []storage.Claim, grants []limiter.Grant) error {
			copy(grants, s.place.before.clone().take(claims, s.place.now))
			s.place.states.take(claims, s.place.now)
			return nil
		}, false},
		"only the first claim of a call takes effect": {func(s *claimStore, claims []storage.Claim, grants []limiter.Grant) error {
			copy(grants, s.place.states.clone().take(claims, s.place.now))
			s.place.states.take(claims[:1], s.place.now)
			return nil
		}, false},
		"a call takes effect after a later one": {func(s *claimStore, claims []storage.Claim, grants []limiter.Grant) error {
			copy(grants, s.place.states.clone().take(claims, s.place.now))
			s.late = claims
			return nil
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			explained, undecided := 0, 0
			for range tries {
				p := &claimPlace{wrong: c.wrong, states: model{}, after: model{}, before: model{}}
				cr := newCrowd(t, func() storage.Opener { return p.open }, true)
				ok, _, err := isExplained(cr.history(), historyCells)
				if ok {
					explained++
				} else if err != nil {
					undecided++
				}
			}
			t.Logf("%d of %d histories are explained, %d are undecided", explained, tries, undecided)
			if c.correct != (explained+undecided == tries) || undecided > tries/2 {
				t.Error("want all of a correct store, not all of a wrong one, and most decided")
			}
		})
	}
}
