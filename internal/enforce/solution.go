package enforce

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/caddy-tally/caddy-tally/identity"
	"github.com/caddy-tally/caddy-tally/identity/challenge"
	"github.com/caddy-tally/caddy-tally/identity/session"
	"github.com/caddy-tally/caddy-tally/identity/siteverify"
	"github.com/caddy-tally/caddy-tally/internal/engine"
	"github.com/caddy-tally/caddy-tally/internal/httpfield"
	"github.com/caddy-tally/caddy-tally/internal/language"
	"github.com/caddy-tally/caddy-tally/internal/meter"
	"github.com/caddy-tally/caddy-tally/internal/wording"
	"github.com/caddy-tally/caddy-tally/limiter"
)

// maxForm is the size of the largest accepted form, in bytes.
const maxForm = 16 << 10

// Accept issues a session for a solution, and redirects the browser.
func (x *ChallengeExchange) Accept() error {
	if status, text := x.readForm(); status != 0 {
		return x.say(status, text)
	}
	token, reason := x.check()
	if reason != "" {
		return x.reject(reason)
	}
	return x.Issue(token)
}

// isVisit reports whether the request may come from the page that continues: it is same-site, a
// browser's navigation, or a program's request. Otherwise a picture or a prefetch elsewhere could
// make a browser use up a token, and a session of its network.
func (x *ChallengeExchange) isVisit() bool {
	switch hintsOf(x.Http).Initiator {
	case identity.OwnSite:
		return !isSpeculative(x.Http.Header)
	case identity.Link:
		return isNavigation(x.Http)
	case identity.Unsaid: // browsers always send Accept
		return len(x.Http.Header["Accept"]) == 0 || isNavigation(x.Http)
	}
	return false
}

// AcceptWait issues a session for a token whose waiting time is over, and redirects the browser. It
// has limits in addition to those of solutions.
func (x *ChallengeExchange) AcceptWait(text string) error {
	token, err := x.Keys.Setter.CheckWait(time.Now(), session.Site(x.Http.Host), x.Client.NetworkID(), text)
	if err != nil {
		return x.reject(reasonOf(err))
	}
	network := x.Client.networkSubject.Key
	return x.Issue(token.Nonce,
		engine.Debit{Limit: x.Limits.waits, Key: network, Cost: 1},
		engine.Debit{Limit: x.Limits.liveWaits, Key: network, Cost: 1})
}

// Issue issues a session for a solution or a token, once, if all limits and the debits of more
// admit it.
func (x *ChallengeExchange) Issue(token [TokenSize]byte, more ...engine.Debit) error {
	d, ok := x.redeem(token, more)
	switch {
	case !ok:
		return x.refuse(noSecret, d, "This can't be done at the moment.")
	case d.Reason == engine.Abandoned:
		return errAbandoned
	case !d.Allowed && d.Debit == 0:
		if x.Http.Method == http.MethodPost { // browsers may repeat a GET on their own
			x.punish()
		}
		return x.reject(UsedBefore)
	case !d.Allowed:
		return x.refuse(tooMany, d, "Many visitors of your network have passed this check of late.")
	}
	return x.grant()
}

// readForm reads the page's form. If the form is invalid, it returns a status and a text.
func (x *ChallengeExchange) readForm() (status int, text string) {
	if kind, _, _ := mime.ParseMediaType(x.Http.Header.Get("Content-Type")); kind != "application/x-www-form-urlencoded" {
		return http.StatusUnsupportedMediaType, "Send the form of the page."
	}
	x.Http.Body = http.MaxBytesReader(x.W, x.Http.Body, maxForm)
	if err := x.Http.ParseForm(); err != nil {
		return http.StatusBadRequest, "The form can't be read."
	}
	x.asked = x.Http.PostForm.Get("target")
	return 0, ""
}

// TokenSize is the length of the token that identifies a solution.
const TokenSize = challenge.NonceSize

// check checks the solution in the form. It returns the token that identifies the solution, or the
// reason for not accepting it.
func (x *ChallengeExchange) check() (token [TokenSize]byte, reason string) {
	if x.Verifier != nil {
		return x.verify(x.Http.PostForm.Get(x.Verifier.Service().Field))
	}
	solved, err := x.Keys.Setter.Check(time.Now(), session.Site(x.Http.Host), x.Client.NetworkID(),
		x.Http.PostForm.Get("puzzle"), x.Http.PostForm.Get("solution"))
	if err != nil {
		return token, reasonOf(err)
	}
	return solved.Nonce, ""
}

// reasonOf returns the reason for not accepting a solution or a token, as metrics name it.
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
func (x *ChallengeExchange) verify(given string) (token [TokenSize]byte, reason string) {
	result := x.Verifier.Verify(x.Http.Context(), given, session.Site(x.Http.Host))
	if result.Unavailable() && x.unavailable.Admits(time.Now()) {
		x.App.Log.Warn("nobody can pass the challenge at the moment",
			zap.String("service", x.Verifier.Service().Name), zap.String("reason", string(result.Reason)), zap.Error(result.Err))
	}
	if !result.Passed() {
		return token, string(result.Reason)
	}
	sum := sha256.Sum256([]byte(given))
	copy(token[:], sum[:])
	return token, ""
}

// redeem accepts a solution or a token, once, and counts the session that is issued for it.
func (x *ChallengeExchange) redeem(token [TokenSize]byte, more []engine.Debit) (d engine.Decision, ok bool) {
	debits := []engine.Debit{
		{Limit: x.Limits.solutions, Key: append([]byte{identity.TagSolution}, token[:]...), Cost: 1},
		{Limit: x.Limits.sessions, Key: x.Client.networkSubject.Key, Cost: 1},
		{Limit: x.Limits.live, Key: x.Client.networkSubject.Key, Cost: 1},
	}
	return x.App.decide(x.Http.Context(), nil, append(debits, more...))
}

// punish punishes the client for sending a solution again.
func (x *ChallengeExchange) punish() {
	x.App.reportOffense(x.Evaluation, x.Evaluation.Identify().subject, x.App.Forged)
}

// grant issues a session, and redirects the browser.
func (x *ChallengeExchange) grant() error {
	issued, cookie, err := x.Client.Issue(x.Keys)
	if err != nil {
		return caddyhttp.Error(http.StatusInternalServerError, err)
	}
	x.Client.passRecordTo(issued)
	meter.SessionIssued()
	x.W.Header().Add("Set-Cookie", cookie)
	x.W.Header().Set("Location", x.target(x.asked))
	x.W.WriteHeader(http.StatusSeeOther)
	return nil
}

// show answers with a page that has a challenge. refused is the refusal that led to the page, or
// nil. why returns the reason for showing the page again; nil the first time.
func (x *ChallengeExchange) show(status int, target string, refused *Refusal, why notice) error {
	answer := htmlAnswer{language: languageOf(x.Http)}
	page := challenge.Page{Texts: answer.language, Site: x.Page.Refused.Site, Action: x.Path, Target: x.target(target)}
	if why != nil {
		page.Notice = why(answer.language)
	}
	if refused != nil {
		page.Retry, page.Reference = refused.Retry, refused.references()
	}
	var body bytes.Buffer
	if err := errors.Join(x.set(&page), page.Render(&body)); err != nil {
		return caddyhttp.Error(http.StatusInternalServerError, err)
	}
	answer.policy, answer.body = page.Policy(), body.Bytes()
	return answer.write(x.W, x.Http, status)
}

// notice returns the reason for showing the page again, in a language.
type notice func(*language.Texts) string

// set puts a challenge into a page.
func (x *ChallengeExchange) set(page *challenge.Page) error {
	if wait := x.WithoutScript; wait > 0 {
		token, err := x.Keys.Setter.SetWait(time.Now(), session.Site(x.Http.Host), x.Client.NetworkID(), wait)
		if err != nil {
			return err
		}
		page.Wait = &token
	}
	if x.Verifier != nil {
		service := x.Verifier.Service()
		page.Widget = &challenge.Widget{
			Script: service.Script, Class: service.Class, Sources: service.Sources,
			SiteKey: x.Verifier.SiteKey(), Action: WidgetAction,
		}
		return nil
	}
	puzzle, err := x.Keys.Setter.Set(time.Now(), session.Site(x.Http.Host), x.Client.NetworkID())
	page.Puzzle = &puzzle
	return err
}

// target returns the target of the redirect: a page of this site, but not the page of the
// challenge.
func (x *ChallengeExchange) target(text string) string {
	if text = challenge.Target(text); strings.HasPrefix(text, x.Path) {
		return "/"
	}
	return text
}

// Notices are the reasons for showing the page again.
var Notices = map[string]notice{
	UsedBefore: func(t *language.Texts) string { return t.Used },
	expired:    func(t *language.Texts) string { return t.Expired },
	foreign:    func(t *language.Texts) string { return t.Foreign },
	unsolved:   func(t *language.Texts) string { return t.Unsolved },
	early:      func(t *language.Texts) string { return t.Early },
	malformed:  func(t *language.Texts) string { return t.Unsolved },
}

// reject answers a wrong solution with another challenge.
func (x *ChallengeExchange) reject(reason string) error {
	meter.SessionRefused(reason)
	status, why := http.StatusForbidden, Notices[reason]
	switch {
	case siteverify.Result{Reason: siteverify.Reason(reason)}.Unavailable():
		status, why = http.StatusServiceUnavailable, func(t *language.Texts) string { return t.Unavailable }
	case why == nil:
		why = func(t *language.Texts) string { return t.Failed }
	}
	return x.show(status, x.asked, nil, why)
}

// refuse answers that no session is issued at the moment: to a browser with the page of refusals,
// to others with a line of text.
func (x *ChallengeExchange) refuse(reason string, d engine.Decision, text string) error {
	meter.SessionRefused(reason)
	if reason == noSecret {
		return x.say(http.StatusServiceUnavailable, text)
	}
	if d.Retry > 0 && d.Retry != limiter.Never {
		seconds := httpfield.Seconds(d.Retry)
		x.W.Header().Set(httpfield.RetryAfter, strconv.FormatInt(seconds, 10))
		text += fmt.Sprintf(" Try again in %s.", wording.Wait(d.Retry))
	}
	leaveBody(x.W, x.Http)
	if x.Page.suits(x.Http) {
		return x.Page.Refuse(x.W, x.Http, Shown{Status: http.StatusTooManyRequests, Retry: d.Retry})
	}
	return x.say(http.StatusTooManyRequests, text)
}

// say answers with a line of text.
func (x *ChallengeExchange) say(status int, text string) error {
	x.W.Header().Set("Content-Type", "text/plain; charset=utf-8")
	x.W.Header().Set("X-Content-Type-Options", "nosniff")
	x.W.WriteHeader(status)
	_, err := x.W.Write([]byte(text + "\n"))
	return err
}

// WidgetAction is the action of the tokens that the service verifies.
const WidgetAction = "rate-limit"
