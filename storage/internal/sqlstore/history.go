package sqlstore

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/distinct"
	"github.com/caddy-tally/caddy-tally/storage"
)

// The history is rows like those of keys, which a report locks, adds to and writes: a row for each
// minute, hour and day of a series, one for the heaviest keys of each hour of a series, and one for
// each writer. Their names are in an order in which a query reads a range.
const (
	ofZone   = 'z' // and the rollup, the period, the series: a query may be about all zones
	ofLimit  = 'l' // and the rollup, the series, the period
	ofHeavy  = 'h' // and the hour, the series
	ofWriter = 'w' // and the writer
)

// point is what is kept of a series in a period.
type point struct {
	storage.Series
	storage.Tally
	sketch distinct.Sketch
}

// heavies are the heaviest keys of a series in an hour.
type heavies struct {
	storage.Series
	keys []storage.HeavyKey
}

// maxCandidates is how many keys are kept of an hour, because the next minutes may have others.
const maxCandidates = 3 * storage.MaxHeaviest

func appendPeriod(to []byte, period int64) []byte {
	return binary.BigEndian.AppendUint64(to, uint64(period)^1<<63) // sorts as the number does
}

func appendSeries(to []byte, s storage.Series) []byte {
	hash := sha256.Sum256([]byte(s.Zone + "\x00" + s.Limit))
	return append(to, hash[:14]...)
}

// pointName is the name of a row that keeps a point, or of the first one of all zones if the series
// has no zone.
func pointName(rollup int, period int64, s storage.Series) string {
	switch {
	case s.Zone == "":
		return string(appendPeriod([]byte{ofZone, byte(rollup)}, period))
	case s.Limit == "":
		return string(appendSeries(appendPeriod([]byte{ofZone, byte(rollup)}, period), s))
	}
	return string(appendPeriod(appendSeries([]byte{ofLimit, byte(rollup)}, s), period))
}

func heavyName(hour int64, s storage.Series) string {
	name := appendPeriod([]byte{ofHeavy}, hour)
	if s.Zone == "" {
		return string(name)
	}
	return string(appendSeries(name, s))
}

func writerName(writer int64) string {
	return string(binary.BigEndian.AppendUint64([]byte{ofWriter}, uint64(writer)))
}

// Report implements [storage.Historian].
func (s *Store) Report(ctx context.Context, now int64, report storage.Report) error {
	names := []string{writerName(report.Writer)}
	for i := range report.Minutes {
		m := &report.Minutes[i]
		for n, r := range storage.Rollups {
			names = append(names, pointName(n, storage.Period(m.At, r.Resolution), m.Series))
		}
		names = append(names, heavyName(storage.Period(m.At, time.Hour), m.Series))
	}
	return s.transact(ctx, "report", &batch{now: now, locks: locksOn("history", names), decide: func(tx *transaction) error {
		rows := tx.rows["history"]
		writer := rows[writerName(report.Writer)]
		if number, _ := binary.Varint(writer.state); number >= report.Number {
			return nil
		}
		writer.state = binary.AppendVarint(nil, report.Number)
		writer.expires = now + int64(storage.KeepHeaviest+storage.Day)
		for i := range report.Minutes {
			addMinute(rows, now, &report.Minutes[i])
		}
		return nil
	}})
}

// addMinute adds to the rows that a minute belongs to, unless they are too old, or lie so far ahead
// that a wrong clock said so.
func addMinute(rows map[string]*row, now int64, m *storage.Minute) {
	for n, r := range storage.Rollups {
		period := storage.Period(m.At, r.Resolution)
		if to := rows[pointName(n, period, m.Series)]; isKept(to, period, r.Resolution, r.Keep, now) {
			p := parsePoint(to.state)
			p.Series = m.Series
			p.Add(m.Tally)
			p.sketch = p.sketch.Merge(m.Keys)
			to.state = p.append(nil)
		}
	}
	hour := storage.Period(m.At, time.Hour)
	to := rows[heavyName(hour, m.Series)]
	if len(m.Heaviest) == 0 || !isKept(to, hour, time.Hour, storage.KeepHeaviest, now) {
		return
	}
	h := parseHeavies(to.state)
	h.Series = m.Series
	for _, k := range m.Heaviest[:min(len(m.Heaviest), storage.MaxHeaviest)] {
		i := slices.IndexFunc(h.keys, func(known storage.HeavyKey) bool { return known.Key == k.Key })
		if i < 0 {
			h.keys = append(h.keys, k)
			continue
		}
		h.keys[i].Units += k.Units
		h.keys[i].Refused += k.Refused
	}
	slices.SortFunc(h.keys, heavier)
	h.keys = h.keys[:min(len(h.keys), maxCandidates)]
	to.state = h.append(nil)
}

// isKept reports whether a period is kept at a time, and notes until when.
func isKept(to *row, period int64, resolution, keep time.Duration, now int64) bool {
	to.expires = (period+1)*int64(resolution) + int64(keep)
	return to.expires > now && period <= storage.Period(now+int64(storage.Day), resolution)
}

func heavier(a, b storage.HeavyKey) int {
	return cmp.Or(cmp.Compare(b.Units+b.Refused, a.Units+a.Refused), bytes.Compare(a.Key[:], b.Key[:]))
}

// History implements [storage.Historian].
func (s *Store) History(ctx context.Context, q storage.HistoryQuery) (points []storage.Point, err error) {
	from, end, err := q.Periods()
	if err != nil {
		return nil, err
	}
	rollup := slices.IndexFunc(storage.Rollups[:], func(r struct{ Resolution, Keep time.Duration }) bool { return r.Resolution == q.Resolution })
	series := q.Series
	if q.Limit == "" {
		series.Zone = "" // rows of all zones are in the order of time
	}
	sums := make(map[int64]*storage.Point)
	err = s.scan(ctx, "history", pointName(rollup, from, series), pointName(rollup, end, series), func(name, state []byte) {
		period := name[2:10]
		if q.Limit != "" {
			period = name[16:24]
		}
		p, at := parsePoint(state), int64(binary.BigEndian.Uint64(period)^1<<63)*int64(q.Resolution)
		if q.Zone != "" && p.Zone != q.Zone {
			return
		}
		sum := sums[at]
		if sum == nil {
			sum = &storage.Point{At: at}
			sums[at] = sum
		}
		sum.Add(p.Tally)
		sum.Keys = max(sum.Keys, p.sketch.Count())
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
	from, end, err := q.Periods()
	if err != nil {
		return nil, err
	}
	type seriesKey struct {
		storage.Series
		key storage.Key
	}
	sums := make(map[seriesKey]storage.HeavyKey)
	err = s.scan(ctx, "heaviest", heavyName(from, storage.Series{}), heavyName(end, storage.Series{}), func(_, state []byte) {
		h := parseHeavies(state)
		if q.Zone != "" && (h.Zone != q.Zone || q.Limit != "" && h.Limit != q.Limit) {
			return
		}
		for _, k := range h.keys[:min(len(h.keys), storage.MaxHeaviest)] {
			at := seriesKey{h.Series, k.Key}
			sums[at] = storage.HeavyKey{Key: k.Key, Units: sums[at].Units + k.Units, Refused: sums[at].Refused + k.Refused}
		}
	})
	for at, k := range sums {
		heavy = append(heavy, storage.Heavy{Series: at.Series, HeavyKey: k})
	}
	slices.SortFunc(heavy, func(a, b storage.Heavy) int {
		return cmp.Or(heavier(a.HeavyKey, b.HeavyKey), cmp.Compare(a.Zone, b.Zone), cmp.Compare(a.Limit, b.Limit))
	})
	return heavy[:min(len(heavy), max(n, 0))], err
}

// scan calls f for the rows of the history from a name up to another one.
func (s *Store) scan(ctx context.Context, what, from, end string, f func(name, state []byte)) error {
	var rows Rows
	err := s.chore(ctx, what, func(ctx context.Context, c Conn) error {
		results, err := s.place.run(ctx, c, s.place.script().add("SELECT name, state FROM ", table("history"),
			" WHERE name >= ", []byte(from), " AND name < ", []byte(end)))
		if err == nil {
			err = hasResults(results, 1)
		}
		if err == nil {
			rows = results[0]
		}
		return err
	})
	for _, row := range rows {
		f(row[0], row[1])
	}
	return err
}

var _ storage.Historian = (*Store)(nil)
