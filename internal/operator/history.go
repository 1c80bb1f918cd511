package operator

import "time"

// HistoryQuery selects a part of the history.
type HistoryQuery struct {
	Zone       string    // "" for all, added up
	Limit      string    // "" for all, added up
	From, To   time.Time // zero values mean the last hour
	Resolution Seconds   // 60, 3600 or 86400; 0 chooses one for about 200 points
}

// History is a series.
type History struct {
	Resolution Seconds        `json:"resolution_seconds"`
	Points     []HistoryPoint `json:"points"` // in the order of time; where nothing happened there is none
	// Heaviest are the keys with the highest demand in the period, used or refused, the heaviest
	// first.
	Heaviest []Heavy `json:"heaviest,omitempty"`
}

// HistoryPoint is the decisions from At on, in a time of one resolution.
type HistoryPoint struct {
	At time.Time `json:"at"`
	Counts
	Units int64 `json:"units"`
	Keys  int64 `json:"keys"` // different ones, an estimate; of several limits, those of the one with most
}

// Heavy is a key with high usage.
type Heavy struct {
	Zone    string `json:"zone"`
	Limit   string `json:"limit"`
	Text    string `json:"key"`              // its name at rest, unless memory still knows what it is
	Client  string `json:"client,omitempty"` // as in [Key]; "" for addresses, and unless memory still knows the key
	Tag     string `json:"tag,omitempty"`    // as in [Key]; "" unless memory still knows the key
	Units   int64  `json:"units"`            // charged
	Refused int64  `json:"refused"`          // requests
}
