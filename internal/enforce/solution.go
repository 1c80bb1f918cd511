package enforce

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/caddy-tally/caddy-tally/identity"
	"github.com/caddy-tally/caddy-tally/identity/challenge"
	"github.com/caddy-tally/caddy-tally/identity/session"
	"github.com/caddy-tally/caddy-tally/identity/siteverify"
	"github.com/caddy-tally/caddy-tally/internal/answer"
	"github.com/caddy-tally/caddy-tally/internal/engine"
	"github.com/caddy-tally/caddy-tally/internal/httpfield"
	"github.com/caddy-tally/caddy-tally/internal/language"
	"github.com/caddy-tally/caddy-tally/internal/meter"
	"github.com/caddy-tally/caddy-tally/internal/wording"
	"github.com/caddy-tally/caddy-tally/limiter"
)

// maxForm is the size of the largest accepted form, in bytes.
const maxForm = 16 << 10

// accept issues a session for a solution, and redirects the browser.
func (c *challengeExchange) accept() error {
	if status, text := c.readForm(); status != 0 {
		return c.say(status, text)
	}
	token, reason := c.check()
	if reason != "" {
		return c.reject(reason)
	}
	return c.issue(token)
}

// isVisit reports whether the request may come from the page that continues: it is same-site, a
// browser's navigation, or a program's request. Otherwise a picture or a prefetch elsewhere could
// make a browser use up a token, and a session of its network.
func (c *challengeExchange) isVisit() bool {
	switch HintsOf(c.Http).Initiator {
	case identity.OwnSite:
		return !httpfield.IsSpeculative(c.Http.Header)
	case identity.Link:
		return httpfield.IsNavigation(c.Http.Header)
	case identity.Unsaid: // browsers always send Accept
		return len(c.Http.Header["Accept"]) == 0 || httpfield.IsNavigation(c.Http.Header)
	}
	return false
}

// acceptWait issues a session for a token whose waiting time is over, and redirects the browser. It
// has limits in addition to those of solutions.
func (c *challengeExchange) acceptWait(text string) error {
	nonce, err := c.Keys.Setter.CheckWait(time.Now(), session.Site(c.Http.Host), c.Client.NetworkID(), text)
	if err != nil {
		return c.reject(reasonOf(err))
	}
	c.doubtful = httpfield.IsNavigation(c.Http.Header)
	network := c.Client.networkSubject.Key
	return c.issue(nonce,
		engine.Debit{Limit: c.Limits.waits, Key: network, Cost: 1},
		engine.Debit{Limit: c.Limits.liveWaits, Key: network, Cost: 1})
}

// issue issues a session for a solution or a token, once, if all limits and the debits of more
// admit it.
func (c *challengeExchange) issue(token [tokenSize]byte, more ...engine.Debit) error {
	d, ok := c.redeem(token, more)
	switch {
	case !ok:
		return c.refuse(noSecret, d, "This can't be done at the moment.")
	case d.Reason == engine.Abandoned:
		return answer.ErrAbandoned
	case !d.Allowed && d.Debit == 0:
		if c.Http.Method == http.MethodPost { // browsers may repeat a GET on their own
			c.punish()
		}
		return c.reject(usedBefore)
	case !d.Allowed:
		return c.refuse(tooMany, d, "Many visitors of your network have passed this check of late.")
	}
	return c.grant()
}

// readForm reads the page's form. If the form is invalid, it returns a status and a text.
func (c *challengeExchange) readForm() (status int, text string) {
	if kind, _, _ := mime.ParseMediaType(
		c.Http.Header.Get("Content-Type")); kind != "application/x-www-form-urlencoded" {
		return http.StatusUnsupportedMediaType, "Send the form of the page."
	}
	c.Http.Body = http.MaxBytesReader(c.W, c.Http.Body, maxForm)
	if err := c.Http.ParseForm(); err != nil {
		return http.StatusBadRequest, "The form can't be read."
	}
	c.asked, c.doubtful = c.Http.PostForm.Get("target"), c.Http.PostForm.Get("again") != ""
	return 0, ""
}

// tokenSize is the length of the token that identifies a solution.
const tokenSize = challenge.NonceSize

// check checks the solution in the form. It returns the token that identifies the solution, or the
// reason for not accepting it.
func (c *challengeExchange) check() (token [tokenSize]byte, reason string) {
	if c.Verifier != nil {
		return c.verify(c.Http.PostForm.Get(c.Verifier.Service().Field))
	}
	token, err := c.Keys.Setter.Check(time.Now(), session.Site(c.Http.Host), c.Client.NetworkID(),
		c.Http.PostForm.Get("puzzle"), c.Http.PostForm.Get("solution"))
	return token, reasonOf(err)
}

// reasonOf returns the reason for not accepting a solution or a token, as metrics name it; "" without an error.
func reasonOf(err error) string {
	switch {
	case err == nil:
		return ""
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
func (c *challengeExchange) verify(given string) (token [tokenSize]byte, reason string) {
	result := c.Verifier.Verify(c.Http.Context(), given, session.Site(c.Http.Host))
	if result.Unavailable() && c.unavailable.Admits(time.Now()) {
		c.Config.Log.Warn("nobody can pass the challenge at the moment",
			zap.String("service", c.Verifier.Service().Name), zap.String("reason", string(result.Reason)),
			zap.Error(result.Err))
	}
	if !result.Passed() {
		return token, string(result.Reason)
	}
	sum := sha256.Sum256([]byte(given))
	copy(token[:], sum[:])
	return token, ""
}

// redeem accepts a solution or a token, once, and counts the session that is issued for it.
func (c *challengeExchange) redeem(token [tokenSize]byte, more []engine.Debit) (d engine.Decision, ok bool) {
	debits := []engine.Debit{
		{Limit: c.Limits.solutions, Key: append([]byte{identity.TagSolution}, token[:]...), Cost: 1},
		{Limit: c.Limits.sessions, Key: c.Client.networkSubject.Key, Cost: 1},
		{Limit: c.Limits.live, Key: c.Client.networkSubject.Key, Cost: 1},
	}
	return c.Config.Decide(c.Http.Context(), nil, append(debits, more...))
}

// punish punishes the client for sending a solution again.
func (c *challengeExchange) punish() {
	c.Config.reportOffense(c.Evaluation, c.Evaluation.identify().subject, c.Config.Forged)
}

// grant issues a session, and redirects the browser.
func (c *challengeExchange) grant() error {
	issued, cookie := c.Client.issue(c.Keys)
	c.Client.passRecordTo(issued)
	meter.SessionIssued()
	c.Config.note(c.Config.Session.Solved, true)
	c.W.Header().Add("Set-Cookie", cookie)
	to := c.target(c.asked)
	if c.doubtful {
		to = c.Path + "?" + url.Values{"earned": {""}, "target": {to}}.Encode()
	}
	c.redirect(to)
	return nil
}

func (c *challengeExchange) redirect(to string) {
	c.W.Header().Set("Location", to)
	c.W.WriteHeader(http.StatusSeeOther)
}

// arrive redirects a browser that has earned a session to its target, or tells it that its cookie didn't
// come back: another challenge wouldn't help.
func (c *challengeExchange) arrive() error {
	if _, ok, _ := c.Client.shownSession(c.Client.NetworkID()); !ok {
		return c.showLink(http.StatusForbidden, c.target(c.asked), func(t *language.Texts) string { return t.NoCookie })
	}
	c.redirect(c.target(c.asked))
	return nil
}

// showLink answers with a page that says why there is no challenge on it, and has a link.
func (c *challengeExchange) showLink(status int, link string, why notice) error {
	texts := answer.LanguageOf(c.Http)
	return c.render(status, challenge.Page{Texts: texts, Site: c.Page.Refused.Site, Link: link, Notice: why(texts)})
}

// show answers with a page that has a challenge. refused is the refusal that led to the page, or
// nil. why returns the reason for showing the page again; nil the first time.
func (c *challengeExchange) show(status int, target string, refused *answer.Refusal, why notice) error {
	texts := answer.LanguageOf(c.Http)
	page := challenge.Page{Texts: texts, Site: c.Page.Refused.Site, Action: c.Path, Target: c.target(target)}
	if why != nil {
		page.Notice = why(texts)
	}
	if refused != nil {
		page.Retry, page.Reference = refused.Retry, refused.References()
	}
	c.set(&page)
	meter.ChallengeShown()
	c.Config.note(c.Config.Session.Solved, false)
	return c.render(status, page)
}

// render answers with a page.
func (c *challengeExchange) render(status int, page challenge.Page) error {
	html := answer.HTML{Policy: page.Policy(), Language: page.Texts, Body: page.Render()}
	return html.Write(c.W, c.Http, status)
}

// notice returns the reason for showing the page again, in a language.
type notice func(*language.Texts) string

// set puts a challenge into a page.
func (c *challengeExchange) set(page *challenge.Page) {
	now, site, network := time.Now(), session.Site(c.Http.Host), c.Client.NetworkID()
	if wait := c.WithoutScript; wait > 0 {
		page.Wait = new(c.Keys.Setter.SetWait(now, site, network, wait))
	}
	if c.Verifier != nil {
		service := c.Verifier.Service()
		c.W.Header().Set("Cross-Origin-Embedder-Policy", "unsafe-none") // a site's would keep the widget out
		page.Widget = &challenge.Widget{
			Script: service.Script, Class: service.Class, Sources: service.Sources,
			SiteKey: c.Verifier.SiteKey(), Action: WidgetAction,
		}
		return
	}
	page.Puzzle = new(c.Keys.Setter.Set(now, site, network))
}

// target returns the target of the redirect: a page of this site, but not the page of the
// challenge.
func (c *challengeExchange) target(text string) string {
	if text = challenge.Target(text); strings.HasPrefix(text, c.Path) {
		return "/"
	}
	return text
}

// notices are the reasons for showing the page again.
var notices = map[string]notice{
	usedBefore: func(t *language.Texts) string { return t.Used },
	expired:    func(t *language.Texts) string { return t.Expired },
	foreign:    func(t *language.Texts) string { return t.Foreign },
	unsolved:   func(t *language.Texts) string { return t.Unsolved },
	early:      func(t *language.Texts) string { return t.Early },
	malformed:  func(t *language.Texts) string { return t.Unsolved },
}

// reject answers a wrong solution with another challenge.
func (c *challengeExchange) reject(reason string) error {
	meter.SolutionRejected(reason)
	status, why := http.StatusForbidden, notices[reason]
	switch {
	case siteverify.Result{Reason: siteverify.Reason(reason)}.Unavailable():
		status, why = http.StatusServiceUnavailable, func(t *language.Texts) string { return t.Unavailable }
	case why == nil:
		why = func(t *language.Texts) string { return t.Failed }
	}
	return c.show(status, c.asked, nil, why)
}

// refuse answers that no session is issued at the moment: to a browser with the page of refusals,
// to others with a line of text.
func (c *challengeExchange) refuse(reason string, d engine.Decision, text string) error {
	meter.SessionRefused(reason)
	if reason == noSecret {
		return c.say(http.StatusServiceUnavailable, text)
	}
	if d.Retry > 0 && d.Retry != limiter.Never {
		seconds := httpfield.Seconds(d.Retry)
		c.W.Header().Set(httpfield.RetryAfter, strconv.FormatInt(seconds, 10))
		text += fmt.Sprintf(" Try again in %s.", wording.Wait(d.Retry))
	}
	answer.LeaveBody(c.W, c.Http)
	if c.Page.Suits(c.Http) {
		return c.Page.Refuse(c.W, c.Http, answer.Shown{Status: http.StatusTooManyRequests, Retry: d.Retry})
	}
	return c.say(http.StatusTooManyRequests, text)
}

// say answers with a line of text.
func (c *challengeExchange) say(status int, text string) error {
	c.W.Header().Set("Content-Type", "text/plain; charset=utf-8")
	c.W.Header().Set("X-Content-Type-Options", "nosniff")
	c.W.WriteHeader(status)
	_, err := c.W.Write([]byte(text + "\n"))
	return err
}

// WidgetAction is the action of the tokens that the service verifies.
const WidgetAction = "rate-limit"
