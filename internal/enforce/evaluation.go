package enforce

import (
	"net/http"
	"sync"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-tally/caddy-tally/identity"
	"github.com/caddy-tally/caddy-tally/internal/answer"
	"github.com/caddy-tally/caddy-tally/internal/engine"
)

// Evaluation is one request on its way to a verdict. It translates between HTTP and the engine, and is
// reused. Its methods are the steps of the frame: see Decide.
type Evaluation struct {
	Verdict
	decider     Decider
	Credentials Credentials // its service header or API key
	forecasts   bool        // only forecasts the outcome: counts and reports nothing
	body        body
	TrapBan     time.Duration // how long a trap bans its client; 0 if it doesn't
	Keys        []byte        // the text of all keys
	keys        [][]byte      // those of the zone that is charged
	texts       answer.Texts  // for the values of header fields
}

var evaluations = sync.Pool{New: func() any { return new(Evaluation) }}

// maxPooledKeys bounds the memory that a pooled request keeps.
const maxPooledKeys = 4 << 10

func newEvaluation(r *http.Request) *Evaluation {
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
	clear(e.keys[:cap(e.keys)]) // or they would keep a large Keys
	if e.Credentials.Known {
		e.Credentials = Credentials{}
	}
	e.body.unpeek(&e.Verdict)
	if e.entered {
		e.leave()
	}
	e.Charges.reset()
	e.Shadows.reset()
	e.Verdict = Verdict{Charges: e.Charges, Shadows: e.Shadows, places: e.places[:0], tried: e.tried[:0],
		Declining: e.Declining[:0]}
	e.decider, e.forecasts, e.TrapBan, e.body = nil, false, 0, body{}
	e.Keys = e.Keys[:0]
	evaluations.Put(e)
}

// scale scales a limit by a client's record, if there is one and the limit counts clients.
func (c *Client) scale(d *engine.Debit, p *Policy, subject *engine.Client) {
	if p.Scaling != nil && subject != nil && (p.Zone.Per == PerClient || c.Kind == identity.APIKey) {
		d.Client, d.Scaling = subject, p.Scaling
	}
}

// attachClient attaches the client to the request, or finds the client that an earlier handler
// attached. It sets the client's placeholders if the handler's options name them. Otherwise
// evaluate does so once the request may pass.
func (e *Evaluation) attachClient(cfg *Config, named bool) {
	c, ok := e.Vars[clientVar].(*Client)
	if !ok {
		c = NewClient(e.Http, cfg)
		e.Vars[clientVar] = c
	}
	e.Client = c
	if named {
		c.mapPlaceholders(e)
	}
}

func NewClient(r *http.Request, cfg *Config) *Client {
	c := &Client{Config: cfg, Http: r}
	if cfg.Session != nil {
		c.stripSessionCookie()
	}
	return c
}
