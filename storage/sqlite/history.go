package sqlite

import (
	"context"
	"database/sql/driver"
	"fmt"
	"time"

	"github.com/caddy-tally/caddy-tally/storage"
)

// history adds reports to what is kept of the past.
type history struct {
	writer, setWriter, dropWriters *stmt
	seriesID, addSeries            *stmt
	rollups                        [len(rollupTables)]*stmt
	sketches                       sketches
	heaviest                       heaviest

	ids map[storage.Series]int64 // that are in the database
}

// rollupTables are the tables of storage.Rollups.
var rollupTables = [...]string{"minutes", "hours", "days"}

// mostCounted is the most that one value of the history counts. Two of them fit an integer.
const mostCounted = mostUsed

// dropWritersAfter is when what a process has reported is forgotten. It sends no report
// again after that.
const dropWritersAfter = int64(7 * 24 * time.Hour)

func (h *history) prepare(db *conn) (err error) {
	h.ids = make(map[storage.Series]int64)
	for i, table := range rollupTables {
		if h.rollups[i], err = db.prepare(upsertRollup(table), 9, 0); err != nil {
			return err
		}
	}
	for _, p := range []struct {
		stmt          **stmt
		query         string
		args, columns int
	}{
		{&h.writer, `SELECT number FROM writers WHERE id = ?`, 1, 1},
		{&h.setWriter, `INSERT OR REPLACE INTO writers (id, number, at) VALUES (?, ?, ?)`, 3, 0},
		{&h.dropWriters, `DELETE FROM writers WHERE at <= ? OR at > ?`, 2, 0},
		{&h.seriesID, `SELECT id FROM series WHERE zone = ? AND name = ?`, 2, 1},
		{&h.addSeries, `INSERT INTO series (zone, name) SELECT ?, ? WHERE (SELECT count(*) FROM series) < ?`, 3, 0},
	} {
		if *p.stmt, err = db.prepare(p.query, p.args, p.columns); err != nil {
			return err
		}
	}
	if err := h.sketches.prepare(db); err != nil {
		return err
	}
	return h.heaviest.prepare(db)
}

// upsertRollup returns the statement that adds to a row. It clamps what it finds, so that
// nothing overflows. Keys are an estimate of all, not to be added.
func upsertRollup(table string) string {
	add := func(column string) string {
		return fmt.Sprintf(`%s = min(max(%[1]s, 0) + excluded.%[1]s, %d)`, column, int64(mostCounted))
	}
	return `INSERT INTO ` + table + ` (at, series, allowed, refused, blocked, banned, would_refuse, units, keys)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (at, series) DO UPDATE SET ` +
		add("allowed") + `, ` + add("refused") + `, ` + add("blocked") + `, ` + add("banned") + `, ` +
		add("would_refuse") + `, ` + add("units") + `, keys = max(keys, excluded.keys)`
}

// Report implements [storage.Historian].
func (s *Store) Report(ctx context.Context, now int64, report storage.Report) error {
	return s.with(ctx, "report", func() error {
		err := s.transactLocked(nil, func() (written int64, err error) { return s.history.add(now, report) })
		if err != nil {
			s.history.forget()
		}
		return err
	})
}

// forget drops what this process believes to have written: it did not last.
func (h *history) forget() {
	clear(h.ids)
	h.heaviest.trimmed = 0
}

// add adds a report, unless it is there already, and returns how many rows it wrote.
func (h *history) add(now int64, report storage.Report) (written int64, err error) {
	last := int64(0)
	h.writer.bind(0, report.Writer)
	err = h.writer.each(func(row []driver.Value) error { return integers(row, &last) })
	if err != nil || last >= report.Number {
		return 0, err
	}
	for i := range report.Minutes {
		n, err := h.addMinute(now, &report.Minutes[i])
		if err != nil {
			return 0, fmt.Errorf("write history: %w", err)
		}
		written += n
	}
	if err := h.sketches.drop(now); err != nil {
		return 0, fmt.Errorf("write history: %w", err)
	}
	if err := h.heaviest.trimPast(now); err != nil {
		return 0, fmt.Errorf("write history: %w", err)
	}
	h.dropWriters.bind(0, now-dropWritersAfter, addCapped(now, dropWritersAfter))
	if _, err := h.dropWriters.exec(); err != nil {
		return 0, err
	}
	h.setWriter.bind(0, report.Writer, report.Number, now)
	_, err = h.setWriter.exec()
	return written + 1, err
}

// addMinute adds to the minute, the hour and the day.
func (h *history) addMinute(now int64, m *storage.Minute) (written int64, err error) {
	series, err := h.idOf(m.Series)
	if err != nil || series == 0 {
		return 0, err
	}
	for i, r := range storage.Rollups {
		at := storage.Period(m.At, r.Resolution)
		keys, err := h.sketches.add(i, at, series, now, m.Keys)
		if err != nil {
			return 0, err
		}
		h.rollups[i].bind(0, at, series, counted(m.Allowed), counted(m.Refused), counted(m.Blocked),
			counted(m.Banned), counted(m.WouldRefuse), counted(m.Units), keys)
		if _, err := h.rollups[i].exec(); err != nil {
			return 0, err
		}
	}
	n, err := h.heaviest.add(storage.Period(m.At, time.Hour), series, m.Heaviest)
	return n + 2*int64(len(storage.Rollups)), err
}

func counted(n int64) int64 { return min(max(n, 0), mostCounted) }

// idOf returns the number of a series, which it adds if there is none; 0 if there are too
// many.
func (h *history) idOf(of storage.Series) (id int64, err error) {
	if id := h.ids[of]; id != 0 {
		return id, nil
	}
	for range 2 {
		h.seriesID.bind(0, of.Zone, of.Limit)
		err := h.seriesID.each(func(row []driver.Value) error { return integers(row, &id) })
		if err != nil || id != 0 {
			h.ids[of] = id
			return id, err
		}
		h.addSeries.bind(0, of.Zone, of.Limit, int64(storage.MaxSeries))
		if _, err := h.addSeries.exec(); err != nil {
			return 0, err
		}
	}
	return 0, nil
}
