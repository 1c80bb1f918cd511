package operator

import "time"

// UsageQuery asks for the usage of a key in a month.
type UsageQuery struct {
	// Client is an API key (api-key:NAME) or the value of a zone's key (key:TEXT).
	Client string `json:"client,omitempty"`
	// All asks for all API keys, in place of Client.
	All bool `json:"all,omitempty"`
	// Month is a month, such as 2026-11; "" is the current one.
	Month string `json:"month,omitempty"`
	// Timezone is the time zone of the month and its days, such as Europe/Berlin; "" is UTC. With another one, the
	// month must be among the last 90 days, for which the history has hours.
	Timezone string `json:"timezone,omitempty"`
}

// Usage is the usage of a key in the history: of an API key exactly. Of other keys the history has
// only the heaviest ones of each limit and hour, and only for some days, so it is a lower bound.
type Usage struct {
	Client string     `json:"client,omitempty"` // "" for all API keys
	Month  string     `json:"month"`
	From   time.Time  `json:"from"` // the part of the month that the history still has
	To     time.Time  `json:"to"`
	Days   []UsageDay `json:"days"` // in the order of clients, time, zones and limits; days without usage are left out
}

// UsageDay is the usage of one limit on a day.
type UsageDay struct {
	Client  string `json:"client,omitempty"` // if the query is for all keys
	Day     string `json:"day"`              // such as 2026-11-22
	Zone    string `json:"zone"`
	Limit   string `json:"limit"`
	Units   int64  `json:"units"`   // charged
	Refused int64  `json:"refused"` // requests
	Precision
}
