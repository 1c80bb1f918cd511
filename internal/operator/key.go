package operator

import "time"

// KeysQuery selects keys.
type KeysQuery struct {
	Zone    string // "" for all
	Blocked bool   // only currently blocked keys
	By      By
	N       int // at most; 0 means 20, and more than MaxItems is MaxItems
}

// By is the order of keys. The zero value is [ByUsed].
type By string

// The orders of keys.
const (
	ByUsed    By = "used"    // units used, as a part of the limit
	ByRefused By = "refused" // requests refused
)

// Key is the state of one key of one limit in memory. The state in other processes is unknown.
type Key struct {
	Zone  string `json:"zone"`
	Limit string `json:"limit"`
	Units string `json:"limit_text,omitempty"` // the limit as in a Caddyfile
	Text  string `json:"key"`                  // what it is, for people: an address, a name, …
	// tells clients apart where addresses are masked: the beginning of {http.rate_limit.client}; "" if it isn't one
	// client
	Tag     string `json:"tag,omitempty"`
	Kind    string `json:"kind"`             // ip, client, key, api_key, session, network, all
	Client  string `json:"client"`           // what to name it by in commands and questions; "" if it can't be
	Tier    string `json:"tier,omitempty"`   // "" if none
	Used    int64  `json:"used"`             // units
	Amount  int64  `json:"amount"`           // units that it may have
	Refused int64  `json:"refused"`          // requests, since memory holds it
	Shadow  bool   `json:"shadow,omitempty"` // Refused and BlockedUntil are what would be if the limit was enforced
	// BlockedUntil is when it can get another unit; nil if it can now.
	BlockedUntil *time.Time `json:"blocked_until,omitempty"`
}

// Shown returns what to call the limit beside its zone: its name, or its units if it has the zone's name.
func (k Key) Shown() string {
	if k.Limit == k.Zone && k.Units != "" {
		return k.Units
	}
	return k.Limit
}
