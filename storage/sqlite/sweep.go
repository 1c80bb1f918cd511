package sqlite

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/storage"
)

const (
	// sweepRows bounds the rows that one step looks at in order to delete them.
	// A claim may have to wait for a step, so one should take no longer than a
	// claim does by itself.
	sweepRows = 100
	// sweepLimits bounds the limits that one step looks at.
	sweepLimits = 64

	// vacuumStep bounds the pages that one step gives back to the disk.
	vacuumStep = 16
	// None are given back while fewer than vacuumPages, or less than a quarter
	// of the file, are free: they will be needed again.
	vacuumPages = 256
	vacuumShare = 4

	// farFuture is how far ahead of the sweep a row must lie, beyond the window
	// in which it could count, to be deleted as nonsense: further than clocks
	// differ and than a sweep can be late.
	farFuture = int64(24 * time.Hour)
)

// Sweep implements [storage.Store]. It works through all limits, whichever
// process they came from, then through the token buckets, the clients, the notes of
// resets and the history, then drops limits that nobody uses, and then gives free pages back; where one
// step stops, the next goes on.
//
// A token bucket is kept until it has drained at the amount it was last claimed
// with.
func (s *Store) Sweep(ctx context.Context, now int64) (storage.Swept, error) {
	return s.sweep(ctx, nil, now)
}

func (s *Store) sweep(ctx context.Context, term *storage.Term, now int64) (storage.Swept, error) {
	if err := ctx.Err(); err != nil {
		return storage.Swept{}, wrap("sweep", err)
	}
	var unfolded error
	if a := s.alone.Load(); a != nil && s.sweepBegins() {
		unfolded = s.foldForSweep(a)
	}
	s.mu.lockPatiently()
	defer s.mu.Unlock()
	if s.closed {
		return storage.Swept{}, wrap("sweep", storage.ErrClosed)
	}
	if err := ctx.Err(); err != nil {
		return storage.Swept{}, wrap("sweep", err)
	}
	if s.place.check() != nil {
		return storage.Swept{}, nil // the next claim says so
	}
	sw := s.sweeping
	if !sw.begun {
		if s.alone.Load() == nil {
			unfolded = s.foldAllLocked()
		}
		if sw.unfolded = code(unfolded) == codeFull; unfolded != nil && !sw.unfolded { // there is room for a fold after a sweep
			return storage.Swept{}, s.place.failed(wrap("sweep", unfolded))
		}
		sw.begun = true
	}
	err := s.tx.doLocked(term, func() (int64, error) {
		if sw.now = now; term != nil {
			sw.now, sw.era, sw.shift = term.Time.Now, term.Era, term.Shift
		}
		err := sw.step()
		return sw.deleted + sw.vacuumed + sw.dropped, err
	})
	if err != nil {
		sw.deleted = 0
	}
	err = errors.Join(err, s.measureLocked())
	if sw.dropped > 0 {
		s.claims.limits.forget()
	}
	s.log.askToEmptyLocked(sw.now)
	return storage.Swept{Rows: sw.deleted, More: sw.more}, s.place.failed(wrap("sweep", err))
}

// sweepBegins reports whether the next step is the first of a round.
func (s *Store) sweepBegins() bool {
	s.mu.lockPatiently()
	defer s.mu.Unlock()
	return !s.sweeping.begun
}

// sweeper remembers where the last step stopped.
type sweeper struct {
	db *conn
	sweeps

	phase  int          // index of the work to go on with
	limit  int64        // the last limit that is done, in this phase
	bucket driver.Value // the last bucket's key that is done, nil before the first

	begun bool // this round has folded the journal

	now, era, shift int64 // of the time of this step
	unfolded        bool  // the journal has records of this round that the database has no room for

	deleted  int64 // rows of this step
	vacuumed int64 // pages that this step has given back
	dropped  int64 // limits of this step
	more     bool  // this step has stopped at its bound
}

// sweeps are the statements of a sweep that runs once for every few rows.
type sweeps struct {
	nextLimit                                    *stmt
	lastSlot, deleteWindows, deleteSlots         *stmt
	lastBucket, deleteBuckets, deleteSomeBuckets *stmt
	deleteOldBuckets                             *stmt
	deleteStandings, deleteResets, deleteLimits  *stmt
	past                                         [len(pastTables)]*stmt
}

func newSweeper(db *conn) (*sweeper, error) {
	sw := &sweeper{db: db}
	sw.enter(0)
	for _, p := range []struct {
		stmt          **stmt
		args, columns int
		query         string
	}{
		{&sw.nextLimit, 1, 5, `SELECT id, algorithm, window, slots, era FROM limits WHERE id > ? ORDER BY id LIMIT 1`},
		{&sw.lastSlot, 4, 3, `SELECT window, key, slot FROM counters WHERE limit_id = ? AND window BETWEEN ? AND ?
			ORDER BY window, key, slot LIMIT 1 OFFSET ?`},
		{&sw.deleteWindows, 3, 0, `DELETE FROM counters WHERE limit_id = ? AND window BETWEEN ? AND ?`},
		{&sw.deleteSlots, 5, 0, `DELETE FROM counters WHERE limit_id = ? AND window >= ? AND (window, key, slot) <= (?, ?, ?)`},
		{&sw.deleteOldBuckets, 2, 0, `DELETE FROM buckets WHERE limit_id = ?1 AND key IN
			(SELECT key FROM buckets WHERE limit_id = ?1 LIMIT ?2)`},
		{&sw.lastBucket, 3, 2, `SELECT limit_id, key FROM buckets WHERE (limit_id, key) > (?, ?)
			ORDER BY limit_id, key LIMIT 1 OFFSET ?`},
		{&sw.deleteBuckets, 4, 0, `DELETE FROM buckets WHERE (limit_id, key) > (?, ?) AND (full <= ? OR at > ?)`},
		{&sw.deleteSomeBuckets, 6, 0, `DELETE FROM buckets WHERE (limit_id, key) > (?, ?) AND (limit_id, key) <= (?, ?)
			AND (full <= ? OR at > ?)`},
		{&sw.deleteStandings, 2, 0, `DELETE FROM standings WHERE key IN
			(SELECT key FROM standings WHERE expires <= ? ORDER BY expires LIMIT ?)`},
		{&sw.deleteResets, 2, 0, `DELETE FROM resets WHERE number IN
			(SELECT number FROM resets WHERE at <= ? ORDER BY number LIMIT ?)`},
		{&sw.deleteLimits, 2, 0, `DELETE FROM limits WHERE (seen < ? OR era <> ?)
			AND NOT EXISTS (SELECT 1 FROM counters WHERE limit_id = id)
			AND NOT EXISTS (SELECT 1 FROM buckets WHERE limit_id = id)`},
	} {
		var err error
		if *p.stmt, err = db.prepare(p.query, p.args, p.columns); err != nil {
			return nil, err
		}
	}
	return sw, sw.preparePast()
}

// enter goes to the start of a phase.
func (sw *sweeper) enter(phase int) {
	sw.phase, sw.limit, sw.bucket = phase, math.MinInt64, []byte{}
}

// step works until its bound is reached or all is done.
func (sw *sweeper) step() error {
	sw.deleted, sw.vacuumed, sw.dropped, sw.more = 0, 0, 0, false
	phases := [...]func() (done bool, err error){sw.counters, sw.buckets, sw.standings, sw.resets, sw.history, sw.limits, sw.vacuum}
	for {
		done, err := phases[sw.phase]()
		if err != nil || !done {
			sw.more = err == nil
			return err
		}
		if sw.phase == len(phases)-1 {
			sw.enter(0)
			sw.begun = false
			return nil
		}
		sw.enter(sw.phase + 1)
	}
}

func (sw *sweeper) left() int64 { return sweepRows - sw.deleted }

// counters deletes the expired rows of sliding and fixed limits.
func (sw *sweeper) counters() (done bool, err error) {
	for range sweepLimits {
		var l *limiter.Limit
		id, era, found := int64(0), int64(0), false
		sw.nextLimit.bind(0, sw.limit)
		err := sw.nextLimit.each(func(row []driver.Value) error {
			var algorithm, window, slots int64
			err := integers(row, &id, &algorithm, &window, &slots, &era)
			l, found = stored(algorithm, window, slots), true
			return err
		})
		if err != nil || !found {
			return err == nil, err
		}
		switch {
		case era != sw.era:
			err = sw.forgotten(id)
		case l != nil && l.CountsSlots():
			err = sw.expired(id, *l)
		}
		if err != nil || sw.left() <= 0 {
			return false, err
		}
		sw.limit = id
	}
	return false, nil
}

// forgotten deletes the rows of a limit in an era before this one.
func (sw *sweeper) forgotten(id int64) error {
	if err := sw.windows(id, math.MinInt64, math.MaxInt64); err != nil || sw.left() <= 0 {
		return err
	}
	return sw.delete(sw.deleteOldBuckets, id, sw.left())
}

// stored returns the limit that a row describes, with an amount of 1, or nil if
// it describes none.
func stored(algorithm, window, slots int64) *limiter.Limit {
	l, err := limiter.Stored(algorithm, window, slots)
	if err != nil {
		return nil
	}
	return &l
}

// expired deletes the rows of a limit in the windows that can't count any more,
// and those far in the future.
func (sw *sweeper) expired(id int64, l limiter.Limit) error {
	zone := l.ZoneSlack()
	first := l.WindowOf(l.Oldest(sw.now - zone))
	if err := sw.windows(id, math.MinInt64, first-1); err != nil {
		return err
	}
	last := l.WindowOf(l.Newest(addCapped(sw.now, farFuture+zone)))
	return sw.windows(id, last+1, math.MaxInt64)
}

// windows deletes rows of a limit from the first to the last window, as many as
// the step may still delete.
func (sw *sweeper) windows(id, first, last int64) error {
	if sw.left() <= 0 || first > last {
		return nil
	}
	var bound []driver.Value // the last row to delete
	sw.lastSlot.bind(0, id, first, last, sw.left()-1)
	err := sw.lastSlot.each(func(row []driver.Value) error {
		bound = append(bound, row...)
		return nil
	})
	if err != nil {
		return err
	}
	if bound == nil {
		return sw.delete(sw.deleteWindows, id, first, last)
	}
	return sw.delete(sw.deleteSlots, append([]driver.Value{id, first}, bound...)...)
}

// delete runs a statement that deletes, and counts the rows.
func (sw *sweeper) delete(s *stmt, args ...driver.Value) error {
	s.bind(0, args...)
	n, err := s.exec()
	sw.deleted += n
	return err
}

// buckets looks at as many token buckets as the step may still delete, and
// deletes those that have drained.
func (sw *sweeper) buckets() (done bool, err error) {
	if sw.left() <= 0 {
		return false, nil
	}
	from := []driver.Value{sw.limit, sw.bucket}
	var to []driver.Value // the last bucket to look at
	sw.lastBucket.bind(0, sw.limit, sw.bucket, sw.left()-1)
	err = sw.lastBucket.each(func(row []driver.Value) error {
		to = append(to, row...)
		return nil
	})
	if err != nil {
		return false, err
	}
	full, at := sw.now, addCapped(sw.now, int64(limiter.MaxRefill))
	if to == nil {
		return true, sw.delete(sw.deleteBuckets, append(from, full, at)...)
	}
	err = sw.delete(sw.deleteSomeBuckets, append(append(from, to...), full, at)...)
	if err != nil {
		return false, err
	}
	if err := integers(to, &sw.limit); err != nil {
		return false, err
	}
	sw.bucket = to[1]
	return false, nil
}

// standings deletes expired records of clients.
func (sw *sweeper) standings() (done bool, err error) {
	return sw.deleteUntil(sw.deleteStandings, sw.now-sw.shift)
}

// resets deletes obsolete notes of resets.
func (sw *sweeper) resets() (done bool, err error) {
	return sw.deleteUntil(sw.deleteResets, sw.now-sw.shift-int64(storage.KeepResets))
}

// deleteUntil runs a statement that deletes rows of up to a time, as many as the step may
// still delete.
func (sw *sweeper) deleteUntil(s *stmt, time int64) (done bool, err error) {
	if sw.left() <= 0 {
		return false, nil
	}
	most := sw.deleted + sw.left()
	err = sw.delete(s, time, sw.left())
	return sw.deleted < most, err
}

// limits drops limits that have no rows and were not used for a day. A limit may have records that
// are not folded.
func (sw *sweeper) limits() (done bool, err error) {
	if sw.unfolded {
		return true, nil
	}
	before := sw.deleted
	err = sw.delete(sw.deleteLimits, sw.now-unseenFor, sw.era)
	sw.dropped = sw.deleted - before
	sw.deleted = before
	return true, err
}

// vacuum gives free pages back to the disk. The file shrinks with the next
// checkpoint.
func (sw *sweeper) vacuum() (done bool, err error) {
	free, err := sw.db.int(`PRAGMA freelist_count`)
	if err != nil || free < vacuumPages {
		return true, err
	}
	pages, err := sw.db.int(`PRAGMA page_count`)
	if err != nil || free < pages/vacuumShare {
		return true, err
	}
	if err := sw.db.exec(fmt.Sprintf(`PRAGMA incremental_vacuum(%d)`, vacuumStep)); err != nil {
		return false, err
	}
	now, err := sw.db.int(`PRAGMA freelist_count`)
	sw.vacuumed = max(free-now, 0) // about as many were moved
	return now >= free, err
}

func addCapped(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}
