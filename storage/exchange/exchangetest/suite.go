package exchangetest

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/caddy-tally/caddy-tally/limiter/region"
	"github.com/caddy-tally/caddy-tally/storage"
	"github.com/caddy-tally/caddy-tally/storage/exchange"
)

// now is the time in all tests.
const now = int64(1_800_000_000e9)

// Test tests an exchange. Each call of open connects to the same one, which is empty at first and
// used by nobody else.
func Test(t *testing.T, open func(t *testing.T) exchange.Exchange) {
	eu := site{t, open(t), exchange.Member{Component: region.Component{Region: "eu", Machine: 1}, Now: now,
		Patience: time.Minute}}
	us := site{t, open(t), exchange.Member{Component: region.Component{Region: "us", Machine: -2},
		Now: now + int64(time.Minute), Patience: time.Minute}}
	for _, test := range []struct {
		name string
		f    func(t *testing.T, eu, us site)
	}{
		{"members", testMembers}, {"marks", testMarks}, {"counts", testCounts}, {"bans", testBans},
		{"pages", testPages}, {"sweep", testSweep},
	} {
		t.Run(test.name, func(t *testing.T) {
			eu.t, us.t = t, t
			test.f(t, eu, us)
		})
	}
	t.Run("nothing is missed", func(t *testing.T) { testNothingIsMissed(t, open) })
}

// site is a member and its connection.
type site struct {
	t *testing.T
	exchange.Exchange
	exchange.Member
}

func (s *site) row(limit, key, group, units int64) exchange.Row {
	return exchange.Row{Limit: storage.LimitID(limit), Key: storage.Key{byte(key), 0, 255}, Group: group,
		Component: s.Component, Units: units, Expires: now + group*int64(time.Hour)}
}

func (s *site) publish(rows []exchange.Row, bans ...exchange.Ban) {
	s.t.Helper()
	if err := s.Publish(context.Background(), rows, bans); err != nil {
		s.t.Fatal(err)
	}
}

func (s *site) collect(after int64, limit int) exchange.News {
	s.t.Helper()
	news, err := s.Collect(context.Background(), s.Component, after, limit)
	if err != nil {
		s.t.Fatal(err)
	}
	return news
}

func (s *site) meet() exchange.Met {
	s.t.Helper()
	met, err := s.Meet(context.Background(), s.Member)
	if err != nil {
		s.t.Fatal(err)
	}
	return met
}

func (s *site) want(after int64, want ...exchange.Row) (seq int64) {
	s.t.Helper()
	news := s.collect(after, 1000)
	if fmt.Sprint(news.Rows) != fmt.Sprint(want) || news.More {
		s.t.Errorf("%s collects %v after %d, want %v", s.Region, news.Rows, after, want)
	}
	return news.Seq
}

func testMembers(t *testing.T, eu, us site) {
	if met := eu.meet(); len(met.Neighbors) != 1 || met.Neighbors[0].Region != "eu" || met.Neighbors[0].Machines != 1 {
		t.Errorf("the first member meets %+v", met)
	}
	more := eu
	more.Machine = 3
	more.meet()
	one, two := us.meet(), us.meet()
	if one.ID != two.ID || one.ID != eu.meet().ID {
		t.Error("the exchange has several numbers")
	}
	if one.Now <= 0 || two.Now < one.Now || two.Now > one.Now+int64(time.Minute) {
		t.Errorf("the time of the exchange is %d and then %d", one.Now, two.Now)
	}
	if m := eu.meet().Machines; len(m) != 2 || m[0] != 1 || m[1] != 3 || len(two.Machines) != 1 ||
		two.Machines[0] != us.Machine {
		t.Errorf("the machines of the regions are %d and %d", m, two.Machines)
	}
	if r := two.Neighbors; len(r) != 2 || r[0].Region != "eu" || r[0].Machines != 2 || r[1].Region != "us" ||
		r[0].Lag < 0 || r[0].Lag > time.Minute {
		t.Errorf("it meets %+v", two)
	}
	if err := more.Leave(context.Background(), more.Member); err != nil {
		t.Fatal(err)
	}
	if r := us.meet().Neighbors; len(r) != 2 || r[0].Machines != 1 || r[0].Gone != 0 {
		t.Errorf("after one has left, it meets %+v", r)
	}
	us.Patience = 0
	if r := us.meet().Neighbors; len(r) != 2 || r[0].Machines != 0 || r[0].Gone != 1 {
		t.Errorf("without patience, it meets %+v", r)
	}
}

// A member sees which machines have another secret or database, and how far clocks differ.
func testMarks(t *testing.T, eu, us site) {
	met := eu.meet()
	other := eu
	other.Machine, other.Secret, other.Database, other.Now = 4, storage.Key{1}, storage.Key{2}, met.Now-int64(time.Hour)
	other.meet()
	r := us.meet().Neighbors
	at := slices.IndexFunc(r, func(n exchange.Neighbor) bool { return n.Secret == other.Secret })
	if at < 0 || r[at].Region != "eu" || r[at].Database != other.Database || r[at].Machines != 1 {
		t.Fatalf("it meets %+v", r)
	}
	if ahead := r[at].Ahead; ahead > -time.Hour+time.Second || ahead < -time.Hour-time.Minute {
		t.Errorf("a clock that is an hour behind is ahead by %v", ahead)
	}
	if err := other.Leave(context.Background(), other.Member); err != nil {
		t.Fatal(err)
	}
	if r := us.meet().Neighbors; r[at].Secret != other.Secret || r[at].Machines+r[at].Gone != 0 || r[at].Ahead != 0 {
		t.Errorf("after it has left, it meets %+v", r)
	}
}

func testCounts(t *testing.T, eu, us site) {
	from := us.want(0)
	eu.publish([]exchange.Row{eu.row(1, 1, 7, 10), eu.row(1, 1, 8, 20), eu.row(-1, 2, 7, 1<<40)})
	us.publish([]exchange.Row{us.row(1, 1, 7, 5)})
	seq := us.want(from, eu.row(1, 1, 7, 10), eu.row(1, 1, 8, 20), eu.row(-1, 2, 7, 1<<40))
	eu.want(from, us.row(1, 1, 7, 5))
	us.want(seq)

	eu.publish([]exchange.Row{eu.row(1, 1, 7, 9), eu.row(1, 1, 8, 20)}) // smaller, and the same
	us.want(seq)
	eu.publish([]exchange.Row{eu.row(1, 1, 8, 21)})
	last := us.want(seq, eu.row(1, 1, 8, 21))
	if last <= seq || eu.meet().Seq < last {
		t.Errorf("the number went from %d to %d, and is %d", seq, last, eu.meet().Seq)
	}
	more := eu
	more.Machine = 3
	more.publish([]exchange.Row{more.row(1, 1, 7, 3)})
	eu.want(last, more.row(1, 1, 7, 3)) // of another machine of the region
}

func testBans(t *testing.T, eu, us site) {
	from := us.collect(0, 1000).Seq
	key := storage.Key{1, 2}
	want := make(map[string]exchange.Ban)
	publish := func(b exchange.Ban, after exchange.Ban) {
		t.Helper()
		b.Key, after.Key, after.Region = key, key, b.Region
		want[b.Region] = after
		us.publish(nil, b)
		for _, s := range []site{eu, us} { // of their own region as well
			news := s.collect(from, 1000)
			found := make(map[string]exchange.Ban)
			for _, b := range news.Bans {
				found[b.Region] = b
			}
			if !maps.Equal(found, want) {
				t.Errorf("after %+v, %s collects %+v, want %+v", b, s.Region, found, want)
			}
		}
	}
	publish(exchange.Ban{Region: "eu", At: 5, Until: now + 10, Keep: now + 10},
		exchange.Ban{At: 5, Until: now + 10, Keep: now + 10})
	// an earlier ban
	publish(exchange.Ban{Region: "eu", At: 4, Until: now + 99, Keep: now + 10},
		exchange.Ban{At: 5, Until: now + 10, Keep: now + 10})
	publish(exchange.Ban{Region: "us", Lifted: 6, Keep: now + 10}, exchange.Ban{Lifted: 6, Keep: now + 10})
	publish(exchange.Ban{Region: "us", Lifted: 5, Keep: now + 11}, exchange.Ban{Lifted: 6, Keep: now + 11})
	// a later one, shorter
	publish(exchange.Ban{Region: "eu", At: 7, Until: now + 5, Keep: now + 5},
		exchange.Ban{At: 7, Until: now + 5, Keep: now + 10})
	publish(exchange.Ban{Region: "us", At: 8, Until: now + 9, Keep: now + 9},
		exchange.Ban{At: 8, Until: now + 9, Lifted: 6, Keep: now + 11})
	seq := us.collect(0, 1000).Seq
	us.publish(nil, exchange.Ban{Key: key, Region: "us", At: 8, Until: now + 9, Lifted: 6, Keep: now + 9})
	if news := eu.collect(seq, 1000); len(news.Bans) != 0 || news.Seq != seq {
		t.Errorf("a ban that has not changed is collected again: %+v", news)
	}
}

func testPages(t *testing.T, eu, us site) {
	from := us.collect(0, 1000).Seq
	var rows []exchange.Row
	for i := range int64(25) {
		rows = append(rows, eu.row(5, i, 7, 1+i))
	}
	eu.publish(rows)
	for i := range 5 {
		eu.publish(nil, exchange.Ban{Key: storage.Key{9, byte(i)}, At: 1, Until: now + int64(time.Hour),
			Keep: now + int64(time.Hour), Region: "eu"})
	}
	found, bans := make(map[storage.Key]int64), make(map[storage.Key]bool)
	for pages := 1; ; pages++ {
		news := us.collect(from, 4)
		if len(news.Rows) > 4 || len(news.Bans) > 4 || news.Seq < from || pages > 50 {
			t.Fatalf("page %d after %d is %+v", pages, from, news)
		}
		for _, r := range news.Rows {
			found[r.Key] = r.Units
		}
		for _, b := range news.Bans {
			bans[b.Key] = true
		}
		from = news.Seq
		if !news.More {
			break
		}
	}
	if len(found) != 25 || len(bans) != 5 {
		t.Errorf("%d rows and %d bans were collected, want 25 and 5", len(found), len(bans))
	}
}

// A row is deleted when it has expired for every member, and not before, unless a clock is far behind. Of
// more rows than a sweep deletes at a time, none is left in the end.
func testSweep(t *testing.T, eu, us site) {
	met := eu.meet()
	from := eu.collect(0, 1000).Seq
	for _, c := range []struct {
		eu, us int64
		left   int
	}{{-1, -1, 1}, {-1, 1, 1}, {1, -1, 1}, {1, 1, 0}, {1, -int64(exchange.MaxBehind) - int64(time.Minute), 0}} {
		row := us.row(6, 1, 2, 1)
		row.Expires = met.Now - int64(time.Minute)
		if c.us < -1 {
			row.Expires -= int64(exchange.MaxBehind)
		}
		us.publish([]exchange.Row{row}, exchange.Ban{Key: storage.Key{7}, At: 1, Keep: row.Expires, Region: "us"})
		eu.Now, us.Now = row.Expires+c.eu, row.Expires+c.us
		eu.meet()
		us.meet()
		eu.sweep()
		if news := eu.collect(from, 1000); len(news.Rows) != c.left || len(news.Bans) != c.left {
			t.Errorf("%+v: there are %+v", c, news)
		}
	}
	var rows []exchange.Row
	for i := range int64(100) {
		row := us.row(7, i, 2, 1)
		row.Expires = met.Now - 2*int64(exchange.MaxBehind)
		rows = append(rows, row)
	}
	us.publish(rows)
	eu.sweep()
	if news := eu.collect(from, 1000); len(news.Rows) > 0 {
		t.Errorf("after a sweep, %d of %d expired rows are left", len(news.Rows), len(rows))
	}
}

func (s *site) sweep() {
	s.t.Helper()
	for {
		if more, err := s.Sweep(context.Background()); err != nil || !more {
			if err != nil {
				s.t.Fatal(err)
			}
			return
		}
	}
}

// A reader that goes on from the last number misses nothing that several write at a time.
func testNothingIsMissed(t *testing.T, open func(t *testing.T) exchange.Exchange) {
	const writers, rounds = 4, 100
	reader := site{t, open(t), exchange.Member{Component: region.Component{Region: "reader"}}}
	seq := reader.collect(0, 10000).Seq
	var writing sync.WaitGroup
	for w := range writers {
		s := site{t, open(t), exchange.Member{Component: region.Component{Region: "w", Machine: int64(w)}}}
		writing.Go(func() {
			for i := range int64(rounds) {
				rows := []exchange.Row{s.row(9, i%5, 100, 1+i), s.row(9, 5+i, 100, 1)}
				if err := s.Publish(context.Background(), rows, nil); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	done := make(chan struct{})
	go func() { writing.Wait(); close(done) }()
	found := make(map[string]int64)
	for last := false; ; {
		news := reader.collect(seq, 10000)
		seq = news.Seq
		for _, r := range news.Rows {
			found[fmt.Sprint(r.Key[0], r.Machine)] = r.Units
		}
		if last {
			break
		}
		select {
		case <-done:
			last = true
		default:
		}
	}
	if want := writers * (5 + rounds); len(found) != want {
		t.Errorf("%d rows were collected, want %d", len(found), want)
	}
	for w := range writers {
		for key := range int64(5) {
			if got, want := found[fmt.Sprint(key, int64(w))], rounds-4+key; got != want {
				t.Errorf("the row of key %d and writer %d has %d units, want %d", key, w, got, want)
			}
		}
	}
}
