package sqlite

import (
	"context"
	"database/sql/driver"
	"fmt"
	"time"

	"github.com/caddy-tally/caddy-tally/storage"
)

// History implements [storage.Historian].
func (s *Store) History(ctx context.Context, q storage.HistoryQuery) (points []storage.Point, err error) {
	first, end, err := q.Periods()
	if err != nil {
		return nil, wrap("history", err)
	}
	table := ""
	for i, r := range storage.Rollups {
		if r.Resolution == q.Resolution {
			table = rollupTables[i]
		}
	}
	sum := func(column string) string {
		return fmt.Sprintf(`CAST(min(total(max(%s, 0)), %d) AS INTEGER)`, column, int64(mostCounted))
	}
	query := `SELECT at, ` + sum("allowed") + `, ` + sum("refused") + `, ` + sum("blocked") + `, ` + sum("banned") + `, ` +
		sum("would_refuse") + `, ` + sum("units") + `, max(keys) FROM ` + table + `
		WHERE at >= ? AND at < ? AND series IN (SELECT id FROM series WHERE (?3 = '' OR zone = ?3) AND name = ?4)
		GROUP BY at ORDER BY at LIMIT ?`
	err = s.look(ctx, "history", func(c *conn) error {
		return c.each(query, func(row []driver.Value) error {
			var p storage.Point
			err := integers(row, &p.At, &p.Allowed, &p.Refused, &p.Blocked, &p.Banned, &p.WouldRefuse, &p.Units, &p.Keys)
			p.At *= int64(q.Resolution)
			points = append(points, p)
			return err
		}, first, end, q.Zone, q.Limit, int64(storage.MaxPoints))
	})
	return points, err
}

// Heaviest implements [storage.Historian].
func (s *Store) Heaviest(ctx context.Context, q storage.HistoryQuery, n int) (heavy []storage.Heavy, err error) {
	q.Resolution = time.Hour
	first, end, err := q.Periods()
	if err != nil {
		return nil, wrap("heaviest", err)
	}
	const query = `SELECT CAST(total(max(units, 0)) AS INTEGER), CAST(total(max(refused, 0)) AS INTEGER), key, zone, name
		FROM heaviest JOIN series ON id = series
		WHERE at >= ? AND at < ? AND (?3 = '' OR zone = ?3 AND (?4 = '' OR name = ?4))
		GROUP BY series, key ORDER BY total(units) + total(refused) DESC, zone, name, key LIMIT ?`
	err = s.look(ctx, "heaviest", func(c *conn) error {
		return c.each(query, func(row []driver.Value) error {
			var h storage.Heavy
			if err := integers(row, &h.Units, &h.Refused); err != nil {
				return err
			}
			key, isKey := row[2].([]byte)
			zone, isZone := row[3].(string)
			name, isName := row[4].(string)
			if !isKey || !isZone || !isName {
				return errDamaged("a heavy key has no name")
			}
			copy(h.Key[:], key)
			h.Zone, h.Limit = zone, name
			heavy = append(heavy, h)
			return nil
		}, first, end, q.Zone, q.Limit, int64(min(max(n, 0), storage.MaxPoints)))
	})
	return heavy, err
}

// look runs f on the connection beside the writer's, so that no claim waits for it.
func (s *Store) look(ctx context.Context, doing string, f func(c *conn) error) error {
	s.sideMu.Lock()
	defer s.sideMu.Unlock()
	if s.side == nil {
		return wrap(doing, storage.ErrClosed)
	}
	err := ctx.Err()
	if err == nil {
		err = s.inPlace()
	}
	if err == nil {
		err = f(s.side)
	}
	return s.failed(wrap(doing, err))
}

var _ storage.Historian = (*Store)(nil)
