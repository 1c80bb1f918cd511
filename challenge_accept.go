package tally

import (
	"crypto/sha256"
	"errors"
	"mime"
	"net/http"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/caddy-tally/caddy-tally/identity"
	"github.com/caddy-tally/caddy-tally/identity/challenge"
	"github.com/caddy-tally/caddy-tally/identity/session"
	"github.com/caddy-tally/caddy-tally/internal/meter"
	"github.com/caddy-tally/caddy-tally/limiter/engine"
)

// maxForm is the largest form that is read, in bytes.
const maxForm = 16 << 10

// accept issues a session for a solution, and redirects the browser.
func (x *exchange) accept() error {
	if status, text := x.readForm(); status != 0 {
		return x.say(status, text)
	}
	token, reason := x.check()
	if reason != "" {
		return x.reject(reason)
	}
	return x.settle(token)
}

// isVisit reports whether the request may be the one with which the page goes on: one of the site
// itself, of a browser that calls up a page, or of a program. A picture or a prefetch elsewhere could
// have a browser use up a token, and a session of its network.
func (x *exchange) isVisit() bool {
	switch hintsOf(x.http).Initiator {
	case identity.OwnSite:
		return !isSpeculative(x.http.Header)
	case identity.Link:
		return isNavigation(x.http)
	case identity.Unsaid: // browsers always send Accept
		return len(x.http.Header["Accept"]) == 0 || isNavigation(x.http)
	}
	return false
}

// acceptWait issues a session for a token whose time is over, and redirects the browser. It has
// limits of its own beside those of solutions.
func (x *exchange) acceptWait(text string) error {
	token, err := x.keys.setter.CheckWait(time.Now(), session.Site(x.http.Host), x.client.NetworkID(), text)
	if err != nil {
		return x.reject(reasonOf(err))
	}
	network := x.client.networkSubject.Key
	return x.settle(token.Nonce,
		engine.Debit{Limit: x.limits.waits, Key: network, Cost: 1},
		engine.Debit{Limit: x.limits.liveWaits, Key: network, Cost: 1})
}

// settle issues a session for a solution or a token, once, if that is within all limits, among
// them those of more.
func (x *exchange) settle(token [tokenSize]byte, more ...engine.Debit) error {
	d, ok := x.redeem(token, more)
	switch {
	case !ok:
		return x.refuse(noSecret, d, "This can't be done at the moment.")
	case d.Reason == engine.Abandoned:
		return errAbandoned
	case !d.Allowed && d.Debit == 0:
		if x.http.Method == http.MethodPost { // browsers may send a GET again by themselves
			x.punish()
		}
		return x.reject(usedBefore)
	case !d.Allowed:
		return x.refuse(tooMany, d, "Many visitors of your network have passed this check of late.")
	}
	return x.grant()
}

// readForm reads the form that the page sends, or returns what is wrong with it.
func (x *exchange) readForm() (status int, text string) {
	if kind, _, _ := mime.ParseMediaType(x.http.Header.Get("Content-Type")); kind != "application/x-www-form-urlencoded" {
		return http.StatusUnsupportedMediaType, "Send the form of the page."
	}
	x.http.Body = http.MaxBytesReader(x.w, x.http.Body, maxForm)
	if err := x.http.ParseForm(); err != nil {
		return http.StatusBadRequest, "The form can't be read."
	}
	x.asked = x.http.PostForm.Get("target")
	return 0, ""
}

// tokenSize is the length of the token that identifies a solution.
const tokenSize = challenge.NonceSize

// check checks the solution in the form. It returns the token that identifies the solution,
// or the reason for which it is not accepted.
func (x *exchange) check() (token [tokenSize]byte, reason string) {
	if x.verifier != nil {
		return x.verify(x.http.PostForm.Get(x.verifier.Service().Field))
	}
	solved, err := x.keys.setter.Check(time.Now(), session.Site(x.http.Host), x.client.NetworkID(),
		x.http.PostForm.Get("puzzle"), x.http.PostForm.Get("solution"))
	if err != nil {
		return token, reasonOf(err)
	}
	return solved.Nonce, ""
}

// reasonOf returns why a solution or a token is not accepted, as metrics have it.
func reasonOf(err error) string {
	switch {
	case errors.Is(err, challenge.ErrForeign):
		return foreign
	case errors.Is(err, challenge.ErrExpired):
		return expired
	case errors.Is(err, challenge.ErrUnsolved):
		return unsolved
	case errors.Is(err, challenge.ErrEarly):
		return early
	}
	return malformed
}

// verify asks the service whether the token of its widget is valid.
func (x *exchange) verify(given string) (token [tokenSize]byte, reason string) {
	result := x.verifier.Verify(x.http.Context(), given, session.Site(x.http.Host))
	if result.Unavailable() && x.unavailable.Admits(time.Now()) {
		x.app.log.Warn("nobody can pass the challenge at the moment",
			zap.String("service", x.verifier.Service().Name), zap.String("reason", string(result.Reason)), zap.Error(result.Err))
	}
	if !result.Passed() {
		return token, string(result.Reason)
	}
	sum := sha256.Sum256([]byte(given))
	copy(token[:], sum[:])
	return token, ""
}

// redeem accepts a solution or a token, once, and counts the session that is issued for it.
func (x *exchange) redeem(token [tokenSize]byte, more []engine.Debit) (d engine.Decision, ok bool) {
	debits := []engine.Debit{
		{Limit: x.limits.solutions, Key: append([]byte{identity.TagSolution}, token[:]...), Cost: 1},
		{Limit: x.limits.sessions, Key: x.client.networkSubject.Key, Cost: 1},
		{Limit: x.limits.live, Key: x.client.networkSubject.Key, Cost: 1},
	}
	return x.app.decide(x.http.Context(), nil, append(debits, more...))
}

// punish punishes the client for a solution that was sent again.
func (x *exchange) punish() {
	x.app.reportOffense(x.evaluation, x.evaluation.identify().subject, x.app.forged)
}

// grant issues a session, and redirects the browser.
func (x *exchange) grant() error {
	issued, cookie, err := x.client.issue(x.keys)
	if err != nil {
		return caddyhttp.Error(http.StatusInternalServerError, err)
	}
	x.client.passRecordTo(issued)
	meter.SessionIssued()
	x.w.Header().Add("Set-Cookie", cookie)
	x.w.Header().Set("Location", x.target(x.asked))
	x.w.WriteHeader(http.StatusSeeOther)
	return nil
}
