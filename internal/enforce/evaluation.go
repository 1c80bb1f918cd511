package enforce

import (
	"net/http"
	"sync"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-tally/caddy-tally/identity"
	"github.com/caddy-tally/caddy-tally/limiter/engine"
)

// Evaluation is one request on its way to a decision: which zones it belongs to, who has
// sent it, what it takes from which limits. It translates between HTTP and the engine, and
// is reused. Its methods, more than sixty, are the steps of that one job, in the files that
// the package comment names: all of them read and write the same request.
type Evaluation struct {
	Handler *Handler
	Http    *http.Request
	Repl    *caddy.Replacer
	Vars    map[string]any // Caddy's variables of the request

	Credentials Credentials    // its service header or API key
	Client      *Client        // the sender; nil if no handler needs it
	Subject     *engine.Client // whose record counts; nil if no zone needs it, or if it has none
	Allowed     bool           // the operator lets it pass
	Dry         bool           // it is only asked what would become of it: nothing is counted or reported
	trapped     bool           // it went into a trap
	TrapBan     time.Duration  // for how long the trap bans; 0 if it doesn't

	Charges          // of enforced limits
	Shadows Charges  // of shadow limits
	places  []place  // that it needs while it is under way
	entered bool     // it has taken them
	timing  *timing  // until the answer begins; nil if nobody wants to know
	open    *pending // what awaits the status of the answer; nil if nothing does
	Keys    []byte   // the text of all keys
	texts   Texts    // for the values of header fields
	Denies  *Policy  // the limit that refuses the request whatever was counted; or nil
	Denied  *Denial  // why a zone denies the request, whatever others count; or nil
}

var evaluations = sync.Pool{New: func() any { return new(Evaluation) }}

// maxPooledKeys bounds the memory that a reused request holds on to.
const maxPooledKeys = 4 << 10

func NewEvaluation(r *http.Request) *Evaluation {
	e := evaluations.Get().(*Evaluation)
	ctx := r.Context()
	e.Http = r
	e.Repl = ctx.Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
	e.Vars = ctx.Value(caddyhttp.VarsCtxKey).(map[string]any)
	return e
}

// Release gives the request back for reuse. Nothing of it may be used after. What
// its slices point to stays in memory until the pool is emptied, which the next
// garbage collections do; clearing them would cost every request more than that.
func (e *Evaluation) Release() {
	if cap(e.Keys) > maxPooledKeys {
		e.Keys = nil
	}
	if e.Credentials.Known {
		e.Credentials = Credentials{}
	}
	e.Http, e.Repl, e.Vars, e.Denied, e.open, e.timing = nil, nil, nil, nil, nil, nil
	e.Handler, e.Denies, e.Client, e.Subject, e.TrapBan = nil, nil, nil, nil, 0
	e.trapped, e.Allowed, e.Dry = false, false, false
	e.Keys = e.Keys[:0]
	if e.entered {
		e.leave()
	}
	e.places = e.places[:0]
	e.Charges.reset()
	e.Shadows.reset()
	evaluations.Put(e)
}

// scale has the record of a client scale a limit, if there is one and the limit counts clients.
func (e *Evaluation) scale(d *engine.Debit, p *Policy, subject *engine.Client) {
	if p.Scaling != nil && subject != nil && (p.Zone.Per == PerClient || e.Client.Kind == identity.APIKey) {
		d.Client, d.Scaling = subject, p.Scaling
	}
}

// Begin returns the evaluation of a request, which must be released.
func (h *Handler) Begin(r *http.Request) *Evaluation {
	e := NewEvaluation(r)
	e.Handler = h
	if h.AddressedBy != nil {
		e.fixClientIP(h.AddressedBy)
	}
	if h.App.KnowsClients {
		e.AttachClient(h.App, h.UsesClientPlaceholders)
	}
	return e
}

// isEarly reports whether a request has come before the handshake of its connection
// was complete, as TLS early data over QUIC. It may be a replay, and its address may be
// forged: with a single packet nobody has to receive an answer.
func isEarly(r *http.Request) bool { return r.TLS != nil && !r.TLS.HandshakeComplete }

// AttachClient attaches the client to the request, or finds the one that an earlier handler
// has attached. It sets the client's placeholders if the handler's options name them; else
// evaluate does so once the request may pass.
func (e *Evaluation) AttachClient(app *Config, named bool) {
	c, ok := e.Vars[ClientVar].(*Client)
	if !ok {
		c = NewClient(e.Http, app)
		e.Vars[ClientVar] = c
	}
	e.Client = c
	if named {
		c.mapPlaceholders(e)
	}
}

func NewClient(r *http.Request, app *Config) *Client {
	c := &Client{App: app, Http: r}
	if app.Session != nil {
		c.stripSessionCookie()
	}
	return c
}
