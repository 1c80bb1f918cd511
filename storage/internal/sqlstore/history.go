package sqlstore

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"time"

	"github.com/caddy-tally/caddy-tally/storage"
	"github.com/caddy-tally/caddy-tally/storage/internal/past"
)

// The history has rows like those of keys, which a report locks, changes and writes: a row for each
// minute, hour and day of a series, a row for the heaviest keys of each hour of a series, and a row for
// each writer. Their names begin with these letters, and are ordered so that a query reads a range.
const (
	ofZone   = 'z' // followed by the rollup, the period, the series: a query may ask for all zones
	ofLimit  = 'l' // followed by the rollup, the series, the period
	ofHeavy  = 'h' // followed by the hour, the series
	ofWriter = 'w' // followed by the writer
)

func appendPeriod(to []byte, period int64) []byte {
	return binary.BigEndian.AppendUint64(to, uint64(period)^1<<63) // sorts as the number does
}

func appendSeries(to []byte, s storage.Series) []byte {
	hash := sha256.Sum256([]byte(s.Zone + "\x00" + s.Limit))
	return append(to, hash[:14]...)
}

// pointName returns the name of the row of a point. If the series has no zone, it precedes those of all
// zones in the period.
func pointName(name past.PointAt) string {
	switch {
	case name.Zone == "":
		return string(appendPeriod([]byte{ofZone, byte(name.Rollup)}, name.Period))
	case name.Limit == "":
		return string(appendSeries(appendPeriod([]byte{ofZone, byte(name.Rollup)}, name.Period), name.Series))
	}
	return string(appendPeriod(appendSeries([]byte{ofLimit, byte(name.Rollup)}, name.Series), name.Period))
}

func heavyName(name past.HeavyAt) string {
	text := appendPeriod([]byte{ofHeavy}, name.Hour)
	if name.Zone != "" {
		text = appendSeries(text, name.Series)
	}
	return string(text)
}

func writerName(writer int64) string {
	return string(binary.BigEndian.AppendUint64([]byte{ofWriter}, uint64(writer)))
}

// historyRows implements [past.Keeper].
type historyRows struct{ *Store }

// ChangeHistory implements [past.Keeper].
func (hr historyRows) ChangeHistory(ctx context.Context, now int64, rows *past.Rows, add func() bool) error {
	names := []string{writerName(rows.Writer)}
	for name := range rows.Points {
		names = append(names, pointName(name))
	}
	for name := range rows.Heavy {
		names = append(names, heavyName(name))
	}
	return hr.upkeep(ctx, "report", &batch{locks: locksOn("history", names), decide: func(tx *transaction) error {
		kept := tx.rows["history"]
		readHistory(rows, kept)
		if add() {
			writeHistory(rows, kept, now)
		}
		return nil
	}})
}

func readHistory(rows *past.Rows, kept map[string]*row) {
	rows.Number, _ = binary.Varint(kept[writerName(rows.Writer)].state)
	for name := range rows.Points {
		_, rows.Points[name] = parsePoint(kept[pointName(name)].state)
	}
	for name := range rows.Heavy {
		_, rows.Heavy[name] = parseHeavies(kept[heavyName(name)].state)
	}
}

func writeHistory(rows *past.Rows, kept map[string]*row, now int64) {
	kept[writerName(rows.Writer)].set(binary.AppendVarint(nil, rows.Number), now+int64(storage.KeepHeaviest+storage.Day))
	for name, p := range rows.Points {
		r := storage.Rollups[name.Rollup]
		kept[pointName(name)].set(appendPoint(nil, name.Series, p), past.Expires(name.Period, r.Resolution, r.Keep))
	}
	for name, keys := range rows.Heavy {
		kept[heavyName(name)].set(appendHeavies(nil, name.Series, keys), past.Expires(name.Hour, time.Hour, storage.KeepHeaviest))
	}
}

// EachPoint implements [past.Keeper].
func (hr historyRows) EachPoint(ctx context.Context, from past.PointAt, end int64, f func(past.PointAt, *past.Point)) error {
	if from.Limit == "" {
		from.Zone = "" // rows of all zones are in the order of time
	}
	last := from
	last.Period = end
	return hr.scan(ctx, "history", pointName(from), pointName(last), func(name, state []byte) {
		period := name[2:10]
		if from.Limit != "" {
			period = name[16:24]
		}
		series, p := parsePoint(state)
		p.Keys = p.Sketch.Count()
		f(past.PointAt{Rollup: from.Rollup, Period: int64(binary.BigEndian.Uint64(period) ^ 1<<63), Series: series}, p)
	})
}

// EachHeavy implements [past.Keeper].
func (hr historyRows) EachHeavy(ctx context.Context, from past.HeavyAt, end int64, f func(storage.Heavy)) error {
	return hr.scan(ctx, "heaviest", heavyName(past.HeavyAt{Hour: from.Hour}), heavyName(past.HeavyAt{Hour: end}), func(_, state []byte) {
		series, keys := parseHeavies(state)
		for _, k := range keys[:min(len(keys), storage.MaxHeaviest)] {
			f(storage.Heavy{Series: series, HeavyKey: k})
		}
	})
}

// scan calls f with the rows of the history from a name up to another.
func (hr historyRows) scan(ctx context.Context, what, from, end string, f func(name, state []byte)) error {
	results, err := hr.query(ctx, what, hr.place.script().add("SELECT name, state FROM ", table("history"),
		" WHERE name >= ", []byte(from), " AND name < ", []byte(end)), 1)
	if err != nil {
		return err
	}
	for _, row := range results[0] {
		f(row[0], row[1])
	}
	return nil
}

// States begin with the series: two texts, each preceded by its length. Damaged states are parsed as far
// as they make sense.

func appendPoint(to []byte, s storage.Series, p *past.Point) []byte {
	to = appendTexts(to, s)
	for _, n := range numbersOf(p) {
		to = binary.AppendVarint(to, *n)
	}
	return append(to, p.Sketch...)
}

func parsePoint(from []byte) (s storage.Series, p *past.Point) {
	p = new(past.Point)
	from = parseTexts(from, &s)
	for _, n := range numbersOf(p) {
		from = parseNumber(from, n)
	}
	p.Sketch = from
	return s, p
}

func numbersOf(p *past.Point) []*int64 {
	all := p.All()
	return append(all[:], &p.Units)
}

func appendHeavies(to []byte, s storage.Series, keys []storage.HeavyKey) []byte {
	to = appendTexts(to, s)
	for _, k := range keys {
		to = append(to, k.Key[:]...)
		to = binary.AppendVarint(to, k.Units)
		to = binary.AppendVarint(to, k.Refused)
	}
	return to
}

func parseHeavies(from []byte) (s storage.Series, keys []storage.HeavyKey) {
	from = parseTexts(from, &s)
	for len(from) > len(storage.Key{}) {
		var k storage.HeavyKey
		from = from[copy(k.Key[:], from):]
		from = parseNumber(from, &k.Units)
		from = parseNumber(from, &k.Refused)
		keys = append(keys, k)
	}
	return s, keys
}

func appendTexts(to []byte, s storage.Series) []byte {
	for _, text := range []string{s.Zone, s.Limit} {
		to = append(binary.AppendUvarint(to, uint64(len(text))), text...)
	}
	return to
}

func parseTexts(from []byte, s *storage.Series) (rest []byte) {
	for _, text := range []*string{&s.Zone, &s.Limit} {
		length, n := binary.Uvarint(from)
		if n <= 0 || length > uint64(len(from)-n) {
			return nil
		}
		*text, from = string(from[n:n+int(length)]), from[n+int(length):]
	}
	return from
}

func parseNumber(from []byte, to *int64) (rest []byte) {
	value, n := binary.Varint(from)
	if n <= 0 {
		return nil
	}
	*to = value
	return from[n:]
}

var _ past.Keeper = historyRows{}
