package storagetest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/testing/proof"
	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/storage"
)

// testAtomic makes histories without faults.
func testAtomic(t *testing.T, open storage.Opener) {
	Atomic(t, func() storage.Opener { return open }, false)
}

// Atomic makes several machines claim from one place at the same time, and checks that an order of
// atomic claims explains each history. machine returns an opener for each of them. If the caller disturbs
// the calls, their contexts end soon, so that outcomes are unknown.
func Atomic(t *testing.T, machine func() storage.Opener, disturbed bool) {
	t.Helper()
	cr := newCrowd(t, machine, disturbed)
	histories := proof.Times(4, 1000)
	if testing.Short() {
		histories = min(histories, 3)
	}
	for n := 0; n < histories || cr.together == 0 && n < 100*histories; n++ { // a fast store on an idle machine
		if calls := cr.history(); !t.Failed() {
			cr.explain(calls)
		}
		if t.Failed() {
			return
		}
	}
	proof.Figure(t, "%s", cr.figures())
	if cr.together == 0 || cr.refused == 0 || cr.undecided == histories || disturbed && cr.unknown == 0 &&
		!testing.Short() {
		t.Error("no calls were made at the same time, none was refused, no outcome was unknown, or no history was decided: nothing is proved")
	}
}

const (
	machines     = 4
	callsOfEach  = 8 // and one for each cell in the end
	keysOfOne    = 2 // history
	historyCells = 3 * keysOfOne
)

// crowd is machines that make histories.
type crowd struct {
	t         *testing.T
	limits    [3]limiter.Limit // whose windows are much longer than a history
	machines  [machines]*claimer
	disturbed bool
	moments   atomic.Int64 // beginnings and ends of calls so far

	histories, calls, claims, refused, together, unknown, failed, tried, undecided int
}

func newCrowd(t *testing.T, machine func() storage.Opener, disturbed bool) *crowd {
	t.Helper()
	cr := &crowd{t: t, disturbed: disturbed}
	for i, p := range []limiter.Params{
		{Algorithm: limiter.Sliding, Amount: 12, Window: time.Hour},
		{Algorithm: limiter.Fixed, Amount: 8, Window: 24 * time.Hour},
		{Algorithm: limiter.TokenBucket, Amount: 1, Window: limiter.MaxWindow, Burst: 10},
	} {
		cr.limits[i] = newLimit(t, p)
	}
	for i := range cr.machines {
		m := &claimer{crowd: cr, open: machine(), rand: rand.New(rand.NewPCG(rand.Uint64(), uint64(i)))}
		cr.machines[i] = m
		m.reopen()
		t.Cleanup(func() {
			if m.store != nil {
				_ = m.store.Close()
			}
		})
	}
	return cr
}

func (cr *crowd) figures() string {
	return fmt.Sprintf("%d histories of %d calls with %d claims, %d of them refused; %d pairs of calls at the same time; %d outcomes unknown, %d calls failed; %d beginnings of orders tried, %d histories have too many",
		cr.histories, cr.calls, cr.claims, cr.refused, cr.together, cr.unknown, cr.failed, cr.tried, cr.undecided)
}

// history makes one history, with keys of its own.
func (cr *crowd) history() (calls []call) {
	cr.histories++
	var group sync.WaitGroup
	begin := make(chan struct{})
	for _, m := range cr.machines {
		m.calls, m.leases = nil, make(map[int]limiter.Lease)
		group.Go(func() {
			<-begin
			for range callsOfEach {
				m.claim(m.next(), cr.disturbed)
			}
			for cell := range historyCells {
				m.askFor(cell)
			}
		})
	}
	close(begin)
	group.Wait()
	for _, m := range cr.machines {
		cr.failed, m.failed = cr.failed+m.failed, 0
		calls = append(calls, m.calls...)
	}
	return calls
}

// explain checks a history, and adds it to the figures.
func (cr *crowd) explain(calls []call) {
	explained, tried, err := isExplained(calls, historyCells)
	for i := range calls {
		cr.calls++
		cr.claims += len(calls[i].claims)
		for j, g := range calls[i].grants {
			if g.Refused(calls[i].claims[j].Claim) {
				cr.refused++
			}
		}
		if !calls[i].isKnown() {
			cr.unknown++
		}
		for j := range i {
			if calls[i].began < calls[j].ended && calls[j].began < calls[i].ended {
				cr.together++
			}
		}
	}
	if cr.tried += tried; err != nil {
		cr.undecided++ // on a busy machine, where most outcomes are unknown
	} else if !explained {
		cr.t.Errorf("no order of atomic claims explains this history:\n%s", describe(calls))
	}
}

func describe(calls []call) string {
	var text strings.Builder
	for _, c := range calls {
		fmt.Fprintf(&text, "from %d to %d, as of %d:\n", c.began, c.ended, c.now)
		for i, claim := range c.claims {
			fmt.Fprintf(&text, "\t%v limit, cell %d: %+v\n", claim.Limit.Algorithm(), c.cells[i], claim.Claim)
			if c.isKnown() {
				fmt.Fprintf(&text, "\t\t%+v\n", c.grants[i])
			}
		}
	}
	return text.String()
}

// claimer is a machine that claims.
type claimer struct {
	*crowd
	open  storage.Opener
	store storage.Store
	time  storage.Time // the last known
	rand  *rand.Rand

	// Of a history.
	calls  []call
	leases map[int]limiter.Lease // by cell
	failed int
}

// realClock reads the clocks of this process.
type realClock struct{}

var clockBegan = time.Now()

func (realClock) Read() storage.Reading {
	return storage.Reading{Wall: time.Now().UnixNano(), Steady: int64(time.Since(clockBegan)),
		Source: storage.Source{7}, Shared: true}
}

// claim makes a call, and reports whether it is answered. After a fault it opens the store again, or
// goes on with it. The context of a call that must hurry ends soon.
func (m *claimer) claim(c call, hurry bool) bool {
	if m.store == nil {
		return false
	}
	timeout := time.Minute
	if hurry {
		timeout = time.Millisecond << m.rand.IntN(10)
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	term := &storage.Term{Clock: realClock{}, Shift: m.time.Shift, Era: m.time.Era, Resets: m.time.Resets}
	grants := make([]limiter.Grant, len(c.claims))
	c.began = m.moments.Add(1)
	err := m.store.Claim(ctx, term, c.claims, grants)
	c.ended = m.moments.Add(1)
	switch {
	case err == nil:
		m.endUnknown(c.ended)
		m.time, c.now, c.grants = term.Time, term.Time.Now, grants
	case errors.Is(err, storage.ErrUnknownOutcome):
		c.ended = math.MaxInt64
	default:
		m.failed++
		if errors.Is(err, storage.ErrTerm) {
			m.time = term.Time
		} else {
			m.reopen()
		}
		return false
	}
	for i, cell := range c.cells {
		delete(m.leases, cell)
		if c.isKnown() && grants[i].Units > 0 {
			m.leases[cell] = grants[i].Lease
		}
	}
	m.calls = append(m.calls, c)
	if !c.isKnown() && m.rand.IntN(2) == 0 {
		m.reopen()
	}
	return c.isKnown()
}

// endUnknown ends calls whose outcome is unknown: they don't take effect any more.
func (m *claimer) endUnknown(ended int64) {
	for i := range m.calls {
		m.calls[i].ended = min(m.calls[i].ended, ended)
	}
}

// reopen opens the store again, as an engine does after a fault.
func (m *claimer) reopen() {
	if m.store != nil {
		_ = m.store.Close()
	}
	var err error
	for range 1000 {
		if m.store, err = m.open(context.Background()); err != nil {
			continue
		}
		if m.time, err = m.store.Time(realClock{}, 0); err == nil {
			m.endUnknown(m.moments.Add(1))
			return
		}
		_ = m.store.Close()
	}
	m.store = nil
	m.t.Errorf("open: %v", err)
}

// next returns a random call. It gives back leases of earlier ones.
func (m *claimer) next() (c call) {
	for _, cell := range m.rand.Perm(historyCells)[:1+m.rand.IntN(3)] {
		l := &m.limits[cell/keysOfOne]
		claim := limiter.Claim{Min: m.rand.Int64N(3), Extra: m.rand.Int64N(4), Ahead: m.rand.Int64N(20),
			Processes: m.rand.Int64N(3)}
		claim.Want, claim.Spread, claim.Lasts = max(claim.Min, 1)+
			m.rand.Int64N(2), m.rand.IntN(4) == 0, m.rand.Int64N(l.MaxLasts()+2)
		exact := l.CountsSlots() || !m.disturbed // else parts of units in a bucket depend on times that may be unknown
		if lease := m.leases[cell]; lease.Units > 0 && exact && m.rand.IntN(2) == 0 {
			lease.Units = m.rand.Int64N(lease.Units + 1)
			claim.Return = lease
		}
		if m.rand.IntN(10) == 0 {
			claim.Charge = limiter.Charge{Units: m.rand.Int64N(4), Floor: exact && m.rand.IntN(2) == 0}
			if l.CountsSlots() {
				claim.Charge.At = l.Slot(m.time.Now) - m.rand.Int64N(2)
			}
		}
		m.add(&c, cell, claim)
	}
	return c
}

// askFor asks for the use of a cell until it is answered. It is a call of its own: claims that want
// nothing need not be answered as of the same time as others.
func (m *claimer) askFor(cell int) {
	for range 1000 {
		var c call
		if m.add(&c, cell, limiter.Claim{}); m.claim(c, false) {
			return
		}
	}
	m.t.Error("a machine gets no answer any more")
}

func (m *claimer) add(c *call, cell int, claim limiter.Claim) {
	n := cell / keysOfOne
	c.cells = append(c.cells, cell)
	c.claims = append(c.claims,
		storage.Claim{ID: limitID(n), Key: key(m.histories*keysOfOne + cell%keysOfOne), Limit: m.limits[n],
			Claim: claim})
}
