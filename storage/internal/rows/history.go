package rows

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"math"
	"slices"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/distinct"
	"github.com/caddy-tally/caddy-tally/storage"
)

// maxCandidates is how many heavy keys a series has in the present hour. It is more than in the past,
// because later minutes may change the order.
const maxCandidates = 3 * storage.MaxHeaviest

// Report implements [storage.Historian].
func (s *Side) Report(ctx context.Context, now int64, report storage.Report) error {
	written, others := writerNames(report.Writer, now)
	names, minutes := append(others, written), make([]minuteNames, len(report.Minutes))
	for i := range report.Minutes {
		minutes[i] = namesOf(&report.Minutes[i], now)
		names = append(names, minutes[i].all()...)
	}
	slices.Sort(names)
	names = slices.Compact(names)
	return s.history.Update(ctx, "report", names, func(rows map[string][]byte) {
		for _, name := range append(others, written) {
			if last, _ := binary.Varint(rows[name]); last >= report.Number {
				return
			}
		}
		rows[written] = binary.AppendVarint(nil, report.Number)
		for i := range minutes {
			minutes[i].add(rows, &report.Minutes[i])
		}
	})
}

// writerNames returns the name under which the number of a report is written, and those under which it may have
// been written before: a row has a week, so that it expires as the others do.
func writerNames(writer, now int64) (written string, others []string) {
	rest := string(binary.BigEndian.AppendUint64(nil, uint64(writer)))
	number := storage.Period(now, week)
	return nameOf(ofWriters, number, rest), []string{nameOf(ofWriters, number-1, rest),
		nameOf(ofWriters, number+1, rest)}
}

// minuteNames are the names of the rows that a minute changes, "" for those that aren't kept.
type minuteNames struct {
	points, sketches            [len(storage.Rollups)]string
	heaviest, candidates, count string
}

func namesOf(m *storage.Minute, now int64) (n minuteNames) {
	rest := restOf(m.Series)
	for i := range storage.Rollups {
		n.points[i] = keptName(pointsOf(m.Series)+byte(i), m.At, rest, now)
		n.sketches[i] = keptName(ofSketches+byte(i), m.At, rest, now)
	}
	n.count = keptName(ofSeries, m.At, "", now)
	if len(m.Heaviest) > 0 {
		n.heaviest, n.candidates = keptName(ofHeaviest, m.At, rest, now), keptName(ofCandidates, m.At, rest, now)
	}
	return n
}

func (n *minuteNames) all() []string {
	names := append(append([]string{n.count, n.heaviest, n.candidates}, n.points[:]...), n.sketches[:]...)
	return slices.DeleteFunc(names, func(name string) bool { return name == "" })
}

// pointsOf returns the letter of a series' points: a query may ask for all zones.
func pointsOf(s storage.Series) byte {
	if s.Limit == "" {
		return ofZones
	}
	return ofLimits
}

// restOf returns the name of a series within names of rows.
func restOf(s storage.Series) string {
	hash := sha256.Sum256([]byte(s.Zone + "\x00" + s.Limit))
	return string(hash[:8])
}

// add adds a minute to its rows.
func (n *minuteNames) add(rows map[string][]byte, m *storage.Minute) {
	if !n.hasRoom(rows) {
		return
	}
	for i, name := range n.points {
		if name == "" {
			continue
		}
		p, sketch := parsePoint(rows[name]), n.sketches[i]
		p.sketch = rows[sketch]
		p.add(m, sketch != "")
		if rows[name] = appendPoint(&p); sketch != "" {
			rows[sketch] = p.sketch
		}
	}
	if n.heaviest == "" {
		return
	}
	_, keys := parseHeaviest(rows[n.heaviest])
	_, candidates := parseHeaviest(rows[n.candidates])
	keys = addHeaviest(append(keys, candidates...), m.Heaviest[:min(len(m.Heaviest), storage.MaxHeaviest)])
	most := min(len(keys), storage.MaxHeaviest)
	rows[n.heaviest] = appendHeaviest(m.Series, keys[:most])
	if n.candidates != "" && len(keys) > most {
		rows[n.candidates] = appendHeaviest(storage.Series{}, keys[most:])
	}
}

// hasRoom reports whether the series of a minute is known on its day, or there is room for one more.
func (n *minuteNames) hasRoom(rows map[string][]byte) bool {
	day := n.points[len(n.points)-1]
	if day == "" || len(rows[day]) > 0 {
		return day != ""
	}
	count, _ := binary.Uvarint(rows[n.count])
	if count < storage.MaxSeries {
		rows[n.count] = binary.AppendUvarint(nil, count+1)
	}
	return count < storage.MaxSeries
}

// point has the counts of a minute, an hour or a day.
type point struct {
	storage.Tally
	keys   int64           // the estimated number of different keys
	sketch distinct.Sketch // of these keys; dropped once the period is closed
}

func (p *point) add(m *storage.Minute, open bool) {
	p.addTally(m.Tally)
	switch {
	case len(m.Keys) == 0:
	case !open && len(p.sketch) == 0 && p.keys > 0: // the sketch was dropped
		p.keys = max(p.keys, m.Keys.Count())
	default:
		p.sketch = p.sketch.Merge(m.Keys)
		p.keys = max(p.keys, p.sketch.Count())
	}
}

func (p *point) addTally(t storage.Tally) {
	more := numbersOf(&t)
	for i, total := range numbersOf(&p.Tally) {
		*total = sum(*total, *more[i])
	}
}

func numbersOf(t *storage.Tally) []*int64 {
	counts := t.All()
	return append([]*int64{&t.Units}, counts[:]...)
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
	return to[:min(len(to), maxCandidates)]
}

func heavier(a, b storage.HeavyKey) int {
	return cmp.Or(cmp.Compare(b.Units+b.Refused, a.Units+a.Refused), bytes.Compare(a.Key[:], b.Key[:]))
}

// History implements [storage.Historian].
func (s *Side) History(ctx context.Context, q storage.HistoryQuery) (points []storage.Point, err error) {
	from, end, err := q.Periods()
	if err != nil {
		return nil, err
	}
	letter := pointsOf(q.Series)
	for storage.Rollups[letter-pointsOf(q.Series)].Resolution != q.Resolution { // q.Periods has checked it
		letter++
	}
	r := Range{From: nameOf(letter, from, ""), End: nameOf(letter, end, "")}
	if q.Zone != "" {
		r.Rest = restOf(q.Series)
	}
	sums := make(map[int64]*point)
	err = s.history.Scan(ctx, "history", r, func(name string, value []byte) {
		total, p := sums[periodOf(name)], parsePoint(value)
		if total == nil {
			total = new(point)
			sums[periodOf(name)] = total
		}
		total.addTally(p.Tally)
		total.keys = max(total.keys, p.keys)
	})
	for period, p := range sums {
		points = append(points, storage.Point{At: period * int64(q.Resolution), Tally: p.Tally, Keys: p.keys})
	}
	slices.SortFunc(points, func(a, b storage.Point) int { return cmp.Compare(a.At, b.At) })
	return points, err
}

// Heaviest implements [storage.Historian].
func (s *Side) Heaviest(ctx context.Context, q storage.HistoryQuery, n int) (heavy []storage.Heavy, err error) {
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
	r := Range{From: nameOf(ofHeaviest, from, ""), End: nameOf(ofHeaviest, end, "")}
	if q.Limit != "" {
		r.Rest = restOf(q.Series)
	}
	err = s.history.Scan(ctx, "heaviest", r, func(_ string, value []byte) {
		series, keys := parseHeaviest(value)
		if q.Zone != "" && series.Zone != q.Zone {
			return
		}
		for _, k := range keys {
			total := sums[keyOf{series, k.Key}]
			if total == nil {
				total = &storage.HeavyKey{Key: k.Key}
				sums[keyOf{series, k.Key}] = total
			}
			total.Units, total.Refused = sum(total.Units, k.Units), sum(total.Refused, k.Refused)
		}
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

func appendPoint(p *point) (to []byte) {
	for _, n := range append([]*int64{&p.keys}, numbersOf(&p.Tally)...) {
		to = binary.AppendVarint(to, *n)
	}
	return to
}

func parsePoint(from []byte) (p point) {
	for _, n := range append([]*int64{&p.keys}, numbersOf(&p.Tally)...) {
		from = parseNumber(from, n)
	}
	return p
}

// appendHeaviest returns a row of the heaviest keys of a series.
func appendHeaviest(s storage.Series, keys []storage.HeavyKey) []byte {
	to := appendTexts(nil, []*string{&s.Zone, &s.Limit})
	for _, k := range keys {
		to = append(to, k.Key[:]...)
		to = binary.AppendVarint(to, k.Units)
		to = binary.AppendVarint(to, k.Refused)
	}
	return to
}

func parseHeaviest(from []byte) (s storage.Series, keys []storage.HeavyKey) {
	from = parseTexts(from, []*string{&s.Zone, &s.Limit})
	for len(from) > len(storage.Key{}) {
		var k storage.HeavyKey
		from = from[copy(k.Key[:], from):]
		from = parseNumber(from, &k.Units)
		from = parseNumber(from, &k.Refused)
		keys = append(keys, k)
	}
	return s, keys
}

func parseNumber(from []byte, to *int64) (rest []byte) {
	value, n := binary.Varint(from)
	if n <= 0 {
		return nil
	}
	*to = value
	return from[n:]
}

var (
	_ storage.Auditor   = (*Side)(nil)
	_ storage.Historian = (*Side)(nil)
)
