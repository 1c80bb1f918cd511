package replay

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/testing/proof"
	"github.com/caddy-tally/caddy-tally/internal/wording"
	"github.com/caddy-tally/caddy-tally/limiter"
)

// spent is units at a time.
type spent struct{ at, units int64 }

// oracle counts like [demand], in the slow and obvious way: it remembers everything.
type oracle struct {
	limit  limiter.Limit
	wanted map[uint64][]spent
	peaks  map[uint64]int64
}

func newOracle(l limiter.Limit) *oracle {
	return &oracle{limit: slotted(l), wanted: make(map[uint64][]spent), peaks: make(map[uint64]int64)}
}

func (o *oracle) used(list []spent, now int64) (sum int64) {
	for _, s := range list {
		if o.limit.Slot(s.at) >= o.limit.Oldest(now) {
			sum += s.units
		}
	}
	return sum
}

func (o *oracle) add(client uint64, now, cost int64) {
	o.wanted[client] = append(o.wanted[client], spent{now, cost})
	o.peaks[client] = max(o.peaks[client], o.used(o.wanted[client], now))
}

func TestDemandIsThatOfAnOracle(t *testing.T) {
	for seed := range uint64(proof.Times(12, 40)) {
		random := rand.New(rand.NewPCG(seed, 1))
		params := []limiter.Params{
			{Amount: 10, Window: time.Second}, {Amount: 5, Window: time.Minute, Slots: 7}, {Algorithm: limiter.Fixed, Amount: 20, Window: 10 * time.Second},
			{Algorithm: limiter.TokenBucket, Amount: 10, Window: 5 * time.Second, Burst: 3},
		}[seed%4]
		l, err := limiter.New(params)
		if err != nil {
			t.Fatal(err)
		}
		d, o := newDemand(l), newOracle(l)
		now := start.UnixNano()
		for n := range 3000 {
			if random.IntN(4) == 0 {
				now += random.Int64N(int64(params.Window) / 20)
			}
			if random.IntN(500) == 0 {
				now += random.Int64N(3 * int64(params.Window))
			}
			client, cost := uint64(random.ExpFloat64()*3), int64(1)
			if random.IntN(10) == 0 {
				cost = random.Int64N(12)
			}
			d.add(client, now, cost)
			o.add(client, now, cost)
			if n%700 == 0 {
				d.sweep(now)
			}
		}
		if d.inexact {
			t.Errorf("seed %d: it isn't exact", seed)
		}
		d.clients.each(func(hash uint64, c *client) {
			if c.peak != o.peaks[hash] {
				t.Errorf("seed %d: client %d has a peak of %d, want %d", seed, hash, c.peak, o.peaks[hash])
			}
		})
		for _, row := range table(d.peaks(), l.Capacity()) {
			hit := int64(0)
			for _, peak := range o.peaks {
				if peak > row.Amount {
					hit++
				}
			}
			if row.Clients != hit {
				t.Errorf("seed %d: got %+v, want %d clients", seed, row, hit)
			}
		}
	}
}

// If the slots of all clients don't fit, the replay continues, and reports that it isn't exact.
func TestDemandIsBounded(t *testing.T) {
	l, err := limiter.New(limiter.Params{Amount: 10, Window: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	d := newDemand(l)
	d.most = 1000
	now := start.UnixNano()
	for n := range uint64(100_000) {
		now += int64(time.Second)
		d.add(n%500, now, 1)
		if n%5000 == 0 {
			d.sweep(now)
		}
	}
	if slots := d.clients.slotBytes(); !d.inexact || slots > 40_000 {
		t.Errorf("inexact is %v, the slots take %d bytes", d.inexact, slots)
	}
	if peaks := d.peaks(); len(peaks) != 500 || peaks[0] < 7 {
		t.Errorf("peaks are %v", peaks)
	}
}

func TestAmountsAround(t *testing.T) {
	for amount, want := range map[int64][]int64{
		1: {1, 2, 5, 10, 20, 50, 100}, 5: {1, 2, 5, 10, 20, 50, 100, 200, 500}, 30: {2, 5, 10, 20, 30, 50, 100, 200, 500, 1000, 2000},
	} {
		if got := amountsAround(amount); !slices.Equal(got, want) {
			t.Errorf("around %d: got %v, want %v", amount, got, want)
		}
	}
	if got := amountsAround(limiter.MaxAmount); !slices.IsSorted(got) || !slices.Contains(got, int64(limiter.MaxAmount)) {
		t.Errorf("got %v", got)
	}
}

// A timeline has few steps, however long the log is, and loses nothing.
func TestTimeline(t *testing.T) {
	var l timeline
	now, n := start.UnixNano(), int64(0)
	for step := time.Millisecond; step < 1000*time.Hour; step = step * 3 / 2 {
		l.at(now).Passed++
		l.at(now).Refused += 2
		now += int64(step)
		n++
	}
	passed, refused := int64(0), int64(0)
	for _, m := range l.counts {
		passed, refused = passed+m.Passed, refused+m.Refused
	}
	if passed != n || refused != 2*n || len(l.counts) > maxSteps {
		t.Errorf("%d and %d of %d are counted in %d steps", passed, refused, n, len(l.counts))
	}
}

// With few clients, one with far higher demand than all others doesn't determine people's limits.
// The report names it, and every limit without a suggestion has a line with the reason.
func TestOneScraperDoesNotDecideTheSuggestion(t *testing.T) {
	var log strings.Builder
	for client := range 20 {
		for n := range 7 {
			log.WriteString(line(time.Duration(n)*time.Second, fmt.Sprintf("10.0.%d.9", client), "GET", "/", 200, "Mozilla/5.0"))
		}
	}
	for n := range 68 {
		log.WriteString(line(10*time.Second+time.Duration(n)*100*time.Millisecond, "203.0.113.9", "GET", "/", 200, "scraper"))
	}
	report := replayed(t, newCounter(t, 5, time.Minute), Options{Suggest: true}, log.String())
	if len(report.Suggest) != 1 || report.Suggest[0].Amount != 20 || !strings.Contains(report.Suggest[0].Reason, "Left out, because the others want far less: 1 client: 203.0.113.") ||
		!strings.Contains(report.Suggest[0].Reason, "with 68") {
		t.Errorf("suggested is %+v", report.Suggest)
	}
	few := replayed(t, newCounter(t, 5, time.Minute), Options{Suggest: true}, line(0, "10.0.0.1", "GET", "/", 200, "Mozilla/5.0"))
	text := new(bytes.Buffer)
	if err := few.WriteText(text, wording.Look{}); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(text.String(), "no suggestion. It takes 20 clients that weren't mostly answered with 400, 401, 403 or 404. There were 1.") {
		t.Errorf("got\n%s", text)
	}
}

// No larger limit than the present one is suggested where that refuses nobody.
func TestPresentLimitIsSuggestedWhereItIsEnough(t *testing.T) {
	var log strings.Builder
	for client := range 20 {
		for n := range 5 {
			log.WriteString(line(time.Duration(n)*time.Second, fmt.Sprintf("10.0.%d.9", client), "GET", "/", 200, "Mozilla/5.0"))
		}
	}
	report := replayed(t, newCounter(t, 5, time.Minute), Options{Suggest: true}, log.String())
	if len(report.Suggest) != 1 || report.Suggest[0].Amount != 5 || !strings.Contains(report.Suggest[0].Reason, "so the present limit is enough. It would refuse 0 of them") {
		t.Errorf("suggested is %+v", report.Suggest)
	}
	text := new(bytes.Buffer)
	if err := report.WriteText(text, wording.Look{}); err != nil || !strings.Contains(text.String(), ": 5/1m. Of 20 clients") {
		t.Errorf("%v, the text is\n%s", err, text)
	}
}

// At most a fifth of the clients is left out, and none if people differ as usual.
func TestPeaksThatAreLeftOut(t *testing.T) {
	same := func(n int, units int64) []int64 { return slices.Repeat([]int64{units}, n) }
	for _, c := range []struct {
		name   string
		peaks  []int64
		wanted int
	}{
		{"one scraper", append(same(20, 7), 68), 20},
		{"three scrapers", append(same(20, 7), 68, 70, 500), 20},
		{"a quarter are scrapers", append(same(18, 7), same(6, 68)...), 24},
		{"a person in a hurry", append(same(20, 1), 5, 20), 22},
		{"a steady rise", []int64{1, 2, 4, 8, 16, 32, 64, 128, 256}, 9},
		{"many clients", append(same(1000, 7), 68), 1001},
		{"nobody", nil, 0},
	} {
		if got := len(withoutOutliers(c.peaks)); got != c.wanted {
			t.Errorf("%s: %d are left, want %d", c.name, got, c.wanted)
		}
	}
}

// The highest peaks are known for every order of requests, each client once.
func TestHighestPeaks(t *testing.T) {
	var p peaks
	for round := range int64(3) {
		for client := range 50 {
			p.note([]byte(fmt.Sprint(client)), int64(client)+round)
		}
	}
	if len(p) != maxPeaks || p[0] != (peak{"49", 51}) || p[maxPeaks-1] != (peak{"42", 44}) {
		t.Errorf("got %v", p)
	}
}
