package sqlite

import (
	"cmp"
	"context"
	"database/sql/driver"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/outcomes"
	"github.com/caddy-tally/caddy-tally/storage"
	"github.com/caddy-tally/caddy-tally/storage/internal/past"
)

// history reads and writes the rows of package past.
type history struct {
	writer, setWriter, dropWriters      *stmt
	seriesID, addSeries                 *stmt
	rollups                             [len(rollupTables)]rollup
	heavy, setHeavy, trimHeavy, trimAll *stmt

	ids     map[storage.Series]int64 // of the series in the database
	trimmed int64                    // the last hour that this process has trimmed
}

// rollup has the statements for the points of one resolution and their sketches. Sketches are kept for open
// periods; for older ones only the estimate stays.
type rollup struct{ read, write, writeSketch, dropSketches *stmt }

// rollupTables are the tables of storage.Rollups.
var rollupTables = [...]string{"minutes", "hours", "days"}

// dropWritersAfter is how long the number of a process's last report is kept. It doesn't repeat a report
// after that.
const dropWritersAfter = int64(7 * 24 * time.Hour)

func (h *history) prepare(db *conn) error {
	h.ids = make(map[storage.Series]int64)
	statements := []prepared{
		{&h.writer, `SELECT number FROM writers WHERE id = ?`, 1, 1},
		{&h.setWriter, `INSERT OR REPLACE INTO writers (id, number, at) VALUES (?, ?, ?)`, 3, 0},
		{&h.dropWriters, `DELETE FROM writers WHERE at <= ? OR at > ?`, 2, 0},
		{&h.seriesID, `SELECT id FROM series WHERE zone = ? AND name = ?`, 2, 1},
		{&h.addSeries, `INSERT INTO series (zone, name) SELECT ?, ? WHERE (SELECT count(*) FROM series) < ?`, 3, 0},
		{&h.heavy, `SELECT key, units, refused FROM heaviest WHERE at = ? AND series = ?`, 2, 3},
		{&h.setHeavy, `INSERT OR REPLACE INTO heaviest (at, series, key, units, refused) VALUES (?, ?, ?, ?, ?)`, 5, 0},
		{&h.trimHeavy, `DELETE FROM heaviest WHERE at = ?1 AND series = ?2 AND key NOT IN
			(SELECT key FROM heaviest WHERE at = ?1 AND series = ?2 ORDER BY units + refused DESC LIMIT ?3)`, 3, 0},
		{&h.trimAll, `DELETE FROM heaviest WHERE at = ?1 AND (series, key) IN
			(SELECT series, key FROM (SELECT series, key, row_number() OVER (PARTITION BY series ORDER BY units + refused DESC) AS n
			FROM heaviest WHERE at = ?1) WHERE n > ?2)`, 2, 0},
	}
	for i, table := range rollupTables {
		r := &h.rollups[i]
		statements = append(statements,
			prepared{&r.read, fmt.Sprintf(`SELECT %s, (SELECT keys FROM sketches WHERE resolution = %d AND at = ?1 AND series = ?2)
				FROM %s WHERE at = ?1 AND series = ?2`, pointColumns, i, table), 2, pointWidth + 1},
			prepared{&r.write, `INSERT OR REPLACE INTO ` + table + ` (` + pointColumns + `) VALUES (?` + strings.Repeat(`, ?`, pointWidth-1) + `)`, pointWidth, 0},
			prepared{&r.writeSketch, fmt.Sprintf(`INSERT INTO sketches (resolution, at, series, keys) VALUES (%d, ?, ?, ?)
				ON CONFLICT (resolution, at, series) DO UPDATE SET keys = excluded.keys WHERE keys <> excluded.keys`, i), 3, 0},
			prepared{&r.dropSketches, fmt.Sprintf(`DELETE FROM sketches WHERE resolution = %d AND (at < ? OR at > ?)`, i), 2, 0})
	}
	return db.prepareAll(statements)
}

// pointColumns are the columns of a point: the counts are those of [outcomes.Names].
var pointColumns = `at, series, ` + strings.Join(outcomes.Names[:], `, `) + `, units, keys`

// pointWidth is how many columns these are.
const pointWidth = 4 + len(outcomes.Names)

// scanPoint parses a row of pointColumns.
func scanPoint(row []driver.Value) (period int64, p past.Point, err error) {
	var series int64
	counts := p.All()
	err = integers(row, append(append([]*int64{&period, &series}, counts[:]...), &p.Units, &p.Keys)...)
	return period, p, err
}

func scanHeavy(row []driver.Value) (k storage.HeavyKey, err error) {
	key, ok := row[0].([]byte)
	if !ok {
		return k, errDamaged("a heavy key has no name")
	}
	copy(k.Key[:], key)
	return k, integers(row[1:], &k.Units, &k.Refused)
}

// forget forgets the writes, which may have been rolled back.
func (h *history) forget() {
	clear(h.ids)
	h.trimmed = 0
}

// change reads rows, calls add, which changes them, and writes them. It returns how many rows it wrote.
func (h *history) change(now int64, rows *past.Rows, add func() bool) (written int64, err error) {
	if err := h.read(rows); err != nil {
		return 0, err
	}
	heavy := make(map[past.HeavyAt][]storage.HeavyKey) // the stored ones
	for name, keys := range rows.Heavy {
		heavy[name] = slices.Clone(keys)
	}
	if !add() {
		h.forget() // added series are rolled back
		return 0, nil
	}
	for name, p := range rows.Points {
		if err := h.writePoint(now, name, p); err != nil {
			return 0, fmt.Errorf("write history: %w", err)
		}
		written += 2
	}
	for name, keys := range rows.Heavy {
		if err := h.writeHeavy(name, keys, heavy[name]); err != nil {
			return 0, fmt.Errorf("write history: %w", err)
		}
		written += storage.MaxHeaviest
	}
	if err := h.setWriter.run(rows.Writer, rows.Number, now); err != nil {
		return 0, err
	}
	return written + 1, h.drop(now)
}

// read reads rows. It leaves out those of series for which there is no room.
func (h *history) read(rows *past.Rows) (err error) {
	rows.Number = 0
	h.writer.bind(0, rows.Writer)
	if err := h.writer.read(&rows.Number); err != nil {
		return err
	}
	for name := range rows.Points {
		if rows.Points[name], err = h.readPoint(name); err != nil {
			return err
		}
		if rows.Points[name] == nil {
			delete(rows.Points, name)
		}
	}
	for name := range rows.Heavy {
		series, err := h.idOf(name.Series)
		if err != nil {
			return err
		}
		if series == 0 {
			delete(rows.Heavy, name)
			continue
		}
		if rows.Heavy[name], err = h.readHeavy(name.Hour, series); err != nil {
			return err
		}
	}
	return nil
}

// readPoint returns nil if there is no room for the series.
func (h *history) readPoint(name past.PointAt) (*past.Point, error) {
	series, err := h.idOf(name.Series)
	if err != nil || series == 0 {
		return nil, err
	}
	p, read := new(past.Point), h.rollups[name.Rollup].read
	read.bind(0, name.Period, series)
	return p, read.each(func(row []driver.Value) (err error) {
		if _, *p, err = scanPoint(row); err != nil || row[9] == nil {
			return err
		}
		sketch, ok := row[9].([]byte)
		if !ok {
			return errDamaged("a sketch is none")
		}
		p.Sketch = slices.Clone(sketch)
		return nil
	})
}

func (h *history) readHeavy(hour, series int64) (keys []storage.HeavyKey, err error) {
	h.heavy.bind(0, hour, series)
	err = h.heavy.each(func(row []driver.Value) error {
		k, err := scanHeavy(row)
		keys = append(keys, k)
		return err
	})
	return keys, err
}

func (h *history) writePoint(now int64, name past.PointAt, p *past.Point) error {
	series, r := h.ids[name.Series], &h.rollups[name.Rollup]
	values := []driver.Value{name.Period, series}
	for _, n := range p.All() {
		values = append(values, *n)
	}
	if err := r.write.run(append(values, p.Units, p.Keys)...); err != nil || len(p.Sketch) == 0 || !past.IsOpen(name.Rollup, name.Period, now) {
		return err
	}
	return r.writeSketch.run(name.Period, series, []byte(p.Sketch))
}

// writeHeavy writes the heavy keys of an hour that differ from the stored ones.
func (h *history) writeHeavy(name past.HeavyAt, keys, kept []storage.HeavyKey) error {
	series := h.ids[name.Series]
	for _, k := range keys {
		if slices.Contains(kept, k) {
			continue
		}
		if err := h.setHeavy.run(name.Hour, series, k.Key[:], k.Units, k.Refused); err != nil {
			return err
		}
	}
	return h.trimHeavy.run(name.Hour, series, int64(past.MaxCandidates))
}

// drop deletes the sketches of closed periods, the old writers, and, once an hour, the keys of the last
// closed hour that are not among the heaviest.
func (h *history) drop(now int64) error {
	for i := range storage.Rollups {
		first, last := past.Open(i, now)
		if err := h.rollups[i].dropSketches.run(first, last); err != nil {
			return err
		}
	}
	if err := h.dropWriters.run(now-dropWritersAfter, addCapped(now, dropWritersAfter)); err != nil {
		return err
	}
	running, _ := past.Open(past.Hours, now)
	if running-1 == h.trimmed {
		return nil
	}
	h.trimmed = running - 1
	return h.trimAll.run(h.trimmed, int64(storage.MaxHeaviest))
}

// idOf returns the ID of a series, which it adds if there is none, or 0 if there are too many.
func (h *history) idOf(series storage.Series) (id int64, err error) {
	if id := h.ids[series]; id != 0 {
		return id, nil
	}
	for range 2 {
		h.seriesID.bind(0, series.Zone, series.Limit)
		err := h.seriesID.read(&id)
		if err != nil || id != 0 {
			h.ids[series] = id
			return id, err
		}
		if err := h.addSeries.run(series.Zone, series.Limit, int64(storage.MaxSeries)); err != nil {
			return 0, err
		}
	}
	return 0, nil
}

// historyRows implements [past.Keeper].
type historyRows struct{ *Store }

// ChangeHistory implements [past.Keeper].
func (hr historyRows) ChangeHistory(ctx context.Context, now int64, rows *past.Rows, add func() bool) error {
	return hr.with(ctx, "report", func() error {
		err := hr.tx.doLocked(func() (written int64, err error) { return hr.history.change(now, rows, add) })
		if err != nil {
			hr.history.forget()
		}
		return err
	})
}

// EachPoint implements [past.Keeper].
func (hr historyRows) EachPoint(ctx context.Context, from past.PointAt, end int64, f func(past.PointAt, *past.Point)) error {
	query := `SELECT ` + pointColumns + ` FROM ` + rollupTables[from.Rollup] + ` WHERE at >= ? AND at < ?
		AND series IN (SELECT id FROM series WHERE (?3 = '' OR zone = ?3) AND name = ?4)`
	return hr.log.look(ctx, "history", func(c *conn) error {
		return c.each(query, func(row []driver.Value) error {
			period, p, err := scanPoint(row)
			f(past.PointAt{Rollup: from.Rollup, Period: period, Series: from.Series}, &p)
			return cmp.Or(err, ctx.Err())
		}, from.Period, end, from.Zone, from.Limit)
	})
}

// EachHeavy implements [past.Keeper].
func (hr historyRows) EachHeavy(ctx context.Context, from past.HeavyAt, end int64, f func(storage.Heavy)) error {
	const query = `SELECT key, units, refused, zone, name FROM heaviest JOIN series ON id = series
		WHERE at >= ? AND at < ? AND (?3 = '' OR zone = ?3 AND (?4 = '' OR name = ?4))`
	return hr.log.look(ctx, "heaviest", func(c *conn) error {
		return c.each(query, func(row []driver.Value) error {
			k, err := scanHeavy(row)
			zone, isZone := row[3].(string)
			name, isName := row[4].(string)
			if !isZone || !isName {
				return errDamaged("a heavy key has no series")
			}
			f(storage.Heavy{Series: storage.Series{Zone: zone, Limit: name}, HeavyKey: k})
			return cmp.Or(err, ctx.Err())
		}, from.Hour, end, from.Zone, from.Limit)
	})
}

var _ past.Keeper = historyRows{}
