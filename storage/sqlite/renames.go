package sqlite

import (
	"database/sql/driver"
	"fmt"

	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/storage"
)

// renames moves rows from former names of keys.
type renames struct {
	slots, deleteSlots    *stmt
	bucket, deleteBuckets *stmt
}

func (r *renames) prepare(db *conn) error {
	return db.prepareAll([]prepared{
		{&r.slots, `SELECT slot, used FROM counters WHERE limit_id = ? AND window = ? AND key = ?`, 3, 2},
		{&r.deleteSlots, `DELETE FROM counters WHERE limit_id = ? AND window = ? AND key = ?`, 3, 0},
		{&r.bucket, `SELECT at, units, part FROM buckets WHERE limit_id = ? AND key = ?`, 2, 3},
		{&r.deleteBuckets, `DELETE FROM buckets WHERE limit_id = ? AND key = ?`, 2, 0},
	})
}

// move adds the counts under former names to the states of the cells, and deletes their rows. It returns how
// many rows it deleted.
func (r *renames) move(claims []storage.Claim, cells []cell) (moved int64, err error) {
	for i := range cells {
		c := &cells[i]
		if c.former == (storage.Key{}) {
			continue
		}
		claim := &claims[c.claims[0]]
		var n int64
		if claim.Limit.CountsSlots() {
			n, err = r.moveSlots(c, claim)
		} else {
			n, err = r.moveBucket(c, claim)
		}
		if err != nil {
			return 0, fmt.Errorf("rename: %w", err)
		}
		moved += n
	}
	return moved, nil
}

func (r *renames) moveSlots(c *cell, claim *storage.Claim) (moved int64, err error) {
	var former limiter.State
	l, id := claim.Limit, driver.Value(int64(c.id))
	for w := l.WindowOf(l.Oldest(claim.Now)); w <= l.WindowOf(l.Newest(claim.Now)); w++ {
		before := moved
		r.slots.bind(0, id, w, c.former[:])
		err := r.slots.each(func(row []driver.Value) error {
			var slot limiter.Slot
			err := integers(row, &slot.Index, &slot.Used)
			former.Slots = append(former.Slots, slot)
			moved++
			return err
		})
		if err != nil {
			return moved, err
		}
		if moved == before {
			continue
		}
		if err := r.deleteSlots.run(id, w, c.former[:]); err != nil {
			return moved, err
		}
	}
	c.state.Merge(&l, former, claim.Now)
	return moved, nil
}

func (r *renames) moveBucket(c *cell, claim *storage.Claim) (moved int64, err error) {
	var former limiter.Bucket
	id := driver.Value(int64(c.id))
	r.bucket.bind(0, id, c.former[:])
	err = r.bucket.each(func(row []driver.Value) error {
		moved++
		return integers(row, &former.At, &former.Units, &former.Part)
	})
	if err != nil || moved == 0 {
		return moved, err
	}
	c.state.Merge(&claim.Limit, limiter.State{Bucket: former}, claim.Now)
	err = r.deleteBuckets.run(id, c.former[:])
	return moved, err
}
