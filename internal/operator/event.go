package operator

import "time"

// Event is an event of the rate limiter. One of the fields is set.
type Event struct {
	Totals  *Totals  `json:"totals,omitempty"`  // once a second
	Refused *Refused `json:"refused,omitempty"` // a sample of the refusals, at most 10 a second
}

// Totals are the requests since the process began, each counted once, and the decisions by zone.
type Totals struct {
	At time.Time `json:"at"`
	Counts
	Zones map[string]Counts `json:"zones"`
}

// Refused is one refusal, or several of a client by one limit: then the other fields describe the
// last one. Addresses are shown as networks.
type Refused struct {
	At     time.Time `json:"at"`
	Zone   string    `json:"zone"`
	Limit  string    `json:"limit"`
	Text   string    `json:"key"`
	Client string    `json:"client,omitempty"` // as in commands, for the text of a key: with its network if it is an address
	Tag    string    `json:"tag,omitempty"`    // as in [Key]
	Reason string    `json:"reason"`           // over_limit, blocked, too_costly or banned
	Retry  Seconds   `json:"retry_seconds,omitempty"`
	Path   string    `json:"path,omitempty"`  // the class of the path, without a query: see [Refusals]
	Agent  string    `json:"agent,omitempty"` // the beginning of User-Agent
	Times  int       `json:"times,omitempty"` // how many refusals of the sample these are; 0 means 1
}

// Refusals are those of the last 15 minutes in a sample of at most 10 refusals a second. Only
// memory holds it, since the config was loaded.
type Refusals struct {
	Sampled int       `json:"sampled"` // refusals of which the rest tells
	Latest  []Refused `json:"latest"`  // the newest first; those of a client by a limit are one
	// Paths are the most refused classes of paths. A class is the first three segments of a path,
	// with * for a segment that is long or looks like an id.
	Paths  []RefusedShare `json:"paths"`
	Agents []RefusedShare `json:"agents"` // the values of User-Agent that were refused most
}

// RefusedShare is the number of a sample's refusals with a common property.
type RefusedShare struct {
	Text    string `json:"text"`
	Refused int    `json:"refused"`
}
