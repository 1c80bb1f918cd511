package past

import (
	"bytes"
	"cmp"
	"context"
	"math"
	"slices"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/distinct"
	"github.com/caddy-tally/caddy-tally/storage"
)

// Keeper stores the rows of a history.
type Keeper interface {
	// ChangeHistory reads the rows that are named in rows, calls add, which changes them, and writes
	// them, in one transaction. It writes nothing if add returns false. If the transaction is
	// repeated, it reads the rows again before it calls add again.
	ChangeHistory(ctx context.Context, now int64, rows *Rows, add func() bool) error

	// EachPoint calls f with the points of a series from a period up to end. If the series has no
	// zone, these are the points of all zones. It may call f for other series as well.
	EachPoint(ctx context.Context, from PointAt, end int64, f func(PointAt, *Point)) error

	// EachHeavy calls f with the heavy keys of a limit from an hour up to end. Without a limit, these
	// are the keys of the whole zone; without a zone, those of all zones. It may call f for other
	// keys as well.
	EachHeavy(ctx context.Context, from HeavyAt, end int64, f func(storage.Heavy)) error
}

// Rows are the rows that a report changes, by their names.
type Rows struct {
	Writer int64
	Number int64 // the number of the writer's last report
	Points map[PointAt]*Point
	Heavy  map[HeavyAt][]storage.HeavyKey // the heaviest first
}

// PointAt names the point of a series in a period.
type PointAt struct {
	Rollup int // index in storage.Rollups
	Period int64
	storage.Series
}

// Point has the counts of a minute, an hour or a day.
type Point struct {
	storage.Tally
	Keys   int64           // the estimated number of different keys
	Sketch distinct.Sketch // of these keys; stores may drop it once the period is closed
}

// HeavyAt names the heavy keys of a series in an hour.
type HeavyAt struct {
	Hour int64
	storage.Series
}

// Hours is the index in [storage.Rollups] of the hours, which also have heavy keys.
const Hours = 1

// MaxCandidates is how many heavy keys a series has in the present hour. It is more than in the past,
// because later minutes may change the order.
const MaxCandidates = 3 * storage.MaxHeaviest

// openFor is how long a period stays open after its end, because processes report late.
const openFor = int64(5 * time.Minute)

// Open returns the first and the last period of a rollup that are open at a time.
func Open(rollup int, now int64) (first, last int64) {
	length := storage.Rollups[rollup].Resolution
	return storage.Period(now-openFor, length), storage.Period(min(now, math.MaxInt64-openFor)+openFor, length)
}

// IsOpen reports whether a period of a rollup is open at a time: processes may add to it.
func IsOpen(rollup int, period, now int64) bool {
	first, last := Open(rollup, now)
	return period >= first && period <= last
}

// Expires returns the time from which on a period is no longer kept.
func Expires(period int64, resolution, keep time.Duration) int64 {
	return (period+1)*int64(resolution) + int64(keep)
}

// IsKept reports whether a period is kept at a time: it is neither too old nor, because of a wrong
// clock, too far in the future.
func IsKept(period int64, resolution, keep time.Duration, now int64) bool {
	return Expires(period, resolution, keep) > now && period <= storage.Period(now+int64(storage.Day), resolution)
}

// Historian implements [storage.Historian].
type Historian struct{ Keeper Keeper }

// Report implements [storage.Historian].
func (h Historian) Report(ctx context.Context, now int64, report storage.Report) error {
	rows := &Rows{Writer: report.Writer, Points: make(map[PointAt]*Point), Heavy: make(map[HeavyAt][]storage.HeavyKey)}
	for i := range report.Minutes {
		rows.name(now, &report.Minutes[i])
	}
	return h.Keeper.ChangeHistory(ctx, now, rows, func() bool {
		if rows.Number >= report.Number {
			return false
		}
		rows.Number = report.Number
		for i := range report.Minutes {
			rows.add(now, &report.Minutes[i])
		}
		return true
	})
}

// name adds the names of the rows that a minute changes.
func (r *Rows) name(now int64, m *storage.Minute) {
	for i, rollup := range storage.Rollups {
		name := PointAt{i, storage.Period(m.At, rollup.Resolution), m.Series}
		if IsKept(name.Period, rollup.Resolution, rollup.Keep, now) {
			r.Points[name] = nil
		}
	}
	name := HeavyAt{storage.Period(m.At, time.Hour), m.Series}
	if len(m.Heaviest) > 0 && IsKept(name.Hour, time.Hour, storage.KeepHeaviest, now) {
		r.Heavy[name] = nil
	}
}

// add adds a minute to its rows. The store has no room for points that are nil.
func (r *Rows) add(now int64, m *storage.Minute) {
	for i, rollup := range storage.Rollups {
		name := PointAt{i, storage.Period(m.At, rollup.Resolution), m.Series}
		if p := r.Points[name]; p != nil {
			p.add(m, IsOpen(i, name.Period, now))
		}
	}
	name := HeavyAt{storage.Period(m.At, time.Hour), m.Series}
	if keys, ok := r.Heavy[name]; ok {
		r.Heavy[name] = addHeaviest(keys, m.Heaviest[:min(len(m.Heaviest), storage.MaxHeaviest)])
	}
}

func (p *Point) add(m *storage.Minute, open bool) {
	p.addTally(m.Tally)
	switch {
	case len(m.Keys) == 0:
	case !open && len(p.Sketch) == 0 && p.Keys > 0: // the sketch was dropped
		p.Keys = max(p.Keys, m.Keys.Count())
	default:
		p.Sketch = p.Sketch.Merge(m.Keys)
		p.Keys = max(p.Keys, p.Sketch.Count())
	}
}

func (p *Point) addTally(t storage.Tally) {
	more := t.All()
	for i, n := range p.All() {
		*n = sum(*n, *more[i])
	}
	p.Units = sum(p.Units, t.Units)
}

// sum adds numbers without overflow. They may come from a damaged database.
func sum(a, b int64) int64 {
	const most = math.MaxInt64 / 2
	return min(min(max(a, 0), most)+min(max(b, 0), most), most)
}

func addHeaviest(to, keys []storage.HeavyKey) []storage.HeavyKey {
	for _, k := range keys {
		i := slices.IndexFunc(to, func(known storage.HeavyKey) bool { return known.Key == k.Key })
		if i < 0 {
			i, to = len(to), append(to, storage.HeavyKey{Key: k.Key})
		}
		to[i].Units, to[i].Refused = sum(to[i].Units, k.Units), sum(to[i].Refused, k.Refused)
	}
	slices.SortFunc(to, heavier)
	return to[:min(len(to), MaxCandidates)]
}

func heavier(a, b storage.HeavyKey) int {
	return cmp.Or(cmp.Compare(b.Units+b.Refused, a.Units+a.Refused), bytes.Compare(a.Key[:], b.Key[:]))
}

// History implements [storage.Historian].
func (h Historian) History(ctx context.Context, q storage.HistoryQuery) (points []storage.Point, err error) {
	from, end, err := q.Periods()
	if err != nil {
		return nil, err
	}
	rollup := slices.IndexFunc(storage.Rollups[:], func(r struct{ Resolution, Keep time.Duration }) bool { return r.Resolution == q.Resolution })
	sums := make(map[int64]*Point)
	err = h.Keeper.EachPoint(ctx, PointAt{rollup, from, q.Series}, end, func(name PointAt, p *Point) {
		if q.Zone != "" && name.Zone != q.Zone || name.Limit != q.Limit {
			return
		}
		total := sums[name.Period]
		if total == nil {
			total = new(Point)
			sums[name.Period] = total
		}
		total.addTally(p.Tally)
		total.Keys = max(total.Keys, p.Keys)
	})
	for period, p := range sums {
		points = append(points, storage.Point{At: period * int64(q.Resolution), Tally: p.Tally, Keys: p.Keys})
	}
	slices.SortFunc(points, func(a, b storage.Point) int { return cmp.Compare(a.At, b.At) })
	return points, err
}

// Heaviest implements [storage.Historian].
func (h Historian) Heaviest(ctx context.Context, q storage.HistoryQuery, n int) (heavy []storage.Heavy, err error) {
	q.Resolution = time.Hour
	from, end, err := q.Periods()
	if err != nil {
		return nil, err
	}
	type keyOf struct {
		storage.Series
		key storage.Key
	}
	sums := make(map[keyOf]*storage.HeavyKey)
	err = h.Keeper.EachHeavy(ctx, HeavyAt{from, q.Series}, end, func(k storage.Heavy) {
		if q.Zone != "" && (k.Zone != q.Zone || q.Limit != "" && k.Limit != q.Limit) {
			return
		}
		total := sums[keyOf{k.Series, k.Key}]
		if total == nil {
			total = &storage.HeavyKey{Key: k.Key}
			sums[keyOf{k.Series, k.Key}] = total
		}
		total.Units, total.Refused = sum(total.Units, k.Units), sum(total.Refused, k.Refused)
	})
	for key, k := range sums {
		heavy = append(heavy, storage.Heavy{Series: key.Series, HeavyKey: *k})
	}
	slices.SortFunc(heavy, func(a, b storage.Heavy) int {
		return cmp.Or(cmp.Compare(b.Units+b.Refused, a.Units+a.Refused),
			cmp.Compare(a.Zone, b.Zone), cmp.Compare(a.Limit, b.Limit), bytes.Compare(a.Key[:], b.Key[:]))
	})
	return heavy[:min(len(heavy), max(n, 0))], err
}

var _ storage.Historian = Historian{}
