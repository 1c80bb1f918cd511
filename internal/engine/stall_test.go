package engine

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/testing/proof"
	"github.com/caddy-tally/caddy-tally/limiter"
)

// Calls of a store on a network stall for 0.1 to 5 seconds on their way or back, and stay below the
// timeout. A client that waits for its retry time and sends nothing meanwhile is admitted then.
func TestRetryIsTrueAfterStalls(t *testing.T) {
	refused, ahead := 0, 0
	simulate(t, proof.Times(5, 2000), func(t *testing.T, seed uint64) *stalled {
		w := newStalled(t, seed)
		w.refused, w.ahead = &refused, &ahead
		return w
	})
	if t.Logf("%d refusals, %d of them while the machine's time was ahead of the store's", refused, ahead); ahead < refused/100 || ahead == refused {
		t.Error("the machine's time was hardly ever ahead, or always")
	}
}

// stalled is a fleet of two machines whose calls stall.
type stalled struct {
	*fleet
	t        *testing.T
	rng      *rand.Rand
	machines []*machine
	limits   []*Limit

	refused, ahead *int // in all worlds: refusals, and those of machines that are ahead of the store

	log    sync.Mutex
	chance *rand.Rand // guarded by log, like all below
	trace  []string
}

func newStalled(t *testing.T, seed uint64) *stalled {
	w := &stalled{fleet: newFleet(t, time.Millisecond), t: t, rng: rand.New(rand.NewPCG(seed, 1)), chance: rand.New(rand.NewPCG(seed, 2))}
	for _, algorithm := range algorithms {
		window := []time.Duration{5 * time.Second, 20 * time.Second, time.Minute}[w.rng.IntN(3)]
		w.limits = append(w.limits, newLimit(t, limiter.Params{Algorithm: algorithm, Amount: 1 + w.rng.Int64N(4), Window: window}))
	}
	for range 2 {
		w.machines = append(w.machines, w.start(0, func(o *Options) { o.StoreTimeout = 10 * time.Minute }))
	}
	w.let(func(_ context.Context, apply func() error) error {
		time.Sleep(w.stall())
		err := apply()
		time.Sleep(w.stall())
		return err
	})
	return w
}

// stall returns how long a call takes on its way or back.
func (w *stalled) stall() time.Duration {
	w.log.Lock()
	defer w.log.Unlock()
	if w.chance.IntN(4) > 0 {
		return time.Duration(w.chance.Int64N(int64(time.Millisecond)))
	}
	return 100*time.Millisecond + time.Duration(w.chance.Int64N(int64(4900*time.Millisecond)))
}

// step sends requests of some clients at the same time.
func (w *stalled) step() {
	var group sync.WaitGroup
	for i := range 1 + w.rng.IntN(3) {
		key, limit := fmt.Sprint("key", i), w.limits[w.rng.IntN(len(w.limits))]
		m, n, pause := w.machines[w.rng.IntN(2)], 1+w.rng.IntN(8), time.Duration(w.rng.Int64N(int64(time.Second)))
		group.Go(func() { w.client(m, limit, key, n, pause) })
	}
	group.Wait()
	time.Sleep(time.Duration(w.rng.Int64N(int64(5 * time.Second))))
}

// client sends n requests of a client. If the last one is refused, the client waits as long as that
// says, and sends another one.
func (w *stalled) client(m *machine, limit *Limit, key string, n int, pause time.Duration) {
	var d Decision
	for range n {
		time.Sleep(pause)
		d = w.ask(m, limit, key)
	}
	if d.Allowed {
		return
	}
	w.noteRefusal(m)
	time.Sleep(d.Retry)
	if again := w.ask(m, limit, key); !again.Allowed {
		w.t.Errorf("%v %d/%v %s: refused for %v, and then, after %v, for another %v", limit.Algorithm(), limit.Amount(), limit.Window(), key, d.Retry, again.Waited, again.Retry)
	}
}

func (w *stalled) ask(m *machine, limit *Limit, key string) Decision {
	start := time.Now()
	d := m.ask(debit(limit, key, 1))
	w.log.Lock()
	defer w.log.Unlock()
	w.trace = append(w.trace, fmt.Sprintf("%s %p %v %s, for %v: %+v", start.Format("04:05.000000"), m, limit.Algorithm(), key, time.Since(start), d))
	if d.Degraded {
		w.t.Errorf("decided without the store: %+v", d)
	}
	return d
}

// noteRefusal counts a refusal by a machine, and whether its time is ahead of the store's.
func (w *stalled) noteRefusal(m *machine) {
	now := w.disk.Load().time(time.Now().UnixNano()).Now
	w.log.Lock()
	defer w.log.Unlock()
	if *w.refused++; m.clock.Now() > now+int64(100*time.Millisecond) {
		*w.ahead++
	}
}

func (w *stalled) end() {
	for _, m := range w.machines {
		if err := m.Close(context.Background()); err != nil {
			w.t.Error(err)
		}
	}
}

func (w *stalled) traced() []string { return w.trace }
