package enforce

import (
	"net/http"
	"sync"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-tally/caddy-tally/identity"
	"github.com/caddy-tally/caddy-tally/internal/engine"
	"github.com/caddy-tally/caddy-tally/internal/httpfield"
)

// Evaluation is one request on its way to a decision: its zones, its client, its debits. It
// translates between HTTP and the engine, and is reused. It has more than seventy methods: the steps
// of that one job, in the files of the package comment. All of them read and write the same request.
type Evaluation struct {
	Handler *Handler
	Http    *http.Request
	Repl    *caddy.Replacer
	Vars    map[string]any // Caddy's variables of the request

	Credentials Credentials    // its service header or API key
	Client      *Client        // the sender; nil if no handler needs it
	Subject     *engine.Client // the subject whose record counts; nil if no zone needs it, or if it has none
	Allowed     bool           // the operator has allowed it
	Dry         bool           // only predicts the outcome: counts and reports nothing
	trapped     bool           // it visited a trap
	peeked      bool           // its body's placeholders hold the beginning
	TrapBan     time.Duration  // how long the trap bans; 0 if it doesn't

	Charges            // from enforced limits
	Shadows   Charges  // from shadow limits
	places    []place  // that it needs while in flight
	tried     []place  // that shadow limits decide about
	entered   bool     // it has taken its places
	timing    *timing  // until the answer begins; nil if it isn't measured
	open      *pending // units that await the status of the answer; or nil
	Keys      []byte   // the text of all keys
	texts     Texts    // for the values of header fields
	RefusedBy *Policy  // the limit that refuses the request regardless of counts; or nil
	broken    error    // why its body couldn't be read before it waited; or nil
	Denied    *Denial  // why a zone denies the request, regardless of other zones; or nil
}

var evaluations = sync.Pool{New: func() any { return new(Evaluation) }}

// maxPooledKeys bounds the memory that a pooled request keeps.
const maxPooledKeys = 4 << 10

func NewEvaluation(r *http.Request) *Evaluation {
	e := evaluations.Get().(*Evaluation)
	ctx := r.Context()
	e.Http = r
	e.Repl = ctx.Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
	e.Vars = ctx.Value(caddyhttp.VarsCtxKey).(map[string]any)
	return e
}

// Release gives the request back for reuse. Its data must not be used afterwards. The targets of
// its slices stay in memory until the next garbage collections empty the pool: clearing them would
// cost every request more than that.
func (e *Evaluation) Release() {
	if cap(e.Keys) > maxPooledKeys {
		e.Keys = nil
	}
	if e.Credentials.Known {
		e.Credentials = Credentials{}
	}
	e.unpeekBody()
	e.Http, e.Repl, e.Vars, e.Denied, e.open, e.timing, e.broken = nil, nil, nil, nil, nil, nil, nil
	e.Handler, e.RefusedBy, e.Client, e.Subject, e.TrapBan = nil, nil, nil, nil, 0
	e.trapped, e.Allowed, e.Dry = false, false, false
	e.Keys = e.Keys[:0]
	if e.entered {
		e.leave()
	}
	e.places, e.tried = e.places[:0], e.tried[:0]
	e.Charges.reset()
	e.Shadows.reset()
	evaluations.Put(e)
}

// scale scales a limit by a client's record, if there is one and the limit counts clients.
func (e *Evaluation) scale(d *engine.Debit, p *Policy, subject *engine.Client) {
	if p.Scaling != nil && subject != nil && (p.Zone.Per == PerClient || e.Client.Kind == identity.APIKey) {
		d.Client, d.Scaling = subject, p.Scaling
	}
}

// Begin returns the evaluation of a request, which must be released. It removes the header fields that
// later handlers must not see, whatever becomes of the request.
func (h *Handler) Begin(r *http.Request) *Evaluation {
	httpfield.KeepConnectionOptions(r.Header)
	h.App.ApplyServiceHeader(r)
	for _, field := range h.PassFields {
		httpfield.DeleteTwins(r.Header, field)
	}
	e := NewEvaluation(r)
	e.Handler = h
	if h.AddressedBy != nil {
		e.fixClientIP(h.AddressedBy)
	}
	if h.App.Networks != nil {
		e.mapNetworks()
	}
	if h.App.KnowsClients {
		e.AttachClient(h.App, h.UsesClientPlaceholders)
	}
	return e
}

// isEarly reports whether a request came before the handshake of its connection was complete, as
// TLS early data over QUIC. It may be a replay, and its address may be forged, because a single
// packet needs no reply to the sender.
func isEarly(r *http.Request) bool { return r.TLS != nil && !r.TLS.HandshakeComplete }

// AttachClient attaches the client to the request, or finds the client that an earlier handler
// attached. It sets the client's placeholders if the handler's options name them. Otherwise
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
