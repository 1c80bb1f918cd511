package tally

// outcome is what becomes of a request.
type outcome int

const (
	passed     outcome = iota // nothing limits it
	counted                   // it is within its limits: header fields say what is left
	refused                   // it is over a limit, or its client is banned: 429, or 403 if it costs too much
	challenged                // it is refused with a page that lets a browser earn a session
	denied                    // its API key or its tier is missing or wrong: 400, 401 or 403
	tooEarly                  // its connection is not established yet: 425
	abandoned                 // its client has gone
	failed                    // a matcher has failed, or the body can't be read
)

// result is the outcome of an evaluation, and what the answer needs. It is four words long, so
// that functions return it in registers: a longer one is copied in memory at each return, which
// takes longer than what most of them do.
type result struct {
	outcome  outcome
	response *response // of what is counted, refused or challenged
	err      error     // of what is denied, abandoned or failed
}
