package operator

import "time"

// HistoryQuery selects a part of the history: the requests, each counted once, or the decisions of a
// zone or limit about them.
type HistoryQuery struct {
	Zone       string    // "" for the requests
	Limit      string    // "" for the decisions of the zone
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

// HistoryPoint is the requests or decisions from At on, in a time of one resolution.
type HistoryPoint struct {
	At time.Time `json:"at"`
	Counts
	Units int64 `json:"units"` // charged, in all zones or that one
	Keys  int64 `json:"keys"`  // different ones, an estimate; of several limits, those of the one with most
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
	Precision
}

// Precision says how exact the units and refused requests of a key are: counted, or estimated from a
// sample of the decisions.
type Precision struct {
	Exact bool `json:"exact"`
	// AtLeast reports that the limit had more keys than the heaviest ones that are kept, so that some
	// minutes of the key may be missing.
	AtLeast bool `json:"at_least,omitempty"`
}

// Estimate says that the numbers are an estimate; "" if they were counted.
func (p Precision) Estimate() string {
	switch {
	case p.Exact:
		return ""
	case p.AtLeast:
		return "about, perhaps more"
	}
	return "about"
}
