package tally

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-tally/caddy-tally/identity/challenge"
	"github.com/caddy-tally/caddy-tally/identity/session"
	"github.com/caddy-tally/caddy-tally/identity/siteverify"
	"github.com/caddy-tally/caddy-tally/internal/httpfield"
	"github.com/caddy-tally/caddy-tally/internal/language"
	"github.com/caddy-tally/caddy-tally/internal/meter"
	"github.com/caddy-tally/caddy-tally/internal/wording"
	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/limiter/engine"
)

// show answers with a page that has a challenge. refused is the refusal that it is offered
// for; nil if nothing was refused. why says why the page is shown again; nil the first time.
func (x *exchange) show(status int, target string, refused *refusal, why notice) error {
	answer := htmlAnswer{language: languageOf(x.http)}
	page := challenge.Page{Texts: answer.language, Site: x.page.refused.Site, Action: x.Path, Target: x.target(target)}
	if why != nil {
		page.Notice = why(answer.language)
	}
	if refused != nil {
		page.Retry, page.Reference = refused.retry, refused.references()
	}
	var body bytes.Buffer
	if err := errors.Join(x.set(&page), page.Render(&body)); err != nil {
		return caddyhttp.Error(http.StatusInternalServerError, err)
	}
	answer.policy, answer.body = page.Policy(), body.Bytes()
	return answer.write(x.w, x.http, status)
}

// notice returns why the page is shown again, in a language.
type notice func(*language.Texts) string

// set puts a challenge into a page.
func (x *exchange) set(page *challenge.Page) error {
	if wait := x.withoutScript; wait > 0 {
		token, err := x.keys.setter.SetWait(time.Now(), session.Site(x.http.Host), x.client.NetworkID(), wait)
		if err != nil {
			return err
		}
		page.Wait = &token
	}
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

// target returns where the browser is redirected to: a page of this site, and not the page of
// the challenge.
func (x *exchange) target(text string) string {
	if text = challenge.Target(text); strings.HasPrefix(text, x.Path) {
		return "/"
	}
	return text
}

// notices say why the page is shown again.
var notices = map[string]notice{
	usedBefore: func(t *language.Texts) string { return t.Used },
	expired:    func(t *language.Texts) string { return t.Expired },
	foreign:    func(t *language.Texts) string { return t.Foreign },
	unsolved:   func(t *language.Texts) string { return t.Unsolved },
	early:      func(t *language.Texts) string { return t.Early },
	malformed:  func(t *language.Texts) string { return t.Unsolved },
}

// reject answers a wrong solution with another challenge.
func (x *exchange) reject(reason string) error {
	meter.SessionRefused(reason)
	status, why := http.StatusForbidden, notices[reason]
	switch {
	case siteverify.Result{Reason: siteverify.Reason(reason)}.Unavailable():
		status, why = http.StatusServiceUnavailable, func(t *language.Texts) string { return t.Unavailable }
	case why == nil:
		why = func(t *language.Texts) string { return t.Failed }
	}
	return x.show(status, x.asked, nil, why)
}

// refuse answers that no session is issued at the moment: a browser with the page of refusals,
// others with a line of text.
func (x *exchange) refuse(reason string, d engine.Decision, text string) error {
	meter.SessionRefused(reason)
	if reason == noSecret {
		return x.say(http.StatusServiceUnavailable, text)
	}
	if d.Retry > 0 && d.Retry != limiter.Never {
		seconds := httpfield.Seconds(d.Retry)
		x.w.Header().Set(httpfield.RetryAfter, strconv.FormatInt(seconds, 10))
		text += fmt.Sprintf(" Try again in %s.", wording.Wait(d.Retry))
	}
	leaveBody(x.w, x.http)
	if x.page.suits(x.http) {
		return x.page.refuse(x.w, x.http, shown{status: http.StatusTooManyRequests, retry: d.Retry})
	}
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

// widgetAction is what a service is told that its token is for.
const widgetAction = "rate-limit"
