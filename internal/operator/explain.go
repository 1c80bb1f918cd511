package operator

import (
	"net/http"
	"time"
)

// Question asks about a client, a refusal, or a request that a client might make.
type Question struct {
	// Client names who it is about: see [ParseTarget]. A reference of a refusal is enough.
	Client string `json:"client"`
	// URL is that of the request, with scheme and host; "" asks about the client only.
	URL    string      `json:"url,omitempty"`
	Method string      `json:"method,omitempty"` // "" means GET
	Header http.Header `json:"headers,omitempty"`
	// Note says that the audit notes the question, before it is answered, as for a reader of the
	// dashboard.
	Note bool `json:"note,omitempty"`
	// By is who asks, for the audit, as in [Order].
	By string `json:"-"`
}

// Explanation is all that is known of a client, and what its next request gets.
type Explanation struct {
	Client string `json:"client"`        // as understood
	Text   string `json:"text"`          // for people
	Tag    string `json:"tag,omitempty"` // as in [Key]
	Kind   string `json:"kind"`
	// Refusal is what a reference was about; nil if none was given.
	Refusal *Refusal `json:"refusal,omitempty"`
	// Exempt reports whether the request is exempt from all zones.
	Exempt bool `json:"exempt,omitempty"`
	// Rule is the statement of an operator that holds for it; nil if none does.
	Rule *Ban `json:"rule,omitempty"`
	// Ban is the ban that its conduct has earned; nil if none has.
	Ban        *Ban        `json:"ban,omitempty"`
	Tier       string      `json:"tier,omitempty"`
	TierReason string      `json:"tier_reason,omitempty"` // why it has that tier
	Reputation *Reputation `json:"reputation,omitempty"`  // nil if nobody keeps one
	// Squeezed is until when its network has smaller limits, since too many clients came
	// from it; nil if it hasn't.
	Squeezed *time.Time   `json:"squeezed_until,omitempty"`
	Limits   []LimitState `json:"limits"`
	Next     Forecast     `json:"next"` // what its next request gets
}

// Refusal is what a reference tells.
type Refusal struct {
	Zone  string    `json:"zone"`
	Limit string    `json:"limit"`
	At    time.Time `json:"at"`
	// The rest is known as long as memory holds the refusal.
	Request string `json:"request,omitempty"`   // method and first segments of the path, with * for ids
	Cost    int64  `json:"cost,omitempty"`      // units
	Left    int64  `json:"remaining,omitempty"` // units that were left
	Text    string `json:"text,omitempty"`      // all of that, for people
}

// Reputation is a client's score and where that is from.
type Reputation struct {
	Score      float64     `json:"score"`
	Level      string      `json:"level"` // low, medium, high or critical risk
	Violations []Violation `json:"violations,omitempty"`
}

// Violation is something a client did.
type Violation struct {
	At     time.Time `json:"at"`
	Zone   string    `json:"zone,omitempty"`
	Reason string    `json:"reason"`
}

// LimitState is how a client stands with one limit.
type LimitState struct {
	Zone    string     `json:"zone"`
	Limit   string     `json:"limit"`
	Text    string     `json:"text"`
	Counts  string     `json:"counts"`            // by what it is counted, for people
	Amount  int64      `json:"amount"`            // units that it may have, with its tier and score
	Used    int64      `json:"used"`              // units
	Left    int64      `json:"left"`              // units
	Cost    int64      `json:"cost"`              // of its next request
	Refuses bool       `json:"refuses"`           // the next request
	FreeAt  *time.Time `json:"free_at,omitempty"` // when the next request passes; nil if it does now or never will
	Shadow  bool       `json:"shadow,omitempty"`  // it refuses nothing: Refuses is what it would do
}

// Forecast is what the next request gets.
type Forecast struct {
	// Outcome is allowed, over_limit, blocked, too_costly, banned, denied, exempt, failed, or
	// unknown if a reference is of a client that memory doesn't hold.
	Outcome string  `json:"outcome"`
	Status  int     `json:"status,omitempty"` // of the answer; 0 if the request passes
	Zone    string  `json:"zone,omitempty"`   // that refuses
	Limit   string  `json:"limit,omitempty"`
	Retry   Seconds `json:"retry_seconds,omitempty"` // 0 if no waiting is told
	// WouldRefuse names the shadow limits that would refuse the request, as zone: limit.
	WouldRefuse []string `json:"would_refuse,omitempty"`
	Text        string   `json:"text"` // a sentence for people
}
