// Package outcomes has the counts of requests by outcome: one type with one list of names, for stores, metrics,
// the history, operators, their pages and replays. Another outcome is a field of [Counts] and an element of
// [Counts.All]; what it is called for people stands where it is shown.
package outcomes

// Counts are requests, each counted once, or the decisions of a zone or limit about them.
type Counts struct {
	Allowed int64 `json:"allowed"` // let in; of a zone or limit, those that it counted
	// Refused counts all refusals: over a limit, blocked, banned, denied.
	Refused     int64 `json:"refused"`
	Blocked     int64 `json:"blocked"`      // refused from memory, since the key is still over its limit
	Banned      int64 `json:"banned"`       // refused since the client is banned
	WouldRefuse int64 `json:"would_refuse"` // by shadow limits; they passed
}

// WouldRefuse is the name of what shadow limits would refuse, in metrics, logs, placeholders and replays.
const WouldRefuse = "would_refuse"

// All returns the counts in the order in which stores keep them. A new count comes last.
func (c *Counts) All() [5]*int64 {
	return [...]*int64{&c.Allowed, &c.Refused, &c.Blocked, &c.Banned, &c.WouldRefuse}
}

// Add adds other counts.
func (c *Counts) Add(other Counts) {
	more := other.All()
	for i, n := range c.All() {
		*n += *more[i]
	}
}
