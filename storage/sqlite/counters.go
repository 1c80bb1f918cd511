package sqlite

import (
	"cmp"
	"database/sql/driver"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/storage"
)

// pruneFrom is the number of keys from which on it is cheaper to ask for the existing windows than to look
// for every key in all windows.
const pruneFrom = 4

// mostUsed is the maximum of units in one row. The sum of two rows fits an integer.
const mostUsed = math.MaxInt64 / 2

// counters reads and writes the slots of sliding and fixed limits. A row per slot lets a sweep find the expired rows
// without reading the others (decision 174).
type counters struct {
	newest  *stmt
	oldest  *stmt
	selects sized
	inserts sized
	upserts sized

	reads  []slotRead
	writes []slotWrite
}

// slotRead names the rows of one key in one window.
type slotRead struct {
	window int64
	oldest int64 // the first slot needed
	cell   int
}

// slotWrite adds units to a row.
type slotWrite struct {
	window, slot int64
	units        int64
	cell         int
	fresh        bool // the row doesn't exist
}

func (c *counters) prepare(db *conn) error {
	return errors.Join(c.prepareReads(db), db.prepareSized(&c.inserts, insertSlots, 5, 0, 0),
		db.prepareSized(&c.upserts, upsertSlots, 5, 0, 0))
}

// prepareReads prepares the reading statements.
func (c *counters) prepareReads(db *conn) error {
	err := db.prepareAll([]prepared{
		{&c.newest, `SELECT window FROM counters WHERE limit_id = ? ORDER BY window DESC LIMIT 1`, 1, 1},
		{&c.oldest, `SELECT window FROM counters WHERE limit_id = ? ORDER BY window LIMIT 1`, 1, 1},
	})
	return errors.Join(err, db.prepareSized(&c.selects, selectSlots, 2, 2, 3))
}

// selectSlots returns the query for the rows of n windows and keys of a limit. A key of NULL matches no
// row.
func selectSlots(n int) string {
	return `WITH wanted (i, window, key) AS (VALUES ` + tuples(n, `(%d, ?, ?)`) + `)
		SELECT i, slot, used FROM wanted CROSS JOIN counters AS c
		    ON c.limit_id = ? AND c.window = wanted.window AND c.key = wanted.key AND c.slot >= ?`
}

// insertSlots returns the statement that inserts n new rows. If one of them exists, the whole transaction
// is rolled back. So SQLite need not be able to undo this statement alone, and copies no pages for it.
func insertSlots(n int) string {
	return `INSERT OR ROLLBACK INTO counters (limit_id, window, key, slot, used) VALUES ` + tuples(n, `(?, ?, ?, ?, ?)`)
}

// upsertSlots returns the statement that adds to n rows. It clamps the stored units as the reader did, so
// that the sum is the one that was decided.
func upsertSlots(n int) string {
	return `INSERT INTO counters (limit_id, window, key, slot, used) VALUES ` + tuples(n, `(?, ?, ?, ?, ?)`) + `
		ON CONFLICT (limit_id, window, key, slot) DO UPDATE
		SET used = min(max(used, 0), ` + fmt.Sprint(int64(mostUsed)) + `) + excluded.used`
}

// read sets the states of the cells that have slots.
func (c *counters) read(claims []storage.Claim, cells []cell) error {
	for from, to := range groups(cells) {
		if !claims[cells[from].claims[0]].Limit.CountsSlots() {
			continue
		}
		if err := c.readLimit(claims, cells[from:to]); err != nil {
			return fmt.Errorf("read counters: %w", err)
		}
	}
	return nil
}

// readLimit reads the slots of cells of one limit.
func (c *counters) readLimit(claims []storage.Claim, cells []cell) error {
	c.plan(claims, cells)
	if len(cells) >= pruneFrom {
		if err := c.prune(cells[0].id); err != nil {
			return err
		}
	}
	for reads := c.reads; len(reads) > 0; {
		i := smallest(len(reads))
		n := min(sizes[i], len(reads))
		if err := c.readSome(c.selects[i], sizes[i], cells, reads[:n]); err != nil {
			return err
		}
		reads = reads[n:]
	}
	return nil
}

// plan lists the rows to read, in the order of the table.
func (c *counters) plan(claims []storage.Claim, cells []cell) {
	c.reads = c.reads[:0]
	for i := range cells {
		for _, n := range cells[i].claims {
			l, claim := claims[n].Limit, &claims[n].Claim
			oldest, newest := l.Oldest(claim.Now), l.Newest(claim.Now)
			for w := l.WindowOf(oldest); w <= l.WindowOf(newest); w++ {
				c.reads = append(c.reads, slotRead{w, oldest, i})
			}
			last := claim.Return.At
			if first := last - min(max(claim.Return.Span, 0), limiter.MaxSpan); claim.Return.Units > 0 &&
				(first < oldest || last > newest) {
				for n := range l.WindowOf(last) - l.WindowOf(first) + 1 {
					c.reads = append(c.reads, slotRead{l.WindowOf(first) + n, first, i})
				}
			}
		}
	}
	slices.SortFunc(c.reads, func(a, b slotRead) int {
		return cmp.Or(cmp.Compare(a.window, b.window), cmp.Compare(a.cell, b.cell), cmp.Compare(a.oldest, b.oldest))
	})
	c.reads = slices.CompactFunc(c.reads, func(a, b slotRead) bool { return a.window == b.window && a.cell == b.cell })
}

// prune drops the reads of windows in which the limit has no rows: the next window, unless another process
// has a faster clock, and initially the previous one.
func (c *counters) prune(id storage.LimitID) error {
	first, last := int64(math.MaxInt64), int64(math.MinInt64)
	c.oldest.bind(0, int64(id))
	if err := c.oldest.read(&first); err != nil {
		return err
	}
	c.newest.bind(0, int64(id))
	if err := c.newest.read(&last); err != nil {
		return err
	}
	c.reads = slices.DeleteFunc(c.reads, func(r slotRead) bool { return r.window < first || r.window > last })
	return nil
}

func (c *counters) readSome(s *stmt, size int, cells []cell, reads []slotRead) error {
	oldest := int64(math.MaxInt64)
	for i := range size {
		if i < len(reads) {
			s.bind(2*i, reads[i].window, cells[reads[i].cell].key[:])
			oldest = min(oldest, reads[i].oldest)
		} else {
			s.bind(2*i, nil, nil)
		}
	}
	s.bind(2*size, int64(cells[0].id), oldest)
	return s.each(func(row []driver.Value) error {
		var i, slot, used int64
		if err := integers(row, &i, &slot, &used); err != nil {
			return err
		}
		return cells[reads[i].cell].add(limiter.Slot{Index: slot, Used: limiter.Clamp(used)})
	})
}

// add appends a slot, which must come after those of the cell.
func (c *cell) add(slot limiter.Slot) error {
	if n := len(c.slots); n > 0 && c.slots[n-1].Index >= slot.Index {
		return errDamaged("slots are out of order")
	}
	c.slots = append(c.slots, slot)
	c.state.Slots = append(c.state.Slots, slot)
	return nil
}

// write writes the changes of the claims, and returns how many rows it wrote.
func (c *counters) write(claims []storage.Claim, cells []cell) (written int64, err error) {
	for from, to := range groups(cells) {
		if !claims[cells[from].claims[0]].Limit.CountsSlots() {
			continue
		}
		c.writes = c.writes[:0]
		for i := range cells[from:to] {
			c.writes = cells[from+i].changes(c.writes, claims, i)
		}
		slices.SortFunc(c.writes, func(a, b slotWrite) int {
			return cmp.Or(freshLast(a, b), cmp.Compare(a.window, b.window), cmp.Compare(a.cell, b.cell),
				cmp.Compare(a.slot, b.slot))
		})
		if err := c.writeLimit(cells[from:to]); err != nil {
			return written, fmt.Errorf("write counters: %w", err)
		}
		written += int64(len(c.writes))
	}
	return written, nil
}

// changes appends the differences between the slots that were read and the present ones.
func (c *cell) changes(list []slotWrite, claims []storage.Claim, index int) []slotWrite {
	limit := claims[c.claims[0]].Limit
	old := c.slots
	for _, slot := range c.state.Slots {
		var was int64
		found := len(old) > 0 && old[0].Index == slot.Index
		if found {
			was, old = old[0].Used, old[1:]
		}
		if slot.Used != was {
			list = append(list, slotWrite{
				window: limit.WindowOf(slot.Index),
				slot:   slot.Index,
				units:  min(slot.Used-was, mostUsed),
				cell:   index,
				fresh:  !found && c.looked(claims, slot.Index),
			})
		}
	}
	return list
}

// looked reports whether the slot counts for one of the claims. The transaction has read such slots: if it found no
// row, there is none.
func (c *cell) looked(claims []storage.Claim, slot int64) bool {
	return slices.ContainsFunc(c.claims, func(n int) bool {
		limit, now := claims[n].Limit, claims[n].Now
		return slot >= limit.Oldest(now) && slot <= limit.Newest(now)
	})
}

// freshLast orders new rows after those that may exist.
func freshLast(a, b slotWrite) int {
	switch {
	case a.fresh == b.fresh:
		return 0
	case a.fresh:
		return 1
	}
	return -1
}

func (c *counters) writeLimit(cells []cell) error {
	fresh := slices.IndexFunc(c.writes, func(w slotWrite) bool { return w.fresh })
	if fresh < 0 {
		fresh = len(c.writes)
	}
	if err := writeSlots(&c.upserts, cells, c.writes[:fresh]); err != nil {
		return err
	}
	return writeSlots(&c.inserts, cells, c.writes[fresh:])
}

// writeSlots writes rows of one limit.
func writeSlots(statements *sized, cells []cell, writes []slotWrite) error {
	id := driver.Value(int64(cells[0].id))
	return inSizes(statements, len(writes), func(s *stmt, row, n int) {
		w := &writes[n]
		s.bind(5*row, id, w.window, cells[w.cell].key[:], w.slot, w.units)
	})
}
