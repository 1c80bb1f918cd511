package operator

import "time"

// Event is something that happens. One of the fields is set.
type Event struct {
	Totals  *Totals  `json:"totals,omitempty"`  // once a second
	Refused *Refused `json:"refused,omitempty"` // a sample of the refusals, at most 10 a second
}

// Totals are what was decided since the process began, in all and by zone.
type Totals struct {
	At time.Time `json:"at"`
	Counts
	Zones map[string]Counts `json:"zones"`
}

// Refused is one refusal. Addresses are shown as networks.
type Refused struct {
	At     time.Time `json:"at"`
	Zone   string    `json:"zone"`
	Limit  string    `json:"limit"`
	Text   string    `json:"key"`
	Reason string    `json:"reason"` // over_limit, blocked, too_costly or banned
	Retry  Seconds   `json:"retry_seconds,omitempty"`
}
