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
	At    time.Time `json:"at"`
	Zone  string    `json:"zone"`
	Limit string    `json:"limit"`
	Text  string    `json:"key"`
	// as in commands, for the text of a key: with its network if it is an address
	Client string  `json:"client,omitempty"`
	Tag    string  `json:"tag,omitempty"` // as in [Key]
	Reason string  `json:"reason"`        // over_limit, blocked, too_costly, banned or denied
	Retry  Seconds `json:"retry_seconds,omitempty"`
	Path   string  `json:"path,omitempty"`  // the class of the path, without a query: see [Refusals]
	Agent  string  `json:"agent,omitempty"` // the beginning of User-Agent
	Times  int     `json:"times,omitempty"` // how many refusals of the sample these are; 0 means 1
}

// RefusalsQuery selects requests of the sample. Each field that isn't empty restricts it.
type RefusalsQuery struct {
	Zone     string `json:"zone,omitempty"`
	Path     string `json:"path,omitempty"`     // the class of the path
	Agent    string `json:"agent,omitempty"`    // the beginning of User-Agent; "none" for those without
	Network  string `json:"network,omitempty"`  // a /24 or a /48
	Country  string `json:"country,omitempty"`  // such as DE
	Provider string `json:"provider,omitempty"` // its number, such as AS64496
	// Client names a client: see [ParseTarget].
	Client string `json:"client,omitempty"`
	// Text is a part of any of those, regardless of case.
	Text string `json:"text,omitempty"`
}

// Refusals are those of the last 15 minutes in a sample of at most 10 refusals a second, beside requests that
// were let in: another sample of at most 10 a second. Only memory holds it, since the config was loaded.
type Refusals struct {
	Sampled int       `json:"sampled"` // refusals of which the rest tells
	LetIn   int       `json:"let_in"`  // requests that were let in, of which the rest tells
	Latest  []Refused `json:"latest"`  // the newest first; those of a client by a limit are one
	// Paths are the classes of paths. A class is the first three segments of a path, with * for a segment that is
	// long or looks like an id.
	Paths     []RefusedShare `json:"paths"`
	Agents    []RefusedShare `json:"agents"` // values of User-Agent
	Clients   []RefusedShare `json:"clients"`
	Networks  []RefusedShare `json:"networks"`  // a /24 or a /48 each
	Countries []RefusedShare `json:"countries"` // none unless a file of networks has them
	Providers []RefusedShare `json:"providers"` // likewise: their numbers
}

// RefusedShare is the number of a sample's requests with a common property.
type RefusedShare struct {
	Text    string `json:"text"`
	Client  string `json:"client,omitempty"` // of a client, as in [Refused]
	Tag     string `json:"tag,omitempty"`    // of a client, as in [Key]
	Refused int    `json:"refused"`
	LetIn   int    `json:"let_in"`
}
