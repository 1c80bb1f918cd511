package tally

import (
	"net/http"
	"slices"

	"github.com/caddy-tally/caddy-tally/internal/rules"
	"github.com/caddy-tally/caddy-tally/limiter/engine"
)

// exchange is a request for a challenge, or with the solution of one.
type exchange struct {
	*sessions
	app        *shared
	w          http.ResponseWriter
	http       *http.Request
	evaluation *evaluation
	client     *client
	keys       *sessionKeys
	page       *refusedPages
	asked      string // the target that the request asks for
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
	early      = "early"     // handed in before the time was over
)

// elsewhereMark ends the key of requests that other sites have the browsers of a network
// send.
const elsewhereMark = 'x'

// visit counts a request for the path. It refuses a client that an operator has banned, and a
// verified client that is banned for violations. Such a ban of an unverified client may be
// meant for somebody else who sends the same header fields: a session tells the two apart.
// Unverified clients aren't looked up, because there can be any number of them.
func (x *exchange) visit() (engine.Decision, bool) {
	if stated, err := x.evaluation.statement(); err == nil && stated != nil && stated.Action == rules.Ban {
		return engine.Decision{Reason: engine.Banned, Retry: x.evaluation.bannedFor(stated)}, true
	}
	if x.evaluation.identify().Kind.Verified() {
		return x.takeFor(x.client.subject, x.limits.visits)
	}
	return x.take(x.limits.visits)
}

// take takes one unit from a limit of the client's network.
func (x *exchange) take(limit *engine.Limit) (engine.Decision, bool) { return x.takeFor(nil, limit) }

// takeFor takes one unit from a limit of the client's network, unless the subject is banned.
// Requests that other sites have the network's browsers send are counted on their own, so
// that they don't use up what the browsers' users need.
func (x *exchange) takeFor(subject *engine.Client, limit *engine.Limit) (d engine.Decision, ok bool) {
	key := x.client.networkSubject.Key
	if hintsOf(x.http).Initiator.IsOther() {
		key = append(slices.Clone(key), elsewhereMark)
	}
	debits := []engine.Debit{{Limit: limit, Key: key, Cost: 1}}
	return x.app.decide(x.http.Context(), subject, debits)
}
