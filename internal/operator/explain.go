package operator

import (
	"net/http"
	"time"
)

// Question asks about a client, a refusal, or a request that a client might make.
type Question struct {
	// Client names the client: see [ParseTarget]. A reference of a refusal is enough.
	Client string `json:"client"`
	// URL is the URL of the request, with scheme and host; "" asks about the client only.
	URL    string      `json:"url,omitempty"`
	Method string      `json:"method,omitempty"` // "" means GET
	Header http.Header `json:"headers,omitempty"`
	// Note requests an audit entry about the question, before it is answered, as for a user of the
	// dashboard.
	Note bool `json:"note,omitempty"`
	// By is the questioner, for the audit, as in [Command].
	By string `json:"-"`
}

// Explanation is the known state of a client, and the forecast of its next request.
type Explanation struct {
	Client string `json:"client"`        // as understood
	Text   string `json:"text"`          // for people
	Tag    string `json:"tag,omitempty"` // as in [Key]
	Kind   string `json:"kind"`
	// Refusal is the refusal of a reference; nil without a reference.
	Refusal *Refusal `json:"refusal,omitempty"`
	// Exempt reports whether the request is exempt from all zones.
	Exempt bool `json:"exempt,omitempty"`
	// Rule is the operator's rule that applies to it; or nil.
	Rule *Rule `json:"rule,omitempty"`
	// Ban is the automatic ban because of its violations; or nil.
	Ban        *Rule       `json:"ban,omitempty"`
	Tier       string      `json:"tier,omitempty"`
	TierReason string      `json:"tier_reason,omitempty"` // why it has that tier
	Reputation *Reputation `json:"reputation,omitempty"`  // nil if nobody keeps one
	// Squeezed is the end of the throttling of its network; nil if the network isn't throttled.
	Squeezed *time.Time   `json:"squeezed_until,omitempty"`
	Limits   []LimitState `json:"limits"`
	Next     Forecast     `json:"next"` // what its next request gets
	// Advice asks whether a peer is a proxy, so that several visitors share its limits.
	Advice []Advice `json:"advice,omitempty"`
}

// Refusal is the content of a reference.
type Refusal struct {
	Zone  string    `json:"zone"`
	Limit string    `json:"limit"`
	At    time.Time `json:"at"`
	// The rest is known while memory holds the refusal.
	Request string `json:"request,omitempty"`   // method and first segments of the path, with * for ids
	Cost    int64  `json:"cost,omitempty"`      // units
	Left    int64  `json:"remaining,omitempty"` // units that were left
	Text    string `json:"text,omitempty"`      // all of that, for people
}

// Reputation is a client's score and its causes.
type Reputation struct {
	Score      float64     `json:"score"`
	Level      string      `json:"level"`             // low, medium, high or critical risk
	Reduces    string      `json:"reduces,omitempty"` // how it reduces the limits, for people
	Violations []Violation `json:"violations,omitempty"`
}

// Violation is a violation by a client.
type Violation struct {
	At     time.Time `json:"at"`
	Zone   string    `json:"zone,omitempty"`
	Reason string    `json:"reason"`
}

// LimitState is the state of a client's units of one limit.
type LimitState struct {
	Zone    string     `json:"zone"`
	Limit   string     `json:"limit"`
	Text    string     `json:"text"`
	Counts  string     `json:"counts"`            // by what it is counted, for people
	Client  string     `json:"client,omitempty"`  // as in [Key]; "" for addresses
	Tag     string     `json:"tag,omitempty"`     // as in [Key]
	Amount  int64      `json:"amount"`            // units that it may have, with its tier and score
	Used    int64      `json:"used"`              // units
	Left    int64      `json:"left"`              // units
	Cost    int64      `json:"cost"`              // of its next request
	Refuses bool       `json:"refuses"`           // the next request
	FreeAt  *time.Time `json:"free_at,omitempty"` // when the next request passes; nil if it does now or never will
	Shadow  bool       `json:"shadow,omitempty"`  // it refuses nothing: Refuses is what it would do
}

// Forecast is the expected outcome of the next request.
type Forecast struct {
	// Outcome is allowed, over_limit, blocked, too_costly, banned, denied, exempt, failed, or
	// unknown for a client that memory doesn't hold, or whose name has no API key any more.
	Outcome string  `json:"outcome"`
	Status  int     `json:"status,omitempty"` // of the answer; 0 if the request passes
	Zone    string  `json:"zone,omitempty"`   // that refuses
	Limit   string  `json:"limit,omitempty"`
	Retry   Seconds `json:"retry_seconds,omitempty"` // 0 if no waiting is told
	// WouldRefuse names the shadow limits that would refuse the request, as zone: limit.
	WouldRefuse []string `json:"would_refuse,omitempty"`
	Text        string   `json:"text"` // a sentence for people
}
