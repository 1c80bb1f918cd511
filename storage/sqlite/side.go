package sqlite

import (
	"cmp"
	"context"
	"database/sql/driver"
	"slices"

	"github.com/caddy-tally/caddy-tally/storage/internal/rows"
)

// side reads and writes the rows of package rows.
type side struct{ read, write, remove, removeRange *stmt }

func (sd *side) prepare(db *conn) error {
	return db.prepareAll([]prepared{
		{&sd.read, `SELECT value FROM side WHERE name = ?`, 1, 1},
		{&sd.write, `INSERT OR REPLACE INTO side (name, value) VALUES (?, ?)`, 2, 0},
		{&sd.remove, `DELETE FROM side WHERE name = ?`, 1, 0},
		{&sd.removeRange,
			`DELETE FROM side WHERE name IN (SELECT name FROM side WHERE name >= ? AND name < ? ORDER BY name LIMIT ?)`, 3, 0},
	})
}

// update reads rows, calls decide, and writes the changed ones. It returns how many rows it wrote.
func (sd *side) update(names []string, decide func(rows map[string][]byte)) (written int64, err error) {
	values, before := make(map[string][]byte, len(names)), make([][]byte, len(names))
	for i, name := range names {
		sd.read.bind(0, []byte(name))
		err := sd.read.each(func(row []driver.Value) (err error) {
			before[i], err = blob(row[0])
			return err
		})
		if err != nil {
			return 0, err
		}
		before[i] = slices.Clone(before[i])
		values[name] = before[i]
	}
	decide(values)
	for i, name := range names {
		value := values[name]
		if slices.Equal(value, before[i]) {
			continue
		}
		written++
		if len(value) == 0 {
			err = sd.remove.run([]byte(name))
		} else {
			err = sd.write.run([]byte(name), value)
		}
		if err != nil {
			return 0, err
		}
	}
	return written, nil
}

// removeSome deletes rows of ranges, at most most.
func (sd *side) removeSome(ranges []rows.Range, most int64) (removed int64, err error) {
	for _, r := range ranges {
		n, err := sd.removeRange.exec([]byte(r.From), []byte(r.End), most-removed)
		if removed += n; err != nil || removed == most {
			return removed, err
		}
	}
	return removed, nil
}

func blob(value driver.Value) ([]byte, error) {
	bytes, ok := value.([]byte)
	if !ok {
		return nil, errDamaged("a value is none of bytes")
	}
	return bytes, nil
}

// sideRows implements [rows.Backend]: changes are made by transactions, and the past is read beside them.
type sideRows struct {
	*side
	tx  *transactions
	log *wal
}

// Update implements [rows.Backend].
func (s sideRows) Update(ctx context.Context, doing string, names []string, decide func(rows map[string][]byte)) error {
	return s.tx.do(ctx, doing, func() (int64, error) { return s.update(names, decide) })
}

// Scan implements [rows.Backend]. Neither do claims wait for it, nor it for them.
func (s sideRows) Scan(ctx context.Context, doing string, r rows.Range, f func(name string, value []byte)) error {
	query, args := `SELECT name, value FROM side WHERE name >= ? AND name < ?`, []driver.Value{[]byte(r.From),
		[]byte(r.End)}
	if r.Rest != "" {
		query, args = query+` AND substr(name, 6) = ?`, append(args, []byte(r.Rest))
	}
	if r.Newest > 0 {
		query, args = query+` ORDER BY name DESC LIMIT ? OFFSET ?`, append(args, int64(r.Newest), int64(r.Skip))
	}
	return s.log.look(ctx, doing, func(c *conn) error {
		return c.each(query, func(row []driver.Value) error {
			name, err := blob(row[0])
			value, failed := blob(row[1])
			if err = cmp.Or(err, failed, ctx.Err()); err == nil {
				f(string(name), value)
			}
			return err
		}, args...)
	})
}

// Remove implements [rows.Backend].
func (s sideRows) Remove(ctx context.Context, doing string, ranges []rows.Range, most int) (removed int, err error) {
	err = s.tx.do(ctx, doing, func() (int64, error) {
		n, err := s.removeSome(ranges, int64(most))
		removed = int(n)
		return n, err
	})
	return removed, err
}

var _ rows.Backend = sideRows{}
