package memory

import (
	"bytes"
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/distinct"
	"github.com/caddy-tally/caddy-tally/storage"
)

// past is what happened: the history and the audit. It is apart from the counts, so that no
// claim waits for it, and has a bound of its own.
type past struct {
	mu      sync.Mutex
	points  map[pointKey]*point // guarded by mu, like all below
	heavy   map[heavyKey]storage.HeavyKey
	writers map[int64]int64 // the number of the last report of each
	acts    []storage.Act   // in the order of time
}

// maxPast is how many points and heavy keys there are at most, some 30 MB. What comes then
// is not counted until others are too old.
const maxPast = 1 << 17

type pointKey struct {
	rollup int   // index in storage.Rollups
	at     int64 // the number of the period
	storage.Series
}

type point struct {
	storage.Tally
	keys   int64
	sketch distinct.Sketch // nil once nobody adds to it any more
}

type heavyKey struct {
	hour int64
	storage.Series
	key storage.Key
}

// look runs f with what happened locked, unless the store is closed or the context is done.
func (s *Store) look(ctx context.Context, doing string, f func(p *past)) error {
	if err := s.with(ctx, doing, func(*Database) error { return nil }); err != nil {
		return err
	}
	s.db.past.mu.Lock()
	defer s.db.past.mu.Unlock()
	f(&s.db.past)
	return nil
}

// Report implements [storage.Historian].
func (s *Store) Report(ctx context.Context, now int64, report storage.Report) error {
	return s.look(ctx, "report", func(p *past) {
		if p.writers == nil {
			p.points, p.heavy, p.writers = make(map[pointKey]*point), make(map[heavyKey]storage.HeavyKey), make(map[int64]int64)
		}
		if p.writers[report.Writer] >= report.Number {
			return
		}
		p.writers[report.Writer] = report.Number
		p.dropLocked(now)
		for i := range report.Minutes {
			p.addLocked(now, &report.Minutes[i])
		}
	})
}

// addLocked adds to the minute, the hour and the day, or to none if there is no room.
func (p *past) addLocked(now int64, m *storage.Minute) {
	if len(p.points)+len(p.heavy) > maxPast {
		return
	}
	for i, r := range storage.Rollups {
		at := pointKey{i, storage.Period(m.At, r.Resolution), m.Series}
		to := p.points[at]
		if to == nil {
			to = new(point)
			p.points[at] = to
		}
		to.Add(m.Tally)
		if first, last := openPeriods(r.Resolution, now); at.at >= first && at.at <= last {
			to.sketch = to.sketch.Merge(m.Keys)
			to.keys = max(to.keys, to.sketch.Count())
		} else {
			to.keys = max(to.keys, m.Keys.Count())
		}
	}
	hour := storage.Period(m.At, time.Hour)
	for _, k := range m.Heaviest[:min(len(m.Heaviest), storage.MaxHeaviest)] {
		at := heavyKey{hour, m.Series, k.Key}
		was := p.heavy[at]
		p.heavy[at] = storage.HeavyKey{Key: k.Key, Units: was.Units + k.Units, Refused: was.Refused + k.Refused}
	}
}

// openFor is how long after its end a period keeps its sketch: a process may report late.
const openFor = int64(5 * time.Minute)

// openPeriods returns the first and the last period that have a sketch.
func openPeriods(resolution time.Duration, now int64) (first, last int64) {
	return storage.Period(now-openFor, resolution), storage.Period(now+openFor, resolution)
}

// dropLocked drops what is too old, and what lies so far ahead that a wrong clock said so.
func (p *past) dropLocked(now int64) {
	for at, of := range p.points {
		r := storage.Rollups[at.rollup]
		if isPast(at.at, r.Resolution, r.Keep, now) {
			delete(p.points, at)
		} else if first, _ := openPeriods(r.Resolution, now); at.at < first {
			of.sketch = nil
		}
	}
	hours := make(map[heavyKey][]storage.HeavyKey)
	for at, k := range p.heavy {
		of := heavyKey{hour: at.hour, Series: at.Series}
		if isPast(at.hour, time.Hour, storage.KeepHeaviest, now) {
			delete(p.heavy, at)
		} else {
			hours[of] = append(hours[of], k)
		}
	}
	for of, keys := range hours {
		p.trimLocked(of, keys, now)
	}
	p.acts = slices.DeleteFunc(p.acts, func(a storage.Act) bool { return isPast(a.At, time.Nanosecond, storage.KeepActs, now) })
}

// maxCandidates is how many keys a limit keeps in a running hour, because the next minutes
// may have others.
const maxCandidates = 3 * storage.MaxHeaviest

// trimLocked drops the keys of an hour and limit that are not among the heaviest.
func (p *past) trimLocked(of heavyKey, keys []storage.HeavyKey, now int64) {
	keep := maxCandidates
	if first, _ := openPeriods(time.Hour, now); of.hour < first {
		keep = storage.MaxHeaviest
	}
	if len(keys) <= keep {
		return
	}
	slices.SortFunc(keys, heavier)
	for _, k := range keys[keep:] {
		of.key = k.Key
		delete(p.heavy, of)
	}
}

func heavier(a, b storage.HeavyKey) int {
	return cmp.Or(cmp.Compare(b.Units+b.Refused, a.Units+a.Refused), bytes.Compare(a.Key[:], b.Key[:]))
}

// isPast reports whether a period is too old to be kept, or lies far ahead.
func isPast(period int64, resolution, keep time.Duration, now int64) bool {
	return period < storage.Period(now-int64(keep), resolution) || period > storage.Period(now+int64(storage.Day), resolution)
}

// History implements [storage.Historian].
func (s *Store) History(ctx context.Context, q storage.HistoryQuery) (points []storage.Point, err error) {
	first, end, err := q.Periods()
	if err != nil {
		return nil, err
	}
	sums := make(map[int64]*storage.Point)
	err = s.look(ctx, "history", func(p *past) {
		for at, of := range p.points {
			if storage.Rollups[at.rollup].Resolution != q.Resolution || at.at < first || at.at >= end ||
				q.Zone != "" && at.Zone != q.Zone || at.Limit != q.Limit {
				continue
			}
			sum := sums[at.at]
			if sum == nil {
				sum = &storage.Point{At: at.at * int64(q.Resolution)}
				sums[at.at] = sum
			}
			sum.Add(of.Tally)
			sum.Keys = max(sum.Keys, of.keys)
		}
	})
	for _, sum := range sums {
		points = append(points, *sum)
	}
	slices.SortFunc(points, func(a, b storage.Point) int { return cmp.Compare(a.At, b.At) })
	return points, err
}

// Heaviest implements [storage.Historian].
func (s *Store) Heaviest(ctx context.Context, q storage.HistoryQuery, n int) (heavy []storage.Heavy, err error) {
	q.Resolution = time.Hour
	first, end, err := q.Periods()
	if err != nil {
		return nil, err
	}
	sums := make(map[heavyKey]storage.HeavyKey)
	err = s.look(ctx, "heaviest", func(p *past) {
		for at, k := range p.heavy {
			if at.hour < first || at.hour >= end || q.Zone != "" && (at.Zone != q.Zone || q.Limit != "" && at.Limit != q.Limit) {
				continue
			}
			at.hour = 0
			sum := sums[at]
			sums[at] = storage.HeavyKey{Key: k.Key, Units: sum.Units + k.Units, Refused: sum.Refused + k.Refused}
		}
	})
	for at, k := range sums {
		heavy = append(heavy, storage.Heavy{Series: at.Series, HeavyKey: k})
	}
	slices.SortFunc(heavy, func(a, b storage.Heavy) int {
		return cmp.Or(cmp.Compare(b.Units+b.Refused, a.Units+a.Refused),
			cmp.Compare(a.Zone, b.Zone), cmp.Compare(a.Limit, b.Limit), bytes.Compare(a.Key[:], b.Key[:]))
	})
	return heavy[:min(len(heavy), max(n, 0))], err
}

var _ storage.Historian = (*Store)(nil)
