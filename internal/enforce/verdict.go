package enforce

import (
	"net/http"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/answer"
	"github.com/caddy-tally/caddy-tally/internal/load"
	"github.com/caddy-tally/caddy-tally/internal/settle"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-tally/caddy-tally/internal/engine"
)

// Outcome is the outcome of a request.
type Outcome int

// The outcomes. With the zero value no step has settled it yet.
const (
	undecided  Outcome = iota
	Passed             // no limit applies: it is in no zone, exempt or allowed
	Counted            // it is within its limits: header fields tell the units left
	Refused            // it is over a limit, or its client is banned: 429, or 403 if it costs too much
	Challenged         // it is refused with a page that lets a browser earn a session
	Denied             // its API key or its tier is missing or wrong: 400, 401 or 403
	Postponed          // a browser got no place in time, or Caddy is stopping: 503
	TooEarly           // its connection is not established yet: 425
	AtSessions         // it is for the path where clients earn sessions, which no zone examines
)

// Result is the outcome of a request with the data for the answer. It has at most four words: functions
// don't return a longer one in registers, but copy it in memory, which takes longer than most of them do.
type Result struct {
	Outcome  Outcome
	Response *answer.Response // if Counted, Refused or Challenged
	Denial   *answer.Denial   // why a zone denies the request; nil unless Denied, or refused by another zone
	Waiting  int64            // requests in the line, if Postponed
}

// Passes reports whether the request may go on.
func (r *Result) Passes() bool { return r.Outcome == Passed || r.Outcome == Counted }

// Refuses reports whether the request is over a limit, or its client banned.
func (r *Result) Refuses() bool { return r.Outcome == Refused || r.Outcome == Challenged }

// Verdict is the decision about a request with its reasons. Answering, settling and reporting need
// nothing else.
type Verdict struct {
	Result
	Handler *Handler
	Http    *http.Request
	Repl    *caddy.Replacer
	Vars    map[string]any // Caddy's variables of the request

	Client  *Client        // the sender; nil if no handler needs it
	Subject *engine.Client // the subject whose record counts; nil if no zone needs it, or if it has none

	Charges           // from enforced limits
	Shadows   Charges // from shadow limits
	RefusedBy *Policy // the limit that refuses the request regardless of counts; or nil
	Exempt    bool    // no zone examined it
	Allowed   bool    // the operator has allowed it
	trapped   bool    // it visited a trap
	trapBans  bool    // which bans

	Refusal  *Refusal        // if Refused or Challenged
	Decision engine.Decision // about the debits, if decided
	Decided  bool            // by the engine
	Waits    bool            // whether the request will wait, if it was forecast
	Wait     time.Duration   // how long, for its units; 0 if that isn't known

	Unzoned   bool            // it is in no zone
	Busy      *Concurrency    // no place was free; or nil
	Declining []*Zone         // zones that reject the request without counting it by a key
	places    []place         // that it needs while in flight
	tried     []place         // that shadow limits decide about
	entered   bool            // it has taken its places
	timing    *load.Timing    // until the answer begins; nil if it isn't measured
	open      *settle.Pending // units that await the status of the answer; or nil
}

// Trapped reports whether the request is refused for visiting a trap that bans.
func (v *Verdict) Trapped() bool { return v.trapBans }

// Reporter reports verdicts. It keeps none of them.
type Reporter interface {
	// Report reports the verdict about a request, or why there is none.
	Report(v *Verdict, err error)
	// Shadow reports the decision of a shadow limit about the request of a verdict.
	Shadow(v *Verdict, d *ShadowDecision)
	// ShadowLater returns what reports such decisions after the request has ended.
	ShadowLater(v *Verdict) func(d *ShadowDecision)
}
