package siteverify

// Reason is the result of a verification as a word, for metrics.
type Reason string

// The reasons. Those from Busy on are about the service, not the client.
const (
	OK        Reason = "ok"
	Malformed Reason = "malformed" // no token, or too long to be one
	Refused   Reason = "refused"   // not earned, expired or used before
	WrongHost Reason = "hostname"  // earned on another site
	WrongAct  Reason = "action"    // earned for something else
	TooOld    Reason = "age"       // earned too long ago, or in the future

	Busy          Reason = "busy"          // too many at once
	Unreachable   Reason = "unreachable"   // no answer, or not in time
	Unreadable    Reason = "unreadable"    // an answer that is none
	Misconfigured Reason = "misconfigured" // the service doesn't know our secret
)

// Result is the result of a verification.
type Result struct {
	Reason Reason
	Err    error // more about it, for logs; nil where the reason says it all
}

// Passed reports whether the token is valid here.
func (r Result) Passed() bool { return r.Reason == OK }

// Unavailable reports whether the service gave no answer.
func (r Result) Unavailable() bool {
	switch r.Reason {
	case Busy, Unreachable, Unreadable, Misconfigured:
		return true
	}
	return false
}
