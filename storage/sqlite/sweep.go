package sqlite

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"math"
	"sync/atomic"
	"time"

	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/storage"
	"github.com/caddy-tally/caddy-tally/storage/internal/rows"
)

const (
	// sweepRows bounds the rows that one step examines and deletes. A claim may have to wait for a step,
	// so a step should take no longer than a claim.
	sweepRows = 100
	// sweepLimits bounds the limits that one step examines.
	sweepLimits = 64

	// vacuumStep bounds the pages that one step returns to the disk.
	vacuumStep = 16
	// No pages are returned while fewer than vacuumPages, or less than a quarter of the file, are free:
	// they will be needed again.
	vacuumPages = 256
	vacuumShare = 4

	// farFuture is how far in the future a row must lie, beyond the window in which it could count, to be
	// deleted as nonsense. It is more than clocks differ, and more than a sweep can be late.
	farFuture = int64(24 * time.Hour)
)

// Sweep implements [storage.Store]. It works through the limits of all processes, the token buckets, the clients, the
// resets and the history, then deletes unused limits, and returns free pages to the disk. Each step continues where the
// previous one stopped.
//
// A token bucket is kept until it has drained at the amount of its last claim.
func (s *Store) Sweep(ctx context.Context, term *storage.Term) (storage.Swept, error) {
	if err := ctx.Err(); err != nil {
		return storage.Swept{}, wrap("sweep", err)
	}
	var unfolded error
	if a := s.periods.alone.Load(); a != nil && !s.sweeping.begun.Load() {
		unfolded = s.folds.foldForSweep(a)
	}
	s.tx.mu.Lock()
	defer s.tx.mu.Unlock()
	if s.tx.closed {
		return storage.Swept{}, wrap("sweep", storage.ErrClosed)
	}
	if err := ctx.Err(); err != nil {
		return storage.Swept{}, wrap("sweep", err)
	}
	if s.place.check() != nil {
		return storage.Swept{}, nil // the next claim returns the error
	}
	sw := s.sweeping
	if !sw.begun.Load() {
		if s.periods.alone.Load() == nil {
			unfolded = s.folds.foldAllLocked()
		}
		// a full database has room for a fold after a sweep
		if sw.unfolded = code(unfolded) == codeFull; unfolded != nil && !sw.unfolded {
			return storage.Swept{}, s.place.failed(wrap("sweep", unfolded))
		}
		sw.begun.Store(true)
	}
	err := s.tx.inTermLocked(term, func() (int64, error) {
		sw.now, sw.era, sw.shift = term.Time.Now, term.Era, term.Shift
		err := sw.step()
		return sw.deleted + sw.vacuumed + sw.dropped, err
	})
	if err != nil {
		sw.deleted = 0
	}
	if sw.dropped > 0 {
		s.claims.limits.forget()
	}
	s.log.askToEmptyLocked(sw.now)
	return storage.Swept{Rows: sw.deleted, More: sw.more}, s.place.failed(wrap("sweep", err))
}

// sweeper remembers where the last step stopped.
type sweeper struct {
	db *conn
	sweeps

	phase  int          // the index of the present phase
	limit  int64        // the last finished limit of the phase
	bucket driver.Value // the key of the last finished bucket

	begun atomic.Bool // this round has folded the journal; set under the lock of transactions

	now, era, shift int64 // the time of this step
	unfolded        bool  // the database has no room for some records of the journal

	deleted  int64 // rows deleted by this step
	vacuumed int64 // pages returned by this step
	dropped  int64 // limits deleted by this step
	more     bool  // this step stopped at its bound
}

// sweeps are the statements of a sweep.
type sweeps struct {
	nextLimit                                    *stmt
	lastSlot, deleteWindows, deleteSlots         *stmt
	lastBucket, deleteBuckets, deleteSomeBuckets *stmt
	deleteOldBuckets                             *stmt
	deleteStandings, deleteResets, deleteLimits  *stmt
	side                                         side
}

func newSweeper(db *conn) (*sweeper, error) {
	sw := &sweeper{db: db}
	sw.enter(0)
	err := db.prepareAll([]prepared{
		{&sw.nextLimit, `SELECT id, algorithm, window, slots, era FROM limits WHERE id > ? ORDER BY id LIMIT 1`, 1, 5},
		{&sw.lastSlot, `SELECT window, key, slot FROM counters WHERE limit_id = ? AND window BETWEEN ? AND ?
			ORDER BY window, key, slot LIMIT 1 OFFSET ?`, 4, 3},
		{&sw.deleteWindows, `DELETE FROM counters WHERE limit_id = ? AND window BETWEEN ? AND ?`, 3, 0},
		{&sw.deleteSlots,
			`DELETE FROM counters WHERE limit_id = ? AND window >= ? AND (window, key, slot) <= (?, ?, ?)`, 5, 0},
		{&sw.deleteOldBuckets, `DELETE FROM buckets WHERE limit_id = ?1 AND key IN
			(SELECT key FROM buckets WHERE limit_id = ?1 LIMIT ?2)`, 2, 0},
		{&sw.lastBucket, `SELECT limit_id, key FROM buckets WHERE (limit_id, key) > (?, ?)
			ORDER BY limit_id, key LIMIT 1 OFFSET ?`, 3, 2},
		{&sw.deleteBuckets, `DELETE FROM buckets WHERE (limit_id, key) > (?, ?) AND (full <= ? OR at > ?)`, 4, 0},
		{&sw.deleteSomeBuckets, `DELETE FROM buckets WHERE (limit_id, key) > (?, ?) AND (limit_id, key) <= (?, ?)
			AND (full <= ? OR at > ?)`, 6, 0},
		{&sw.deleteStandings, `DELETE FROM standings WHERE key IN
			(SELECT key FROM standings WHERE expires <= ? ORDER BY expires LIMIT ?)`, 2, 0},
		{&sw.deleteResets, `DELETE FROM resets WHERE number IN
			(SELECT number FROM resets WHERE at <= ? ORDER BY number LIMIT ?)`, 2, 0},
		{&sw.deleteLimits, `DELETE FROM limits WHERE (seen < ? OR era <> ?)
			AND NOT EXISTS (SELECT 1 FROM counters WHERE limit_id = id)
			AND NOT EXISTS (SELECT 1 FROM buckets WHERE limit_id = id)`, 2, 0},
	})
	return sw, errors.Join(err, sw.side.prepare(db))
}

// enter begins a phase.
func (sw *sweeper) enter(phase int) {
	sw.phase, sw.limit, sw.bucket = phase, math.MinInt64, []byte{}
}

// step works until its bound is reached or the round is complete.
func (sw *sweeper) step() error {
	sw.deleted, sw.vacuumed, sw.dropped, sw.more = 0, 0, 0, false
	phases := [...]func() (done bool, err error){sw.counters, sw.buckets, sw.standings, sw.resets, sw.history,
		sw.limits, sw.vacuum}
	for {
		done, err := phases[sw.phase]()
		if err != nil || !done {
			sw.more = err == nil
			return err
		}
		if sw.phase == len(phases)-1 {
			sw.enter(0)
			sw.begun.Store(false)
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

// forgotten deletes the rows of a limit in an earlier era.
func (sw *sweeper) forgotten(id int64) error {
	if err := sw.windows(id, math.MinInt64, math.MaxInt64); err != nil || sw.left() <= 0 {
		return err
	}
	return sw.delete(sw.deleteOldBuckets, id, sw.left())
}

// stored returns the limit in a row, with an amount of 1, or nil if the row is invalid.
func stored(algorithm, window, slots int64) *limiter.Limit {
	l, err := limiter.Stored(algorithm, window, slots)
	if err != nil {
		return nil
	}
	return &l
}

// expired deletes the rows of a limit in windows that no longer count, and rows far in the future.
func (sw *sweeper) expired(id int64, l limiter.Limit) error {
	zone := l.ZoneSlack()
	first := l.WindowOf(l.Oldest(sw.now - zone))
	if err := sw.windows(id, math.MinInt64, first-1); err != nil {
		return err
	}
	last := l.WindowOf(l.Newest(addCapped(sw.now, farFuture+zone)))
	return sw.windows(id, last+1, math.MaxInt64)
}

// windows deletes rows of a limit from the first to the last window, as many as the step still may.
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
	n, err := s.exec(args...)
	sw.deleted += n
	return err
}

// buckets examines as many token buckets as the step still may, and deletes those that have drained.
func (sw *sweeper) buckets() (done bool, err error) {
	if sw.left() <= 0 {
		return false, nil
	}
	from := []driver.Value{sw.limit, sw.bucket}
	var last []driver.Value // the last bucket to examine
	sw.lastBucket.bind(0, sw.limit, sw.bucket, sw.left()-1)
	err = sw.lastBucket.each(func(row []driver.Value) error {
		last = append(last, row...)
		return nil
	})
	if err != nil {
		return false, err
	}
	full, latest := sw.now, addCapped(sw.now, int64(limiter.MaxRefill))
	if last == nil {
		return true, sw.delete(sw.deleteBuckets, append(from, full, latest)...)
	}
	err = sw.delete(sw.deleteSomeBuckets, append(append(from, last...), full, latest)...)
	if err != nil {
		return false, err
	}
	if err := integers(last, &sw.limit); err != nil {
		return false, err
	}
	sw.bucket = last[1]
	return false, nil
}

// standings deletes expired records of clients.
func (sw *sweeper) standings() (done bool, err error) {
	return sw.deleteUntil(sw.deleteStandings, sw.now-sw.shift)
}

// resets deletes old resets.
func (sw *sweeper) resets() (done bool, err error) {
	return sw.deleteUntil(sw.deleteResets, sw.now-sw.shift-int64(storage.KeepResets))
}

// deleteUntil deletes rows with times up to one, as many as the step still may.
func (sw *sweeper) deleteUntil(s *stmt, time int64) (done bool, err error) {
	if sw.left() <= 0 {
		return false, nil
	}
	most := sw.deleted + sw.left()
	err = sw.delete(s, time, sw.left())
	return sw.deleted < most, err
}

// history deletes rows of the history and the lists of acts that are not kept.
func (sw *sweeper) history() (done bool, err error) {
	if sw.left() <= 0 {
		return false, nil
	}
	n, err := sw.side.removeSome(rows.Expired(sw.now), sw.left())
	sw.deleted += n
	return sw.left() > 0, err
}

// limits deletes limits that have no rows and were not used for a day, unless there may be unfolded records
// of them.
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

// vacuum returns free pages to the disk. The file shrinks with the next checkpoint.
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
	sw.vacuumed = max(free-now, 0) // about the number of moved pages
	return now >= free, err
}

func addCapped(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}
