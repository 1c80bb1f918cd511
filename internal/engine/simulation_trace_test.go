package engine

import (
	"sync"
	"testing"

	"github.com/caddy-tally/caddy-tally/internal/testing/network"
	"github.com/caddy-tally/caddy-tally/internal/testing/trace"
	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/storage"
)

// tracer writes down what machines and stores of a simulation do, and checks it against the rules of
// the protocol, see package trace. Claims are noted when they take effect, and spent units when the
// decision is known.
type tracer struct {
	mu      sync.Mutex
	trace   *trace.Trace                       // guarded by mu, like all below
	stores  map[*network.Database]*trace.Store // by what they are on
	started int
}

func newTracer() *tracer {
	return &tracer{trace: trace.New(), stores: make(map[*network.Database]*trace.Store)}
}

// start returns the number of a new machine.
func (tr *tracer) start() int {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.started++
	return tr.started
}

func (tr *tracer) crash(machine int) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.trace.Crash(machine)
}

// clone notes that a database is a copy of another one.
func (tr *tracer) clone(from, to *network.Database) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.stores[to] = tr.storeLocked(from).Clone()
}

func (tr *tracer) storeLocked(db *network.Database) *trace.Store {
	if tr.stores[db] == nil {
		tr.stores[db] = trace.NewStore()
	}
	return tr.stores[db]
}

// claimed notes claims that took effect. A nil tracer notes nothing.
func (tr *tracer) claimed(machine int, db *network.Database, at storage.Time, claims []storage.Claim, grants []limiter.Grant) {
	if tr == nil {
		return
	}
	tr.mu.Lock()
	defer tr.mu.Unlock()
	for i := range claims {
		c := &claims[i]
		tr.trace.Claimed(tr.storeLocked(db), trace.Claim{
			Machine: machine, Key: tracedKey(c.ID, keyOf(c.Key)), Limit: tracedLimit(&c.Limit), Now: at.Now, Era: at.Era,
			Back: tracedLease(&c.Return), Charge: trace.Lease{At: c.Charge.At, Units: c.Charge.Units}, Floor: c.Charge.Floor,
			Granted: trace.Lease{At: grants[i].At, Span: grants[i].Span, Units: grants[i].Units},
		})
	}
}

// spent notes units that a machine spends on a debit.
func (tr *tracer) spent(machine int, d *Debit) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.trace.Spend(machine, tracedKey(d.Limit.ID, string(d.Key)), tracedLimit(&d.Limit.Rate), d.at, d.Cost)
}

// unspent notes units of a debit that turn out not to be used.
func (tr *tracer) unspent(machine int, d *Debit, units int64) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.trace.Unspend(machine, tracedKey(d.Limit.ID, string(d.Key)), tracedLimit(&d.Limit.Rate), d.at, units)
}

// check fails if a rule was broken, or if nothing was seen.
func (tr *tracer) check(t *testing.T) {
	t.Helper()
	tr.mu.Lock()
	defer tr.mu.Unlock()
	if err := tr.trace.Err(); err != nil {
		t.Error(err)
	}
	if tr.trace.Claims == 0 || tr.trace.Spends == 0 {
		t.Errorf("the trace has %d claims, and units were spent %d times", tr.trace.Claims, tr.trace.Spends)
	}
}

func tracedKey(id storage.LimitID, key string) string { return string(rune(id)) + key }

func tracedLimit(l *limiter.Limit) trace.Limit {
	return trace.Limit{Window: int64(l.Window()), Amount: l.Amount(), Slots: l.Slots(), Fixed: l.Algorithm() == limiter.Fixed}
}

func tracedLease(ls *limiter.Lease) trace.Lease {
	return trace.Lease{At: ls.At, Span: ls.Span, Units: max(ls.Units, 0), Spent: ls.Spent, Lapsed: ls.Lapsed}
}
