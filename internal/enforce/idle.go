package enforce

import (
	"sync/atomic"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/advice"
	"github.com/caddy-tally/caddy-tally/internal/meter"
)

// How much is enough to say that a part of a config does nothing: requests that a handler let in, or time and some
// requests; and pages with a challenge.
const (
	enoughRequests = 10_000
	enoughTime     = 3 * 24 * time.Hour
	someRequests   = 256
	enoughPages    = 50
)

// idle waits until a handler has let in enough requests. Its zero value has let in none.
type idle struct {
	letIn atomic.Int64
	since atomic.Int64 // when the first was let in, in Unix seconds
	over  atomic.Bool
}

// enough notes a request that was let in, and reports once that there were enough.
func (i *idle) enough(clock func() time.Time) bool {
	if i.over.Load() {
		return false
	}
	switch n := i.letIn.Add(1); {
	case n == 1:
		i.since.Store(clock().Unix())
		return false
	case n < enoughRequests && (n%someRequests != 0 || clock().Unix()-i.since.Load() < int64(enoughTime/time.Second)):
		return false
	}
	return !i.over.Swap(true)
}

// NoteLetIn notes a request that was let in. When there were enough, it tells the operator which zones have seen none,
// and which keys were always empty. Zones that wait for a high load are left out.
func (h *Handler) NoteLetIn(clock func() time.Time) {
	if !h.idle.enough(clock) {
		return
	}
	while := "while its site had 10,000"
	if h.idle.letIn.Load() < enoughRequests {
		while = "for three days"
	}
	for _, z := range h.Zones {
		seen, empty := z.Meter.Seen()-z.before, z.empty.Load()
		if z.OnEmptyKey == EmptySkip {
			seen += empty
		}
		switch {
		case len(z.When) > 0:
		case empty >= max(seen, someRequests):
			h.advise(z, "key: "+z.Key+" was empty in each request of the zone, "+while,
				"per ip, or a placeholder that requests have")
		case seen == 0:
			h.advise(z, "the zone has seen no request, "+while,
				"match with what clients send: caddy rate-limit explain 192.0.2.1 --url 'POST https://…' says which zones a request is in")
		}
	}
}

func (h *Handler) advise(z *Zone, problem, fix string) {
	_ = h.Config.Advice.Give(h.Log, advice.Advice{Kind: advice.Effect, Problem: problem, Fix: fix, Zone: z.Name, Source: z.Source}) // a warning is no error
}

// noteChallenge notes a page with a challenge, and tells the operator once if nobody has solved any of many.
func (cfg *Config) noteChallenge() {
	meter.ChallengeShown()
	if cfg.judged.Load() {
		return
	}
	if c := meter.Challenges(); c.Shown >= enoughPages && !cfg.judged.Swap(true) && c.Solved == 0 {
		cfg.Warn("challenge: 50 pages with it were shown, and nobody has solved one", "on_exceeded refuse; or without_script 60s in the challenge, for browsers without scripts")
	}
}
