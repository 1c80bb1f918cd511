package tally

import (
	"net/http"
	"sync"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-tally/caddy-tally/identity"
	"github.com/caddy-tally/caddy-tally/limiter/engine"
)

// evaluation is one request on its way to a decision: which zones it belongs to, who has
// sent it, what it takes from which limits. It translates between HTTP and the engine, and
// is reused.
type evaluation struct {
	handler *enforcer
	http    *http.Request
	repl    *caddy.Replacer
	vars    map[string]any // Caddy's variables of the request

	credentials credentials    // its service header or API key
	client      *client        // the sender; nil if no handler needs it
	subject     *engine.Client // whose record counts; nil if no zone needs it, or if it has none
	allowed     bool           // the operator lets it pass
	dry         bool           // it is only asked what would become of it: nothing is counted or reported
	trapped     bool           // it went into a trap
	trapBan     time.Duration  // for how long the trap bans; 0 if it doesn't

	debits   []engine.Debit
	policies []*policy // the limit of each debit
	shadows  shadows   // what the request takes from shadow limits
	open     *pending  // what awaits the status of the answer; nil if nothing does
	keys     []byte    // the text of all keys
	texts    texts     // for the values of header fields
	denies   *policy   // the limit that refuses the request whatever was counted; or nil
	denied   error     // why a zone denies the request, whatever others count; or nil
}

var evaluations = sync.Pool{New: func() any { return new(evaluation) }}

// maxPooledKeys bounds the memory that a reused request holds on to.
const maxPooledKeys = 4 << 10

func newEvaluation(r *http.Request) *evaluation {
	e := evaluations.Get().(*evaluation)
	ctx := r.Context()
	e.http = r
	e.repl = ctx.Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
	e.vars = ctx.Value(caddyhttp.VarsCtxKey).(map[string]any)
	return e
}

// release gives the request back for reuse. Nothing of it may be used after. What
// its slices point to stays in memory until the pool is emptied, which the next
// garbage collections do; clearing them would cost every request more than that.
func (e *evaluation) release() {
	if cap(e.keys) > maxPooledKeys {
		e.keys = nil
	}
	if e.credentials.known {
		e.credentials = credentials{}
	}
	e.http, e.repl, e.vars, e.denied, e.open = nil, nil, nil, nil, nil
	e.handler, e.denies, e.client, e.subject, e.trapBan = nil, nil, nil, nil, 0
	e.trapped, e.allowed, e.dry = false, false, false
	e.debits, e.policies, e.keys = e.debits[:0], e.policies[:0], e.keys[:0]
	e.shadows.reset()
	evaluations.Put(e)
}

// debit adds a debit from a limit, which still has the fields to be set that only some debits
// have. It is valid until the next one is added.
func (e *evaluation) debit(p *policy, key []byte, cost int64) *engine.Debit {
	e.policies = append(e.policies, p)
	e.debits = append(e.debits, engine.Debit{})
	d := &e.debits[len(e.debits)-1]
	d.Limit, d.Key, d.Cost, d.Counting = &p.Limit, key, cost, p.zone.counting
	return d
}

// scale has the record of a client scale a limit, if there is one and the limit counts clients.
func (e *evaluation) scale(d *engine.Debit, p *policy, subject *engine.Client) {
	if p.scaling != nil && subject != nil && (p.zone.per == perClient || e.client.Kind == identity.APIKey) {
		d.Client, d.Scaling = subject, p.scaling
	}
}
