package engine

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/testing/proof"
	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/storage"
)

// TestSimulationOfShares begins an outage of a fleet of one to four machines at some moment, in its
// first minute or later, and constantly asks every machine for two keys: an unused one, and one
// with a used-up limit. It checks the promises of docs/promises.md for outages, for each algorithm,
// on every machine, in every window:
//
//   - At most the share of the machine, and of all machines together 40 % of the limit, or one unit
//     for each.
//   - At least half of the share, except in the first window of a key that was used before.
//
// A run that never reached one of the cases fails.
//
// Allows: Degraded is less than exact.
func TestSimulationOfShares(t *testing.T) {
	reached := make(map[string]int)
	seeds := proof.Times(18, 1800)
	simulate(t, seeds, func(t *testing.T, seed uint64) *sharesWorld { return newSharesWorld(t, seed, reached) })
	if reached["seeds"] < seeds { // only a few seeds were requested, or one has failed
		return
	}
	cases := []string{"a window of a key that was used", "a longer burst", "calls that hang", "calls that fail"}
	for _, a := range algorithms {
		cases = append(cases, fmt.Sprint(a, " in the first minute"), fmt.Sprint(a, " later"),
			fmt.Sprint(a, " 5/1h on 4"), fmt.Sprint(a, " for less than a window"), fmt.Sprint(a, " for several windows"))
	}
	for _, c := range cases {
		if reached[c] == 0 {
			t.Errorf("never reached: %s; reached %v", c, reached)
		}
	}
}

// sharesWorld is a fleet in an outage.
type sharesWorld struct {
	*fleet
	t        *testing.T
	rng      *rand.Rand
	reached  map[string]int
	machines []*machine
	limit    *Limit
	began    int64
	last     int64 // when machines were asked last
	pause    time.Duration
	admitted map[string][][]int64 // times, by key and machine
	trace    []string
}

func newSharesWorld(t *testing.T, seed uint64, reached map[string]int) *sharesWorld {
	rng := rand.New(rand.NewPCG(seed, 3))
	w := &sharesWorld{fleet: newFleet(t, time.Millisecond), t: t, rng: rng, reached: reached, admitted: make(map[string][][]int64)}
	p := limiter.Params{
		Algorithm: algorithms[seed%3],
		Amount:    []int64{1, 3, 5, 5, 10, 40, 60}[rng.IntN(7)],
		Window:    []time.Duration{time.Second, time.Minute, time.Hour, time.Hour}[rng.IntN(4)],
	}
	if p.Algorithm == limiter.TokenBucket && rng.IntN(2) == 0 {
		p.Burst = 3 * p.Amount
	}
	w.reach("seeds")
	machines := 1 + rng.IntN(4)
	if seed%4 == 0 {
		p, machines = limiter.Params{Algorithm: p.Algorithm, Amount: 5, Window: time.Hour}, 4
	}
	w.limit = newLimit(t, p)
	w.begin(machines)
	return w
}

func (w *sharesWorld) reach(c string) { w.reached[c]++ }

// begin starts machines and then an outage.
func (w *sharesWorld) begin(n int) {
	for range n {
		w.machines = append(w.machines, w.start(0))
		time.Sleep(time.Duration(w.rng.Int64N(int64(5 * time.Second))))
	}
	p := w.limit.Rate
	if p.Capacity() > p.Amount() {
		w.reach("a longer burst")
	}
	if p.Amount() == 5 && p.Window() == time.Hour && n == 4 {
		w.reach(fmt.Sprint(p.Algorithm(), " 5/1h on 4"))
	}
	if w.rng.IntN(2) == 0 {
		time.Sleep(time.Second + time.Duration(w.rng.Int64N(int64(40*time.Second)))) // machines know of one another after a second
		w.reach(fmt.Sprint(p.Algorithm(), " in the first minute"))
	} else {
		time.Sleep(time.Minute + time.Duration(w.rng.Int64N(int64(2*time.Minute))))
		w.reach(fmt.Sprint(p.Algorithm(), " later"))
	}
	for w.machines[0].ask(debit(w.limit, "used", 1)).Allowed {
	}
	w.let(w.fault())
	for _, m := range w.machines {
		m.ask(debit(w.limit, "other", 1))
	}
	w.pause = p.Window() / 40
	if w.rng.IntN(3) == 0 {
		w.pause = p.Window() / 300
		w.reach(fmt.Sprint(p.Algorithm(), " for less than a window"))
	} else {
		w.reach(fmt.Sprint(p.Algorithm(), " for several windows"))
	}
	for _, key := range []string{"fresh", "used"} {
		w.admitted[key] = make([][]int64, n)
	}
	w.began = time.Now().UnixNano()
	w.last = w.began
	w.trace = append(w.trace, fmt.Sprintf("%d machines, %v %d/%v burst %d", n, p.Algorithm(), p.Amount(), p.Window(), p.Capacity()))
}

// fault returns the outcome of calls in the outage.
func (w *sharesWorld) fault() fateFunc {
	if w.rng.IntN(2) == 0 {
		w.reach("calls that fail")
		return func(context.Context, func() error) error { return errDisk }
	}
	w.reach("calls that hang")
	return func(ctx context.Context, _ func() error) error {
		<-ctx.Done()
		return fmt.Errorf("%w: %w", ctx.Err(), storage.ErrUnknownOutcome)
	}
}

// step lets some time pass and takes all that each machine admits.
func (w *sharesWorld) step() {
	time.Sleep(time.Duration(w.rng.Int64N(int64(w.pause))))
	for _, i := range w.rng.Perm(len(w.machines)) {
		for key, all := range w.admitted {
			all[i] = append(all[i], w.take(w.machines[i], key)...)
		}
	}
	w.last = time.Now().UnixNano()
}

// take returns the times, in the machine's counting, of all that it admits at the moment.
func (w *sharesWorld) take(m *machine, key string) (times []int64) {
	for range 2 * w.limit.Capacity() {
		debits := []Debit{debit(w.limit, key, 1)}
		if !m.ask(debits...).Allowed {
			return times
		}
		times = append(times, debits[0].at)
		w.trace = append(w.trace, fmt.Sprintf("%p admits %s at %v", m, key, time.Duration(debits[0].at-w.began)))
	}
	w.t.Errorf("%p admits more than twice the limit at once", m)
	return times
}

// end checks the admitted units against the shares.
func (w *sharesWorld) end() {
	for key, all := range w.admitted {
		for i, times := range all {
			w.checkMost(fmt.Sprintf("machine %d, %s", i, key), times, 0)
			w.checkLeast(fmt.Sprintf("machine %d, %s", i, key), times, key == "used")
		}
		together := slices.Concat(all...)
		slices.Sort(together)
		w.checkMost("all machines, "+key, together, len(all))
	}
	w.let(w.travel)
	for _, m := range w.machines {
		_ = m.Close(context.Background())
	}
}

// partOf returns 40 % of some units, and the least and most of them for one machine.
func (w *sharesWorld) partOf(units int64) (whole, least, most int64) {
	n := int64(len(w.machines))
	if n == 1 {
		whole = (units*40 + 99) / 100 // a machine alone rounds it up
		return whole, whole, whole
	}
	whole = units * 40 / 100
	return max(whole, n), max(whole/n, 1), max((whole+n-1)/n, 1)
}

// checkMost checks that no window exceeds a machine's share, or the share of all machines.
func (w *sharesWorld) checkMost(label string, times []int64, machines int) {
	amountAll, _, amount := w.partOf(w.limit.Amount())
	capacityAll, _, capacity := w.partOf(w.limit.Capacity())
	if machines > 0 {
		amount, capacity = amountAll, capacityAll
	}
	window := int64(w.limit.Window())
	first := 0
	for last, at := range times {
		most := amount
		switch w.limit.Algorithm() {
		case limiter.Sliding:
			for at-times[first] >= window {
				first++
			}
		case limiter.Fixed:
			for at/window != times[first]/window {
				first++
			}
		case limiter.TokenBucket: // of all intervals with this end, the fullest
			for from := range last + 1 {
				if sum := int64(last - from + 1); sum > capacity+(at-times[from])*amount/window+int64(max(machines, 1)) {
					w.t.Errorf("%s: %d admitted within %v", label, sum, time.Duration(at-times[from]))
					return
				}
			}
			continue
		}
		if sum := int64(last - first + 1); sum > most {
			w.t.Errorf("%s: %d admitted within %v, want at most %d", label, sum, time.Duration(at-times[first]), most)
			return
		}
	}
}

// checkLeast checks that each window of the outage has at least half of a share. A unit of a
// sliding limit is remembered for a slot longer than a window, and there is time between requests.
func (w *sharesWorld) checkLeast(label string, times []int64, used bool) {
	_, least, _ := w.partOf(w.limit.Amount())
	window, slack := int64(w.limit.Window()), 2*int64(w.pause)
	from, span := w.began, window+slack+2*int64(storage.DefaultTimeout)
	switch w.limit.Algorithm() {
	case limiter.Sliding:
		span += window / w.limit.Slots()
		if used {
			from += span
		}
	case limiter.Fixed:
		span = 2 * window // it has a whole one
		if used {
			from = (from/window + 1) * window
		}
	case limiter.TokenBucket:
		if used {
			from += window / w.limit.Amount() // the refusal by the store lasts for its retry time
		}
	}
	for ; from+span <= w.last; from += max(span/7, 1) {
		sum := int64(0)
		for _, at := range times {
			if at >= from && at <= from+span {
				sum++
			}
		}
		if sum < (least+1)/2 {
			w.t.Errorf("%s: %d admitted from %v to %v of the outage, want at least half of %d",
				label, sum, time.Duration(from-w.began), time.Duration(from+span-w.began), least)
			return
		}
		if used {
			w.reach("a window of a key that was used")
		}
	}
}

func (w *sharesWorld) traced() []string { return w.trace }
