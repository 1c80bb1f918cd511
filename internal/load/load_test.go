package load

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

const second = int64(time.Second)

// fixed is a load that a test sets.
type fixed float64

func (f *fixed) Load(int64) float64 { return float64(*f) }

func TestSwitchTurnsOffOnlyWhenTheLoadWasLowForAWhile(t *testing.T) {
	var load fixed
	var changes []bool
	s := Switch{Measure: &load, Changed: func(on bool, _ float64) { changes = append(changes, on) }}
	for i, step := range []struct {
		at   float64 // seconds
		load fixed
		on   bool
	}{
		{1, 0.5, false}, {2, 1, false}, {3, 1.01, true}, {4, 0.9, true}, {20, 0.85, true}, {21, 0.79, true},
		{29.9, 0, true}, {30, 0, false}, {31, 0.99, false}, {32, 5, true}, {60, 0, false},
	} {
		load = step.load
		if got := s.On(int64(step.at * float64(second))); got != step.on {
			t.Errorf("step %d: got on %t, want %t", i, got, step.on)
		}
	}
	if since := s.Since(); since != 60*second {
		t.Errorf("got off since %d, want %d", since, 60*second)
	}
	if want := []bool{true, false, true, false}; !slices.Equal(changes, want) {
		t.Errorf("got changes %v, want %v", changes, want)
	}
}

// The rate of any arrivals equals that of a slow count over the last nine to ten tenths of the
// window.
func TestRateIsThatOfTheLastWindow(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	r := NewRate(10, 5*time.Second)
	var arrivals []int64
	now := 100 * second
	for range 5000 {
		now += random.Int64N(second)
		if random.IntN(500) == 0 {
			now += 20 * second
		}
		r.Add(now)
		arrivals = append(arrivals, now)
		since := func(d int64) (n float64) {
			for _, at := range slices.Backward(arrivals) {
				if now-at >= d {
					break
				}
				n++
			}
			return n / 10
		}
		if got := r.Load(now); got < since(9*second/2) || got > since(5*second) {
			t.Fatalf("got %v, want %v to %v", got, since(9*second/2), since(5*second))
		}
	}
	if got := r.Load(now + 5*second); got != 0 {
		t.Errorf("got %v when a window has passed, want 0", got)
	}
}

func TestRateOfAClockThatIsSet(t *testing.T) {
	r := NewRate(1, time.Second)
	for range 5 {
		r.Add(100 * second)
	}
	r.Add(100*second - 1)
	if got := r.Load(100*second - second/10); got != 6 {
		t.Errorf("a little earlier: got %v, want 6", got)
	}
	if got := r.Load(50 * second); got != 0 {
		t.Errorf("much earlier: got %v, want 0", got)
	}
	if r.Add(50 * second); r.Load(50*second) != 1 {
		t.Error("the rate doesn't go on")
	}
}

func TestLatencyIsTheNinthOfTen(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for range 200 {
		l := NewLatency(100 * time.Millisecond)
		n := 10 + random.IntN(1000)
		times := make([]time.Duration, n)
		for i := range times {
			times[i] = time.Duration(float64(time.Millisecond) * math.Pow(10, 4*random.Float64()))
			l.Add(times[i], 100*second+random.Int64N(4*second))
		}
		slices.Sort(times)
		want := float64(times[n-1-n/10]) / float64(100*time.Millisecond)
		if got := l.Load(104 * second); got < want || got > want*step*1.0001 {
			t.Fatalf("%d answers: got %v, want %v and at most a tenth more", n, got, want)
		}
		if got := l.Load(110 * second); got != 0 {
			t.Fatalf("got %v when all is forgotten, want 0", got)
		}
	}
}

func TestLatencyOfFewOrStrangeAnswers(t *testing.T) {
	l := NewLatency(time.Millisecond)
	for i := range leastAnswers {
		if got := l.Load(second); got != 0 {
			t.Errorf("%d answers: got %v, want 0", i, got)
		}
		l.Add(time.Hour*24*365, second)
	}
	if got := l.Load(second); got < 1000 {
		t.Errorf("answers after a year: got %v", got)
	}
	quick := NewLatency(time.Millisecond)
	for range 20 {
		quick.Add(0, second)
		quick.Add(-time.Second, second)
	}
	if got := quick.Load(second); got != 1 {
		t.Errorf("answers at once: got %v, want the least there is, 1", got)
	}
}

func TestProcessor(t *testing.T) {
	busy, all, failing := uint64(100), uint64(1000), error(nil)
	p := &Processor{bound: 0.5, read: func() (uint64, uint64, error) { return busy, all, failing }, busy: busy, all: all}
	for i, step := range []struct {
		at        int64
		busy, all uint64
		fails     error
		want      float64
	}{
		{9 * second, 101, 1001, nil, 0}, // a moment after the config was loaded: no measure yet
		{10 * second, 175, 1100, nil, 1.5},
		{10*second + 1, 999, 1200, nil, 1.5}, // sampled a moment ago
		{11 * second, 185, 1200, nil, 0.2},
		{12 * second, 0, 0, errors.New("away"), 0.2},
		{1 * second, 285, 1300, nil, 2}, // the clock was set
	} {
		busy, all, failing = step.busy, step.all, step.fails
		if got := p.Load(step.at); math.Abs(got-step.want) > 0.001 {
			t.Errorf("step %d: got %v, want %v", i, got, step.want)
		}
	}
}

func TestProcessorsOfThisMachine(t *testing.T) {
	p, err := NewProcessor(0.8)
	if err != nil {
		t.Skip(err)
	}
	if load := p.Load(time.Now().UnixNano()); load < 0 || load > 1.25 {
		t.Errorf("got %v, want from 0 to 1.25", load)
	}
	if p.all == 0 || p.busy > p.all {
		t.Errorf("busy for %d of %d ticks", p.busy, p.all)
	}
}

// A config that replaces another one continues its rates: what the two have counted is what a slow
// count over both finds.
func TestRateContinuesThatOfTheConfigBefore(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	for range 500 {
		before, after, one := NewRate(10, 5*time.Second), NewRate(10, 5*time.Second), NewRate(10, 5*time.Second)
		now := 100 * second
		for range random.IntN(30) {
			now += random.Int64N(second)
			before.Add(now)
			one.Add(now)
		}
		for range random.IntN(3) { // it serves before it is known to run
			now += random.Int64N(8 * second)
			after.Add(now)
			one.Add(now)
		}
		after.Inherit(before)
		now += random.Int64N(8 * second)
		if got, want := after.Load(now), one.Load(now); got != want {
			t.Fatalf("got %v, want %v", got, want)
		}
	}
	if NewRate(10, time.Second).IsLike(NewRate(10, time.Minute)) {
		t.Error("rates in other windows are like one another")
	}
}

func TestSwitchContinuesThatOfTheConfigBefore(t *testing.T) {
	var load fixed = 2
	before, after := Switch{Measure: &load}, Switch{Measure: &load}
	before.On(10 * second)
	after.Inherit(&before)
	load = 0
	if !after.On(19*second) || after.Since() != 10*second {
		t.Errorf("it is off before the load was low for ten seconds, or on since %d", after.Since())
	}
	if after.On(20 * second) {
		t.Error("it stays on when the load was low for ten seconds")
	}
}

// A client that leaves says that answers are slow if it has waited long, and else nothing.
func TestClientsThatLeaveAreNoFastAnswers(t *testing.T) {
	l := NewLatency(100 * time.Millisecond)
	for range 20 {
		l.Add(time.Second, 100*second)
		for range 100 {
			l.addLeft(time.Millisecond, 100*second)
		}
	}
	if got := l.Load(100 * second); got < 1 {
		t.Errorf("got %v with slow answers only, want over 1", got)
	}
	l = NewLatency(100 * time.Millisecond)
	for range 20 {
		l.addLeft(time.Second, 100*second)
	}
	if got := l.Load(100 * second); got < 1 {
		t.Errorf("got %v when all clients gave up after a second, want over 1", got)
	}
}
