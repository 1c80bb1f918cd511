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
	"github.com/caddy-tally/caddy-tally/internal/wording"
	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/limiter/engine"
)

// show answers with a page that has a challenge. refused is the refusal that it is offered
// for; nil if nothing was refused.
func (x *exchange) show(status int, target string, refused *refusal, notice string) error {
	page := challenge.Page{Action: x.Path, Target: x.target(target), Notice: notice}
	if refused != nil {
		page.Retry, page.Reference = refused.retry, refused.id()
	}
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

// set puts a challenge into a page.
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

// target returns where the browser is redirected to: a page of this site, and not the page of
// the challenge.
func (x *exchange) target(text string) string {
	if text = challenge.Target(text); strings.HasPrefix(text, x.Path) {
		return "/"
	}
	return text
}

// notices say why the page is shown again.
var notices = map[string]string{
	usedBefore: "This had been solved before. Here is another one.",
	expired:    "That took too long. Here is another one.",
	foreign:    "Your network has changed meanwhile. Here is another one.",
	unsolved:   "That was not right. Here is another one.",
	malformed:  "That was not right. Here is another one.",
}

// reject answers a wrong solution with another challenge.
func (x *exchange) reject(reason string) error {
	metrics.refusedSessions.WithLabelValues(reason).Inc()
	status, notice := http.StatusForbidden, notices[reason]
	switch {
	case siteverify.Result{Reason: siteverify.Reason(reason)}.Unavailable():
		status, notice = http.StatusServiceUnavailable, "The check can’t be done at the moment. Try it again in a while."
	case notice == "":
		notice = "The check didn’t work. Try it again."
	}
	return x.show(status, x.http.PostForm.Get("target"), nil, notice)
}

// refuse answers that no session is issued at the moment.
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
