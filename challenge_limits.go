package tally

import (
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/caddy-tally/caddy-tally/identity/challenge"
	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/limiter/engine"
	"github.com/caddy-tally/caddy-tally/storage"
)

// sessionLimits is what clients may have of the path where sessions are earned.
// They are counted like any others, so a flood makes no state beside that.
type sessionLimits struct {
	visits    *engine.Limit // of a network: requests for the path
	pages     *engine.Limit // of a network: refused requests that are answered with a page
	sessions  *engine.Limit // of a network: sessions issued in an hour
	live      *engine.Limit // of a network: sessions issued, or issued anew, in a lifetime
	waits     *engine.Limit // of a network: those of sessions that are earned by waiting
	liveWaits *engine.Limit // of a network: those of live that are earned by waiting
	renewals  *engine.Limit // of a session: one in a quarter of its lifetime
	solutions *engine.Limit // of a solution: one, as long as it could be sent again
}

// A network may ask for the path once a second, and has its refused requests
// answered with a page every other one: a page is ten thousand bytes, and takes
// 100 µs to make.
const (
	visitsPerMinute = 60
	pagesPerMinute  = 30
)

// waitShare divides the sessions that a network may have into those that it may earn by waiting.
// A program can wait for any number of them at once, where each puzzle takes time of its own.
const waitShare = 10

// newSessionLimits returns the limits for so many sessions of a network in an hour,
// and so many that are valid at a time.
func newSessionLimits(sessions, live int64, lifetime time.Duration) sessionLimits {
	lifetime = min(lifetime, limiter.MaxWindow)
	of := lifetime.String() // counts of one lifetime say nothing of another
	return sessionLimits{
		live:      ownLimit("live "+of, limiter.Params{Amount: live, Window: lifetime}),
		liveWaits: ownLimit("live waits "+of, limiter.Params{Amount: max(1, live/waitShare), Window: lifetime}),
		waits:     ownLimit("waits", limiter.Params{Amount: max(1, sessions/waitShare), Window: time.Hour}),
		renewals:  ownLimit("renewals "+of, limiter.Params{Amount: 1, Window: lifetime / 4}),
		visits:    ownLimit("visits", limiter.Params{Algorithm: limiter.TokenBucket, Amount: visitsPerMinute, Window: time.Minute}),
		pages:     ownLimit("pages", limiter.Params{Algorithm: limiter.TokenBucket, Amount: pagesPerMinute, Window: time.Minute}),
		sessions:  ownLimit("sessions", limiter.Params{Amount: sessions, Window: time.Hour}),
		solutions: ownLimit("solutions", limiter.Params{Amount: 1, Window: challenge.MaxLifetime, Slots: 10}),
	}
}

// ownLimit returns a limit that belongs to no zone.
func ownLimit(name string, p limiter.Params) *engine.Limit {
	limit, err := limiter.New(p)
	if err != nil {
		panic(err) // the parameters are in this file, or checked
	}
	return &engine.Limit{ID: storage.LimitID(xxhash.Sum64String("rate_limit " + name)), Limit: limit}
}
