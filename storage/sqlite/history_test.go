package sqlite

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/distinct"
	"github.com/caddy-tally/caddy-tally/internal/outcomes"
	"github.com/caddy-tally/caddy-tally/storage"
	"github.com/caddy-tally/caddy-tally/storage/storagetest"
)

// minutesOf returns the counts of a busy process in a minute: of n limits, two in each zone, and of
// the zones.
func minutesOf(at int64, n int) (minutes []storage.Minute) {
	add := func(series storage.Series, heavy int) {
		var keys distinct.Set
		for i := range 300 {
			keys.Add(uint64(at+int64(i)) * 0x9e3779b97f4a7c15)
		}
		m := storage.Minute{At: at, Series: series, Keys: keys.Take(),
			Tally: storage.Tally{Counts: outcomes.Counts{Allowed: 5000, Refused: 300, Blocked: 280, Banned: 3}, Units: 7000}}
		for i := range heavy {
			m.Heaviest = append(m.Heaviest, storage.HeavyKey{Key: key(uint64(i) + uint64(at/int64(time.Minute))%5), Units: 100, Refused: 5})
		}
		minutes = append(minutes, m)
	}
	for i := range n {
		zone := fmt.Sprint("zone ", i/2)
		if i%2 == 0 {
			add(storage.Series{Zone: zone}, 0)
		}
		add(storage.Series{Zone: zone, Limit: fmt.Sprint("limit ", i%2)}, storage.MaxHeaviest)
	}
	return minutes
}

// counted returns the number of requests in the history of the zones around the start.
func countedAtStart(t testing.TB, s *Store) (counted int64) {
	t.Helper()
	for _, r := range storage.Rollups {
		points, err := s.History(context.Background(), storage.HistoryQuery{From: start - int64(r.Resolution), To: start + int64(r.Resolution), Resolution: r.Resolution})
		if err != nil {
			t.Fatal(err)
		}
		sum := int64(0)
		for _, p := range points {
			sum += p.Allowed
		}
		if counted != sum && r.Resolution != time.Minute {
			t.Errorf("%d requests per %v, and %d per minute", sum, r.Resolution, counted)
		}
		counted = sum
	}
	return counted
}

// If any statement of a report fails, nothing of the report is stored, and all of it once when it
// is sent again, even if a commit that took effect returned an error.
func TestAnyStatementOfAReportMayFail(t *testing.T) {
	t.Parallel()
	f := new(faults)
	s := opened(t, Options{Path: filepath.Join(t.TempDir(), "tally.db"), connect: f.connect})
	want := int64(0)
	for n := 0; ; n++ {
		report := storage.Report{Writer: 1, Number: int64(n + 1), Minutes: minutesOf(start, 2)}
		i, which := 0, ""
		var mu sync.Mutex // checkpoints have statements as well
		f.set(func(query string) error {
			if strings.Contains(query, "PRAGMA") {
				return nil // of a checkpoint
			}
			mu.Lock()
			defer mu.Unlock()
			if i++; i-1 != n {
				return nil
			}
			which = query
			return coded(codeFull)
		})
		err := s.Report(context.Background(), start, report)
		f.set(nil)
		mu.Lock()
		failed := which
		mu.Unlock()
		if err == nil != (failed == "") {
			t.Fatalf("%q failed, and report says %v", failed, err)
		}
		if got := countedAtStart(t, s); err != nil && got != want {
			t.Errorf("%q failed: %d requests are counted, want %d", failed, got, want)
		}
		want += 5000
		if err := s.Report(context.Background(), start, report); err != nil {
			t.Fatalf("%q failed, and then %v", failed, err)
		}
		if got := countedAtStart(t, s); got != want {
			t.Errorf("%q failed, and the report was sent again: %d requests are counted, want %d", failed, got, want)
		}
		if failed == "" {
			break
		}
	}
	f.setAfter(func(query string) error {
		if query == `COMMIT` {
			return coded(codeError)
		}
		return nil
	})
	report := storage.Report{Writer: 2, Number: 1, Minutes: minutesOf(start, 2)}
	err := s.Report(context.Background(), start, report)
	f.setAfter(nil)
	if !errors.Is(err, storage.ErrUnknownOutcome) {
		t.Fatalf("got %v", err)
	}
	if err := s.Report(context.Background(), start, report); err != nil {
		t.Fatal(err)
	}
	if got := countedAtStart(t, s); got != want+5000 {
		t.Errorf("%d requests are counted after one report of unknown outcome, want %d", got, want+5000)
	}
}

// A killed process has written all of a report or nothing: its log may end anywhere.
func TestReportsInATruncatedLog(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "tally.db")
	s := opened(t, Options{Path: path})
	const reports = 10
	for n := range int64(reports) {
		if err := s.Report(context.Background(), start, storage.Report{Writer: 1, Number: n + 1, Minutes: minutesOf(start, 2)}); err != nil {
			t.Fatal(err)
		}
	}
	content, log := read(t, path), read(t, path+walSuffix)
	for n := len(log); n >= 0; n -= len(log) / 37 {
		killed := filepath.Join(t.TempDir(), "tally.db")
		write(t, killed, content)
		write(t, killed+walSuffix, log[:n])
		s := opened(t, Options{Path: killed, Notice: func(n Notice) { t.Errorf("got notice %+v", n) }})
		got := countedAtStart(t, s)
		if got%5000 != 0 || got > 5000*reports || n == len(log) && got != 5000*reports {
			t.Errorf("%d of %d bytes: %d requests are counted", n, len(log), got)
		}
		kept := got / 5000 // reports
		for number := int64(1); number <= reports; number++ {
			if err := s.Report(context.Background(), start, storage.Report{Writer: 1, Number: number, Minutes: minutesOf(start, 2)}); err != nil {
				t.Fatal(err)
			}
		}
		if got := countedAtStart(t, s); got != 5000*reports {
			t.Errorf("%d of %d bytes: after %d reports were kept, and all sent again, %d requests are counted", n, len(log), kept, got)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

// Each list keeps its newest acts. Charges displace nothing that operators did.
func TestActsAreBounded(t *testing.T) {
	t.Parallel()
	s := opened(t, Options{Path: filepath.Join(t.TempDir(), "tally.db")})
	for log := range storage.Logs {
		fillActs(t, s, log)
		if err := s.Audit(context.Background(), log, &storage.Act{At: start}); err != nil {
			t.Fatal(err)
		}
		for other := range log + 1 {
			kept, before := 0, int64(math.MaxInt64)
			for {
				page, err := s.Acts(context.Background(), other, before, storage.MaxActs)
				if err != nil {
					t.Fatal(err)
				}
				if len(page) == 0 {
					break
				}
				kept, before = kept+len(page), page[len(page)-1].At
			}
			if kept != storage.MaxActsKept || before != 2 {
				t.Errorf("list %d has %d acts from %d on, want %d from 2 on", other, kept, before, storage.MaxActsKept)
			}
		}
	}
}

// fillActs adds acts to a list until there are as many as are kept.
func fillActs(t *testing.T, s *Store, log storage.Log) {
	t.Helper()
	tellWriter(t, s, fmt.Sprintf(`WITH RECURSIVE n (i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < %d)
		INSERT INTO side SELECT unhex(format('%x80%%014x', i)), x'0000000000' FROM n`, storage.MaxActsKept, 'q'+int(log)))
}

// In a full list of charges, 10 of 1000 charges look for those beyond the bound at most: that takes milliseconds, in
// which others wait. The list stays within a few hundred of its bound.
func TestActsAtTheirBoundAreCheap(t *testing.T) {
	t.Parallel()
	s := opened(t, Options{Path: filepath.Join(t.TempDir(), "tally.db")})
	fillActs(t, s, storage.Charges)
	const oldest = 2000
	looked, kept := 0, int64(oldest)
	for i := range int64(1000) {
		if err := s.Audit(context.Background(), storage.Charges, &storage.Act{At: start + i}); err != nil {
			t.Fatal(err)
		}
		now, err := askWriter(s, fmt.Sprintf(`SELECT count(*) FROM side WHERE name <= x'7280%014x'`, oldest))
		if err != nil {
			t.Fatal(err)
		}
		if now != kept {
			looked, kept = looked+1, now
		}
	}
	n, err := askWriter(s, `SELECT count(*) FROM side`)
	if err != nil || looked == 0 || looked > 10 || n < storage.MaxActsKept || n > storage.MaxActsKept+256 {
		t.Errorf("%d of 1000 charges dropped others, and %d are left (%v)", looked, n, err)
	}
}

// A busy site with 20 limits adds at most 2 MB a day. Sketches, whose number is constant, reuse
// existing space.
func TestHistoryOfADayIsSmall(t *testing.T) {
	t.Parallel()
	s := opened(t, Options{Path: filepath.Join(t.TempDir(), "tally.db")})
	bytes := func() int64 {
		var n [2]int64
		for i, query := range []string{`PRAGMA page_count`, `PRAGMA freelist_count`} {
			var err error
			if n[i], err = askWriter(s, query); err != nil {
				t.Fatal(err)
			}
		}
		return (n[0] - n[1]) * pageSize
	}
	const warmUp, hours = 60, 1
	begins, before := start-start%int64(storage.Day), int64(0)
	for minute := range int64(warmUp + 60*hours) {
		if minute == warmUp {
			before = bytes()
		}
		at := begins + minute*int64(time.Minute)
		if err := s.Report(context.Background(), at+int64(time.Minute), storage.Report{Writer: 1, Number: minute + 1, Minutes: minutesOf(at, 20)}); err != nil {
			t.Fatal(err)
		}
		for swept := (storage.Swept{More: true}); swept.More; { // a minute later, as in a cleanup
			var err error
			if swept, err = s.Sweep(context.Background(), storagetest.At(at+int64(2*time.Minute))); err != nil {
				t.Fatal(err)
			}
		}
	}
	day := (bytes() - before) * 24 / hours
	t.Logf("a day takes %d bytes", day)
	if day > 2_000_000 {
		t.Errorf("a day takes %d bytes, want at most 2 MB", day)
	}
}

func BenchmarkReport(b *testing.B) {
	s := opened(b, Options{Path: filepath.Join(b.TempDir(), "tally.db")})
	minutes := make([][]storage.Minute, 120)
	for i := range minutes {
		minutes[i] = minutesOf(start+int64(i)*int64(time.Minute), 20)
	}
	b.ReportAllocs()
	for n := int64(0); b.Loop(); n++ {
		minute := minutes[n%int64(len(minutes))]
		if err := s.Report(context.Background(), minute[0].At, storage.Report{Writer: 1, Number: n + 1, Minutes: minute}); err != nil {
			b.Fatal(err)
		}
	}
}
