// Package notify posts notifications of what happens to a webhook of the operator: see [Event].
//
// # Invariants
//
//   - [Webhook.Send] never blocks: what doesn't fit into the queue is dropped and counted.
//   - Of one kind and zone there is at most one notification a minute.
//   - A body holds no personal data unless its template asks for it.
package notify

import (
	"sync"
	"time"
)

// The kinds of events.
const (
	Ban       = "ban"       // a client was banned for its violations
	Degraded  = "degraded"  // the store can't be used
	Recovered = "recovered" // it is in use again
	Refusals  = "refusals"  // a zone refuses unusually much
	Calm      = "calm"      // it doesn't any more
	Quota     = "quota"     // a key has used most of a quota
)

// ends has the kinds of what is over, with those of its beginning, which stand for both in Options.On.
var ends = map[string]string{Recovered: Degraded, Calm: Refusals}

// Event is what happened, as templates and JSON have it.
type Event struct {
	Kind   string    `json:"kind"`
	Time   time.Time `json:"time"`
	Text   string    `json:"text"`             // for people, without personal data
	Zone   string    `json:"zone,omitempty"`   // of [Refusals], [Calm] and [Quota]
	Limit  string    `json:"limit,omitempty"`  // of [Quota]
	Reason string    `json:"reason,omitempty"` // of [Ban]: the violation; of [Degraded]: the error
	// Client is the banned client, or the key of a quota. Instead of an address it has the network, a /24 or a /48.
	Client string     `json:"client,omitempty"`
	Until  *time.Time `json:"until,omitempty"`  // when a ban or the window of a quota ends
	Count  int64      `json:"count,omitempty"`  // requests a minute, of [Refusals] and [Calm]; units used, of [Quota]
	Amount int64      `json:"amount,omitempty"` // units of the quota
	// Site is the host and Network the network, with its provider if that is known, of most refusals of a zone,
	// or of the banned client.
	Site    string `json:"site,omitempty"`
	Network string `json:"network,omitempty"`
	// LeftOut is how many events of the kind, and the zone, came since the last notification.
	LeftOut int `json:"left_out,omitempty"`

	// Address is the banned client with its address, for templates only: it is personal data.
	Address string `json:"-"`
}

// Spacing is the least time between notifications of one kind and zone.
const Spacing = time.Minute

// limiter bounds how often one kind of notification is sent. The zero value is ready for use.
type limiter struct {
	mu   sync.Mutex
	last map[[2]string]*sent // guarded by mu: by kind and zone
}

type sent struct {
	at      time.Time
	leftOut int
}

// admits reports whether an event may be sent now, and sets how many before it were not.
func (l *limiter) admits(e *Event) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.last == nil {
		l.last = make(map[[2]string]*sent)
	}
	key := [2]string{e.Kind, e.Zone}
	if was := l.last[key]; was == nil {
		l.last[key] = new(sent)
	} else if e.Time.Sub(was.at) < Spacing {
		was.leftOut++
		return false
	}
	e.LeftOut = l.last[key].leftOut
	*l.last[key] = sent{at: e.Time}
	return true
}
