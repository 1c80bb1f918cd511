package sqlite

import (
	"database/sql/driver"
	"errors"
	"fmt"

	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/storage"
)

// buckets reads and writes the states of token buckets.
type buckets struct {
	selects sized
	upserts sized

	writes []int // the indices of changed cells
}

func (b *buckets) prepare(db *conn) error {
	return errors.Join(b.prepareReads(db), db.prepareSized(&b.upserts, upsertBuckets, 6, 0, 0))
}

// prepareReads prepares the reading statements.
func (b *buckets) prepareReads(db *conn) error {
	return db.prepareSized(&b.selects, selectBuckets, 1, 1, 4)
}

// selectBuckets returns the query for n keys of a limit. A key of NULL matches no row.
func selectBuckets(n int) string {
	return `WITH wanted (i, key) AS (VALUES ` + tuples(n, `(%d, ?)`) + `)
		SELECT i, at, units, part FROM wanted CROSS JOIN buckets AS b
		    ON b.limit_id = ? AND b.key = wanted.key`
}

func upsertBuckets(n int) string {
	return `INSERT INTO buckets (limit_id, key, at, units, part, full) VALUES ` + tuples(n, `(?, ?, ?, ?, ?, ?)`) + `
		ON CONFLICT (limit_id, key) DO UPDATE
		SET at = excluded.at, units = excluded.units, part = excluded.part, full = excluded.full`
}

// read sets the states of the cells that have a bucket.
func (b *buckets) read(claims []storage.Claim, cells []cell) error {
	for from, to := range groups(cells) {
		if claims[cells[from].claims[0]].Limit.CountsSlots() {
			continue
		}
		for cells := cells[from:to]; len(cells) > 0; {
			i := smallest(len(cells))
			n := min(sizes[i], len(cells))
			if err := b.readSome(b.selects[i], sizes[i], cells[:n]); err != nil {
				return fmt.Errorf("read buckets: %w", err)
			}
			cells = cells[n:]
		}
	}
	return nil
}

func (b *buckets) readSome(s *stmt, size int, cells []cell) error {
	for i := range size {
		if i < len(cells) {
			s.bind(i, cells[i].key[:])
		} else {
			s.bind(i, nil)
		}
	}
	s.bind(size, int64(cells[0].id))
	return s.each(func(row []driver.Value) error {
		var i int64
		var b limiter.Bucket
		if err := integers(row, &i, &b.At, &b.Units, &b.Part); err != nil {
			return err
		}
		c := &cells[i]
		c.bucket = b
		c.state.Bucket = c.bucket
		return nil
	})
}

// write writes the buckets that the claims have changed, and returns how many.
func (b *buckets) write(claims []storage.Claim, cells []cell) (written int64, err error) {
	for from, to := range groups(cells) {
		if claims[cells[from].claims[0]].Limit.CountsSlots() {
			continue
		}
		b.writes = b.writes[:0]
		for i := range cells[from:to] {
			if c := &cells[from+i]; c.state.Bucket != c.bucket {
				b.writes = append(b.writes, i)
			}
		}
		if err := b.writeLimit(claims, cells[from:to]); err != nil {
			return written, fmt.Errorf("write buckets: %w", err)
		}
		written += int64(len(b.writes))
	}
	return written, nil
}

func (b *buckets) writeLimit(claims []storage.Claim, cells []cell) error {
	id := driver.Value(int64(cells[0].id))
	return inSizes(&b.upserts, len(b.writes), func(s *stmt, row, n int) {
		c := &cells[b.writes[n]]
		bucket := c.state.Bucket
		l := claims[c.claims[len(c.claims)-1]].Limit
		s.bind(6*row, id, c.key[:], bucket.At, bucket.Units, bucket.Part, c.state.Expires(&l, 0))
	})
}
