package listener

import (
	"slices"
	"sync"
	"time"

	"github.com/caddy-tally/caddy-tally/limiter"
)

// maxCounted is the most networks whose new connections are counted. Beyond it, those are forgotten that came
// longest ago: each starts anew, which gains an attacker nothing that its further networks don't have anyway.
const maxCounted = 1 << 16

// table has the states of limits on new connections by networks, in two generations. The former one is dropped
// when the recent one is full or has lasted longer than two windows, so nothing has to be searched.
type table struct {
	mu             sync.Mutex
	recent, former map[counted]*limiter.State // guarded by mu
	turned         int64                      // guarded by mu: when recent began
	now            int64                      // guarded by mu: never goes back
	longest        time.Duration              // guarded by mu: window
}

// counted names a state. Limits with different windows count separately.
type counted struct {
	network string
	window  time.Duration
	slots   int64
}

// take takes a unit of a network's limit, if one is free. With forecast it only says whether one is.
func (t *table) take(l *limiter.Limit, network string, now int64, forecast bool) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.now = max(t.now, now)
	s := t.stateLocked(counted{network, l.Window(), l.Slots()})
	s.Trim(l, t.now)
	if forecast {
		s = &limiter.State{Slots: slices.Clone(s.Slots), Bucket: s.Bucket}
	}
	claim := limiter.Claim{Now: t.now, Min: 1, Want: 1}
	return !l.Claim(s, claim).Refused(claim)
}

// stateLocked returns a state, which is among the recent ones from now on.
func (t *table) stateLocked(at counted) *limiter.State {
	s, isRecent := t.recent[at]
	if !isRecent {
		s = t.former[at]
	}
	if s == nil {
		s = new(limiter.State)
	}
	t.longest = max(t.longest, at.window)
	if t.recent == nil || t.now-t.turned > int64(2*t.longest) || !isRecent && len(t.recent) >= maxCounted/2 {
		t.former, t.recent, t.turned = t.recent, make(map[counted]*limiter.State), t.now
	}
	t.recent[at] = s
	return s
}
