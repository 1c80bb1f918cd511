package tally

import "net/http"

// exchange is a request for a challenge, or with the solution of one.
type exchange struct {
	*Session
	app        *App
	w          http.ResponseWriter
	http       *http.Request
	evaluation *evaluation
	client     *client
	keys       *sessionKeys
}

// Why no session is issued, as metrics have it; beside the reasons of siteverify.
const (
	noSecret   = "no_secret"
	tooOften   = "too_often" // the network has asked too often
	tooMany    = "too_many"  // the network has all the sessions it may have
	banned     = "banned"    // the client is
	usedBefore = "used"      // a solution that was accepted before
	malformed  = "malformed" // nothing that a page has sent
	foreign    = "foreign"   // another site's, another network's, or nobody's
	expired    = "expired"   // too late
	unsolved   = "unsolved"  // not a solution
)
