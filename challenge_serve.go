package tally

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/caddy-tally/caddy-tally/identity"
	"github.com/caddy-tally/caddy-tally/identity/challenge"
	"github.com/caddy-tally/caddy-tally/identity/session"
	"github.com/caddy-tally/caddy-tally/identity/siteverify"
	"github.com/caddy-tally/caddy-tally/internal/httpfield"
	"github.com/caddy-tally/caddy-tally/internal/wording"
	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/limiter/engine"
)

// maxForm is how long what a page sends can be.
const maxForm = 16 << 10

// serves reports whether a path is served by the handler itself.
func (s *Session) serves(path string) bool { return s != nil && strings.HasPrefix(path, s.Path) }

// serveSession answers a request for the session's path.
func (h *Handler) serveSession(w http.ResponseWriter, r *http.Request) error {
	e := h.begin(r)
	defer e.release()
	return h.app.Session.serve(w, e)
}

// serve answers a request for the session's path: GET with a challenge, POST of a
// solution with a session. Whatever is asked for below the path counts as a visit.
func (s *Session) serve(w http.ResponseWriter, e *evaluation) error {
	if isEarly(e.http) {
		return askAgain(w)
	}
	x := &exchange{Session: s, app: e.client.app, w: w, http: e.http, evaluation: e, client: e.client}
	x.client.locate(e)
	httpfield.NeverStore(w.Header())
	if d, ok := x.visit(); d.Reason == engine.Banned {
		return x.refuse(banned, d, "This client is banned.")
	} else if !ok || !d.Allowed {
		return x.refuse(tooOften, d, "Too many requests from your network.")
	}
	if e.http.URL.Path != s.Path {
		return x.say(http.StatusNotFound, "There is nothing here.")
	}
	if e.http.Method != http.MethodGet && e.http.Method != http.MethodHead && e.http.Method != http.MethodPost {
		w.Header().Set("Allow", "GET, HEAD, POST")
		return x.say(http.StatusMethodNotAllowed, "Use GET or POST.")
	}
	if x.keys = s.ready(e.http.Context(), x.app); x.keys == nil {
		return x.refuse(noSecret, engine.Decision{}, "This can't be done at the moment.")
	}
	if e.http.Method == http.MethodPost {
		return x.accept()
	}
	return x.show(http.StatusOK, e.http.URL.Query().Get("target"), 0, "")
}

// elsewhereMark ends the key of what other sites have the browsers of a network
// ask for.
const elsewhereMark = 'x'

// visit counts a visit to the path. It is refused if the client is banned: but for one
// that is not verified, which may be a stranger who looks the same, and is told apart
// by a session. Of those nothing is looked up: they are as many as they like.
func (x *exchange) visit() (engine.Decision, bool) {
	if x.evaluation.identify().Kind.Verified() {
		return x.takeFor(x.client.subject, x.limits.visits)
	}
	return x.take(x.limits.visits)
}

// take takes one unit from a limit of the client's network.
func (x *exchange) take(limit *engine.Limit) (engine.Decision, bool) { return x.takeFor(nil, limit) }

// takeFor takes one unit from a limit of the client's network, unless the client is
// banned that it is for. What other sites have the network's browsers ask for is
// counted apart, so that it is not in the way of their users.
func (x *exchange) takeFor(stands *engine.Client, limit *engine.Limit) (d engine.Decision, ok bool) {
	key := x.client.networkSubject.Key
	if hintsOf(x.http).Initiator.IsOther() {
		key = append(slices.Clone(key), elsewhereMark)
	}
	debits := []engine.Debit{{Limit: limit, Key: key, Cost: 1}}
	return x.app.decide(x.http.Context(), stands, debits)
}

// accept issues a session for a solution, and sends the browser on.
func (x *exchange) accept() error {
	if status, text := x.readForm(); status != 0 {
		return x.say(status, text)
	}
	token, reason := x.check()
	if reason != "" {
		return x.reject(reason)
	}
	d, ok := x.redeem(token)
	switch {
	case !ok:
		return x.refuse(noSecret, d, "This can't be done at the moment.")
	case d.Reason == engine.Abandoned:
		return errAbandoned
	case !d.Allowed && d.Debit == 0:
		x.punish()
		return x.reject(usedBefore)
	case !d.Allowed:
		return x.refuse(tooMany, d, "Many visitors of your network have passed this check of late.")
	}
	return x.grant()
}

// punish punishes the client for a solution that was sent again.
func (x *exchange) punish() {
	x.app.reportOffense(x.evaluation, x.evaluation.identify().subject, x.app.forgery())
}

// readForm reads what the page sends, or returns what is wrong with it.
func (x *exchange) readForm() (status int, text string) {
	if kind, _, _ := mime.ParseMediaType(x.http.Header.Get("Content-Type")); kind != "application/x-www-form-urlencoded" {
		return http.StatusUnsupportedMediaType, "Send the form of the page."
	}
	x.http.Body = http.MaxBytesReader(x.w, x.http.Body, maxForm)
	if err := x.http.ParseForm(); err != nil {
		return http.StatusBadRequest, "The form can't be read."
	}
	return 0, ""
}

// grant issues a session, and sends the browser on.
func (x *exchange) grant() error {
	issued, cookie, err := x.client.issue(x.keys)
	if err != nil {
		return caddyhttp.Error(http.StatusInternalServerError, err)
	}
	x.client.passRecordTo(issued)
	metrics.sessions.WithLabelValues("issued").Inc()
	x.w.Header().Add("Set-Cookie", cookie)
	x.w.Header().Set("Location", x.target(x.http.PostForm.Get("target")))
	x.w.WriteHeader(http.StatusSeeOther)
	return nil
}

// tokenSize is the length of what a solution is known by.
const tokenSize = challenge.NonceSize

// check checks the solution in the form. It returns what the solution is known by,
// or why it is none.
func (x *exchange) check() (token [tokenSize]byte, reason string) {
	if x.verifier != nil {
		return x.verify(x.http.PostForm.Get(x.verifier.Service().Field))
	}
	solved, err := x.keys.setter.Check(time.Now(), session.Site(x.http.Host), x.client.NetworkID(),
		x.http.PostForm.Get("puzzle"), x.http.PostForm.Get("solution"))
	switch {
	case err == nil:
		return solved.Nonce, ""
	case errors.Is(err, challenge.ErrForeign):
		reason = foreign
	case errors.Is(err, challenge.ErrExpired):
		reason = expired
	case errors.Is(err, challenge.ErrUnsolved):
		reason = unsolved
	default:
		reason = malformed
	}
	return token, reason
}

// verify has the service check what its widget gave.
func (x *exchange) verify(given string) (token [tokenSize]byte, reason string) {
	result := x.verifier.Verify(x.http.Context(), given, session.Site(x.http.Host))
	if result.Unavailable() && x.unavailable.admits(time.Now()) {
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

// redeem accepts a solution, once, and counts the session that is issued for it.
func (x *exchange) redeem(token [tokenSize]byte) (d engine.Decision, ok bool) {
	debits := []engine.Debit{
		{Limit: x.limits.solutions, Key: append([]byte{identity.TagSolution}, token[:]...), Cost: 1},
		{Limit: x.limits.sessions, Key: x.client.networkSubject.Key, Cost: 1},
		{Limit: x.limits.live, Key: x.client.networkSubject.Key, Cost: 1},
	}
	return x.app.decide(x.http.Context(), nil, debits)
}

// notices say why a page comes again.
var notices = map[string]string{
	usedBefore: "This had been solved before. Here is another one.",
	expired:    "That took too long. Here is another one.",
	foreign:    "Your network has changed meanwhile. Here is another one.",
	unsolved:   "That was not right. Here is another one.",
	malformed:  "That was not right. Here is another one.",
}

// reject answers what is no solution with another challenge.
func (x *exchange) reject(reason string) error {
	metrics.refusedSessions.WithLabelValues(reason).Inc()
	status, notice := http.StatusForbidden, notices[reason]
	switch {
	case siteverify.Result{Reason: siteverify.Reason(reason)}.Unavailable():
		status, notice = http.StatusServiceUnavailable, "The check can’t be done at the moment. Try it again in a while."
	case notice == "":
		notice = "The check didn’t work. Try it again."
	}
	return x.show(status, x.http.PostForm.Get("target"), 0, notice)
}

// refuse answers that there is no session for now.
func (x *exchange) refuse(reason string, d engine.Decision, text string) error {
	metrics.refusedSessions.WithLabelValues(reason).Inc()
	if reason == noSecret {
		return x.say(http.StatusServiceUnavailable, text)
	}
	if d.Retry > 0 && d.Retry != limiter.Never {
		seconds := httpfield.Seconds(d.Retry)
		x.w.Header().Set(httpfield.RetryAfter, strconv.FormatInt(seconds, 10))
		text += fmt.Sprintf(" Try again in %s.", wording.Wait(d.Retry))
	}
	leaveBody(x.w, x.http)
	return x.say(http.StatusTooManyRequests, text)
}

// say answers with a line of text.
func (x *exchange) say(status int, text string) error {
	x.w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	x.w.Header().Set("X-Content-Type-Options", "nosniff")
	x.w.WriteHeader(status)
	_, err := x.w.Write([]byte(text + "\n"))
	return err
}

// show answers with a page that has a challenge.
func (x *exchange) show(status int, target string, retry time.Duration, notice string) error {
	page := challenge.Page{Action: x.Path, Target: x.target(target), Retry: retry, Notice: notice}
	var body bytes.Buffer
	if err := errors.Join(x.set(&page), page.Render(&body)); err != nil {
		return caddyhttp.Error(http.StatusInternalServerError, err)
	}
	h := x.w.Header()
	httpfield.NeverStore(h)
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", page.Policy())
	h.Set("Content-Length", strconv.Itoa(body.Len()))
	h.Set("Referrer-Policy", "same-origin")
	h.Set("X-Content-Type-Options", "nosniff")
	x.w.WriteHeader(status)
	if x.http.Method == http.MethodHead {
		return nil
	}
	_, err := body.WriteTo(x.w)
	return err
}

// set sets a page's challenge.
func (x *exchange) set(page *challenge.Page) error {
	if x.verifier != nil {
		service := x.verifier.Service()
		page.Widget = &challenge.Widget{
			Script: service.Script, Class: service.Class, Sources: service.Sources,
			SiteKey: x.verifier.SiteKey(), Action: widgetAction,
		}
		return nil
	}
	puzzle, err := x.keys.setter.Set(time.Now(), session.Site(x.http.Host), x.client.NetworkID())
	page.Puzzle = &puzzle
	return err
}

// target returns where a browser goes on to: on this site, and not in a circle.
func (x *exchange) target(text string) string {
	if text = challenge.Target(text); strings.HasPrefix(text, x.Path) {
		return "/"
	}
	return text
}
