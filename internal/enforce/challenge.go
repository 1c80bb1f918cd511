package enforce

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/cespare/xxhash/v2"

	"github.com/caddy-tally/caddy-tally/identity/challenge"
	"github.com/caddy-tally/caddy-tally/internal/answer"
	"github.com/caddy-tally/caddy-tally/internal/engine"
	"github.com/caddy-tally/caddy-tally/internal/httpfield"
	"github.com/caddy-tally/caddy-tally/internal/language"
	"github.com/caddy-tally/caddy-tally/internal/matcher"
	"github.com/caddy-tally/caddy-tally/internal/rules"
	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/storage"
)

// serves reports whether the handler itself serves a path.
func (s *Sessions) serves(path string) bool { return s != nil && strings.HasPrefix(path, s.Path) }

// serveSession answers a request for the session's path.
func (h *Handler) serveSession(w http.ResponseWriter, r *http.Request) error {
	e := h.Begin(r)
	defer e.Release()
	return h.Config.Session.serve(w, e)
}

// serve answers a request for the session's path. A GET gets a challenge, and a POST of a solution
// gets a session. Every request below the path counts as a visit.
func (s *Sessions) serve(w http.ResponseWriter, e *Evaluation) error {
	if matcher.IsEarly(e.Http) {
		return e.Handler.Answer.AskAgain(w, e.Http)
	}
	x := &challengeExchange{Sessions: s, Config: e.Client.Config, W: answer.Own(w), Http: e.Http, Evaluation: e,
		Client: e.Client, Page: e.Handler.Answer.Page}
	x.Client.locateFrom(e)
	if d, ok := x.visit(); d.Reason == engine.Banned {
		return x.refuse(banned, d, "This client is banned.")
	} else if !ok || !d.Allowed {
		return x.refuse(tooOften, d, "Too many requests from your network.")
	}
	if e.Http.URL.Path != s.Path {
		return x.say(http.StatusNotFound, "There is nothing here.")
	}
	if e.Http.Method != http.MethodGet && e.Http.Method != http.MethodHead && e.Http.Method != http.MethodPost {
		x.W.Header().Set("Allow", "GET, HEAD, POST")
		return x.say(http.StatusMethodNotAllowed, "Use GET or POST.")
	}
	if x.Keys = s.Ready(e.Http.Context(), x.Config); x.Keys == nil {
		return x.refuse(noSecret, engine.Decision{}, "This can't be done at the moment.")
	}
	if e.Http.Method == http.MethodPost {
		return x.accept()
	}
	query := e.Http.URL.Query()
	x.asked = query.Get("target")
	if query.Has("earned") {
		return x.arrive()
	}
	if token := query.Get("wait"); token != "" && e.Http.Method == http.MethodGet && s.WithoutScript > 0 {
		if !x.isVisit() {
			return x.reject(foreign)
		}
		return x.acceptWait(token)
	}
	return x.show(http.StatusOK, x.asked, nil, nil)
}

// offersChallenge reports whether to answer a refused request with a challenge: if a browser
// requested a page, also one in a frame, and a session would help its client. It sets the exchange for that.
func (e *Evaluation) offersChallenge(r *Refusal) bool {
	h := e.Handler
	if r.Retry == limiter.Never || e.Http.Method != http.MethodGet || !h.sessionHelps(e, r) ||
		!httpfield.IsNavigation(e.Http.Header) && !httpfield.IsFramed(e.Http.Header) {
		return false
	}
	x := &challengeExchange{Sessions: h.Config.Session, Config: h.Config, Http: e.Http, Client: e.Client,
		Page: h.Answer.Page}
	if d, ok := e.decider.Decide(x.Http.Context(), nil, x.debitOf(x.Limits.pages)); !ok || !d.Allowed {
		return false
	}
	if x.Keys = x.Sessions.Ready(e.Http.Context(), h.Config); x.Keys == nil {
		return false
	}
	e.Response.Refusal.Challenge = x
	return true
}

// sessionHelps reports whether the client might pass with a session. A ban of an unverified client
// may be meant for another client in its network, and a session tells the two apart. It doesn't
// help in a trap, because the browser would return to the trap with the session.
func (h *Handler) sessionHelps(e *Evaluation, r *Refusal) bool {
	switch {
	case e.trapped:
		return false
	case r.Policy == h.Banned:
		return h.Config.Session != nil && !e.Client.Kind.Verified()
	}
	return r.Policy.Zone.Challenges && !e.Client.IsVerified()
}

// Show implements answer.Challenge.
func (c *challengeExchange) Show(w http.ResponseWriter, p *answer.Response) error {
	p.SetRefusal(w)
	c.W = answer.Own(w)
	answer.LeaveBody(c.W, c.Http)
	target := originalURI(c.Http)
	if httpfield.IsFramed(c.Http.Header) { // where it may get no cookie
		return c.showLink(http.StatusTooManyRequests, c.Path+"?"+url.Values{"target": {target}}.Encode(),
			func(t *language.Texts) string { return t.Framed })
	}
	return c.show(http.StatusTooManyRequests, target, p.Refusal, nil)
}

// originalURI returns the URI of a request before other handlers changed it.
func originalURI(r *http.Request) string {
	if original, ok := r.Context().Value(caddyhttp.OriginalRequestCtxKey).(http.Request); ok {
		return original.RequestURI
	}
	return r.RequestURI
}

// challengeExchange is a request for a challenge, or one that carries a solution.
type challengeExchange struct {
	*Sessions
	Config     *Config
	W          http.ResponseWriter
	Http       *http.Request
	Evaluation *Evaluation
	Client     *Client
	Keys       *sessionKeys
	Page       *answer.Pages
	asked      string // the target of the request
	doubtful   bool   // it isn't known whether the browser keeps cookies
}

// Reasons for issuing no session, as metrics name them. siteverify has further ones.
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

// elsewhereMark ends the key of requests that other sites caused the browsers of a network to send.
const elsewhereMark = 'x'

// visit counts a request for the path. It refuses a client that an operator banned, and a verified
// client that is banned for violations. An automatic ban of an unverified client may be meant for
// another client with the same header fields: a session tells the two apart. Unverified clients
// aren't looked up, because there can be any number of them. A matcher of a rule that fails refuses no
// challenge: the requests that the session is for fail by it.
func (c *challengeExchange) visit() (engine.Decision, bool) {
	if stated, err := c.Evaluation.Rule(); err == nil && stated != nil && stated.Action == rules.Ban {
		return engine.Decision{Reason: engine.Banned, Retry: c.Evaluation.bannedFor(stated)}, true
	}
	if c.Evaluation.identify().Kind.Verified() {
		return c.takeFor(c.Client.subject, c.Limits.Visits)
	}
	return c.take(c.Limits.Visits)
}

// take takes one unit from a limit of the client's network.
func (c *challengeExchange) take(limit *engine.Limit) (engine.Decision, bool) {
	return c.takeFor(nil, limit)
}

// takeFor takes one unit from a limit of the client's network, unless the subject is banned.
// Requests that other sites cause the network's browsers to send are counted separately, so that
// they don't use up the units that the browsers' users need.
func (c *challengeExchange) takeFor(subject *engine.Client, limit *engine.Limit) (d engine.Decision, ok bool) {
	return c.Config.Decide(c.Http.Context(), subject, c.debitOf(limit))
}

// debitOf returns a unit of a limit of the client's network.
func (c *challengeExchange) debitOf(limit *engine.Limit) []engine.Debit {
	key := c.Client.networkSubject.Key
	if HintsOf(c.Http).Initiator.IsOther() {
		key = append(slices.Clone(key), elsewhereMark)
	}
	return []engine.Debit{{Limit: limit, Key: key, Cost: 1}}
}

// sessionLimits bound the use of the path where clients earn sessions. They are counted like other
// limits, so a flood creates no further state.
type sessionLimits struct {
	Visits    *engine.Limit // per network: requests for the path
	pages     *engine.Limit // per network: refused requests that are answered with a page
	sessions  *engine.Limit // per network: sessions issued in an hour
	live      *engine.Limit // per network: sessions issued or renewed in a lifetime
	waits     *engine.Limit // per network: the part of sessions that is earned by waiting
	liveWaits *engine.Limit // per network: the part of live that is earned by waiting
	renewals  *engine.Limit // per session: one in a quarter of its lifetime
	solutions *engine.Limit // per solution: one, for as long as it could be sent again
}

// A network may request the path once a second, and gets a page for a refused request every two
// seconds: a page is ten thousand bytes and takes 100 µs to make.
const (
	visitsPerMinute = 60
	pagesPerMinute  = 30
)

// waitShare divides the number of sessions that a network may have: the quotient may be earned by
// waiting. A program can wait for any number of them at once, while each puzzle takes time of its
// own.
const waitShare = 10

// NewSessionLimits returns the limits for a network's number of sessions in an hour, and its number
// of valid sessions at a time.
func NewSessionLimits(sessions, live int64, lifetime time.Duration) sessionLimits {
	lifetime = min(lifetime, limiter.MaxWindow)
	span := lifetime.String() // counts of different lifetimes are unrelated
	return sessionLimits{
		live:      ownLimit("live "+span, limiter.Params{Amount: live, Window: lifetime}),
		liveWaits: ownLimit("live waits "+span, limiter.Params{Amount: max(1, live/waitShare), Window: lifetime}),
		waits:     ownLimit("waits", limiter.Params{Amount: max(1, sessions/waitShare), Window: time.Hour}),
		renewals:  ownLimit("renewals "+span, limiter.Params{Amount: 1, Window: lifetime / 4}),
		Visits: ownLimit("visits",
			limiter.Params{Algorithm: limiter.TokenBucket, Amount: visitsPerMinute, Window: time.Minute}),
		pages: ownLimit("pages",
			limiter.Params{Algorithm: limiter.TokenBucket, Amount: pagesPerMinute, Window: time.Minute}),
		sessions:  ownLimit("sessions", limiter.Params{Amount: sessions, Window: time.Hour}),
		solutions: ownLimit("solutions", limiter.Params{Amount: 1, Window: challenge.MaxLifetime, Slots: 10}),
	}
}

// ownLimit returns a limit that belongs to no zone.
func ownLimit(name string, p limiter.Params) *engine.Limit {
	limit, err := limiter.New(p)
	if err != nil {
		panic(err) // the parameters are in this file, or checked
	}
	return &engine.Limit{ID: storage.LimitID(xxhash.Sum64String("rate_limit " + name)), Rate: limit}
}
