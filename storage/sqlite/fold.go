package sqlite

import (
	"bytes"
	"cmp"
	"database/sql/driver"
	"fmt"
	"slices"
	"time"

	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/storage"
	"github.com/caddy-tally/caddy-tally/storage/sqlite/internal/journal"
)

// To fold a segment of the journal is to add its records to the tables, in one
// transaction in which the segment's generation is noted, too. So each record is folded once,
// whoever folds it, and whenever a process dies.

// folding is room for one fold.
type folding struct {
	limits map[storage.LimitID]limiter.Limit
	slots  []foldedSlot
	states []foldedBucket

	times      *stmt
	known      *stmt
	take, note *stmt
	upserts    [len(sizes)]*stmt
	buckets    [len(sizes)]*stmt

	foldedAt time.Time // when all that was old was folded last

	damaged int    // records of the last segment that were changed
	rows    int    // processed since the last rest
	rest    func() // is called now and then if the fold is in no hurry; or nil
}

// A fold takes tens of milliseconds of a processor. Go interrupts a goroutine only every 10 ms, so
// requests would wait for it. A fold that nobody waits for rests after work of less than 200 µs, for
// about as long as that takes: to write a row takes some two microseconds, to read or to sort one about a
// tenth of that.
const (
	restAfter = 64 // written rows
	restFor   = 300 * time.Microsecond
	easyRows  = 10 // that are read or sorted in the time of a written one
)

// worked notes that so many rows were written, and rests if it is time.
func (f *folding) worked(rows int) {
	if f.rows += rows; f.rows >= restAfter {
		f.rows = 0
		if f.rest != nil {
			f.rest()
		}
	}
}

// unhurriedly calls fold, which rests now and then, unless requests may wait for the store, the
// period has ended, or the journal fills up.
func (s *Store) unhurriedly(a *alone, fold func() error) error {
	s.folding.rest = func() {
		if !s.mu.wanted() && s.lasts(a) && !a.filling() {
			s.options.rest(restFor)
		}
	}
	defer func() { s.folding.rest = nil }()
	return fold()
}

// filling reports whether half of the journal holds unfolded records.
func (a *alone) filling() bool {
	return len(a.journal.Segments(a.folded.Load())) > a.journal.Places()/2
}

// foldedSlot has a segment's units for one row of counters.
type foldedSlot struct {
	limit        storage.LimitID
	window, slot int64
	key          storage.Key
	units        int64
}

// foldedBucket is the state of a token bucket after a segment.
type foldedBucket struct {
	limit storage.LimitID
	key   storage.Key
	n     [4]int64
	place int
}

func (f *folding) prepare(db *conn, counters *counters, buckets *buckets) error {
	f.upserts, f.buckets = counters.upserts, buckets.upserts
	f.limits = make(map[storage.LimitID]limiter.Limit)
	for _, p := range []struct {
		stmt          **stmt
		query         string
		args, columns int
	}{
		{&f.times, `SELECT now, era FROM clock`, 0, 2},
		{&f.known, `SELECT id, algorithm, window, slots, era FROM limits`, 0, 5},
		{&f.take, `UPDATE counters SET used = max(used + ?, 0) WHERE limit_id = ? AND window = ? AND key = ? AND slot = ?`, 5, 0},
		{&f.note, `UPDATE journal SET folded = ?`, 1, 0},
	} {
		var err error
		if *p.stmt, err = db.prepare(p.query, p.args, p.columns); err != nil {
			return err
		}
	}
	return nil
}

// foldSome folds the segments that nothing is added to any more, and if old is set and there was
// no fold lately, also the one that is written at present.
func (s *Store) foldSome(a *alone, old bool) {
	for more := a != nil; more; {
		s.mu.Lock()
		if old && time.Since(s.folding.foldedAt) >= foldEvery {
			s.folding.foldedAt = time.Now()
			a.journal.Seal()
		}
		// What fails now is tried again; charges are in the journal for as long as it has room.
		var folded bool
		err := s.unhurriedly(a, func() (err error) {
			folded, err = s.foldNextLocked(a)
			return err
		})
		more = folded && s.place.failed(wrap("fold", err)) == nil
		s.mu.Unlock()
	}
}

// makeRoom folds a segment if the journal has little room left. So claims can't come faster than
// the database takes them for long.
func (s *Store) makeRoom(a *alone) error {
	if !a.crowded.Load() {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	_, err := s.foldNextLocked(a)
	return s.place.failed(err)
}

// foldNextLocked folds the first segment that nothing is added to any more, and reports whether
// there was one.
func (s *Store) foldNextLocked(a *alone) (bool, error) {
	if s.closed || s.alone.Load() != a {
		return false, nil
	}
	segments := a.journal.Segments(a.folded.Load())
	a.crowded.Store(len(segments) > a.journal.Places()-max(a.journal.Places()/crowdedShare, 1))
	if len(segments) == 0 || !segments[0].Sealed() {
		return false, a.journal.Err()
	}
	return true, s.foldLocked(segments[0])
}

// journalStateLocked is journalState of the store, outside of any transaction.
func (s *Store) journalStateLocked() (id int64, folded uint32, err error) {
	if err := s.tx.rollbackLocked(); err != nil {
		return 0, 0, err
	}
	return journalState(s.writer)
}

// foldAllLocked folds all that was noted before, so that a transaction finds it in the tables.
func (s *Store) foldAllLocked() error {
	if !s.unfolded {
		return nil
	}
	alone := s.alone.Load() != nil
	id, folded, err := s.journalStateLocked()
	if err != nil {
		return err
	}
	if alone {
		s.journal.Seal()
	} else {
		s.journal.Disown()
	}
	if id == s.journal.ID() {
		for _, segment := range s.journal.Segments(folded) {
			if !segment.Sealed() {
				continue // records are still added to it
			}
			if err := s.foldLocked(segment); err != nil {
				return err
			}
		}
	}
	if err := s.journal.Err(); err != nil {
		return err // unreadable records are lost: the caller has to open the database again
	}
	s.unfolded = alone
	return nil
}

// foldLocked folds a segment that is sealed, unless another process has.
func (s *Store) foldLocked(segment *journal.Segment) error {
	if err := s.journal.Settle(segment); err != nil {
		return err
	}
	s.folding.damaged = 0
	err := s.tx.doLocked(nil, func() (int64, error) {
		id, folded, err := journalState(s.writer)
		if err != nil || id != s.journal.ID() || segment.Generation() <= folded {
			return 0, err
		}
		return s.folding.run(segment)
	})
	if err != nil {
		return err
	}
	if s.folding.damaged > 0 {
		s.notify(Notice{Damaged: s.folding.damaged, Path: s.options.Path})
	}
	return s.dropLocked(segment)
}

// dropLocked overwrites a segment that is folded, so that keys which are deleted from the database
// are in no file, and lets it be used again.
func (s *Store) dropLocked(segment *journal.Segment) error {
	a := s.alone.Load()
	if a == nil {
		return s.journal.Erase(segment)
	}
	s.reading.Lock() // readers of the segment still need it
	a.folded.Store(segment.Generation())
	s.reading.Unlock()
	err := s.journal.Erase(segment)
	s.journal.Free(segment.Generation())
	return err
}

// run writes the records of a segment to the tables, and returns how many rows that took.
func (f *folding) run(segment *journal.Segment) (written int64, err error) {
	now, err := f.readLimits()
	if err != nil {
		return 0, err
	}
	if err := f.gather(segment, now); err != nil {
		return 0, err
	}
	if err := f.writeSlots(); err != nil {
		return 0, fmt.Errorf("fold counters: %w", err)
	}
	if err := f.writeBuckets(); err != nil {
		return 0, fmt.Errorf("fold buckets: %w", err)
	}
	f.note.bind(0, int64(segment.Generation()))
	_, err = f.note.exec()
	return int64(len(f.slots)+len(f.states)) + 1, err
}

// readLimits reads which limits there are in this era, and the time.
func (f *folding) readLimits() (now int64, err error) {
	var era int64
	if err := f.times.each(func(row []driver.Value) error { return integers(row, &now, &era) }); err != nil {
		return 0, err
	}
	clear(f.limits)
	err = f.known.each(func(row []driver.Value) error {
		var id, algorithm, window, slots, of int64
		if err := integers(row, &id, &algorithm, &window, &slots, &of); err != nil {
			return err
		}
		if l := stored(algorithm, window, slots); l != nil && of == era {
			f.limits[storage.LimitID(id)] = *l
		}
		return nil
	})
	return now, err
}

// gather collects what the records of a segment note, in the order of the tables, but for what
// does not count any more. Nobody has erased the segment: this transaction found that it is not
// folded yet.
func (f *folding) gather(segment *journal.Segment, now int64) error {
	f.slots, f.states, f.damaged = f.slots[:0], f.states[:0], 0
	var r journal.Record
	for place := range segment.Len() {
		if place%easyRows == 0 {
			f.worked(1)
		}
		ok, err := segment.ReadPending(place, &r)
		if err != nil {
			return err
		}
		if !ok && segment.IsDamaged(place) {
			f.damaged++
		}
		l, known := f.limits[storage.LimitID(r.Limit)]
		if !ok || !known || r.Bucket == l.CountsSlots() {
			continue
		}
		if r.Bucket {
			f.states = append(f.states, foldedBucket{storage.LimitID(r.Limit), r.Key, r.N, place})
			continue
		}
		oldest := l.Oldest(now - l.ZoneSlack())
		for i := 0; i < len(r.N); i += 2 {
			if slot, units := r.N[i], r.N[i+1]; units != 0 && slot >= oldest {
				f.slots = append(f.slots, foldedSlot{storage.LimitID(r.Limit), l.WindowOf(slot), slot, r.Key, units})
			}
		}
	}
	f.slots = merged(f.slots, f.worked)
	sortByKey(f.states, func(b *foldedBucket) *storage.Key { return &b.key }, func(a, b foldedBucket) int {
		if c := cmp.Compare(int64(a.limit), int64(b.limit)); c != 0 {
			return c
		}
		if c := bytes.Compare(a.key[:], b.key[:]); c != 0 {
			return c
		}
		return cmp.Compare(b.place, a.place)
	}, f.worked)
	f.states = slices.CompactFunc(f.states, func(a, b foldedBucket) bool { return a.limit == b.limit && a.key == b.key })
	return nil
}

// sortByKey sorts rows by the first bytes of their keys, and those with the same ones by compare.
// That is nearly the order of the tables, whose keys are hashes: for each first byte, rows of a limit
// and window are neighbors. Before each part it calls worked with how much it does.
func sortByKey[R any](rows []R, key func(*R) *storage.Key, compare func(a, b R) int, worked func(int)) {
	var next, end [256]int
	for i := range rows {
		end[key(&rows[i])[0]]++
	}
	sum := 0
	for first := range end {
		next[first] = sum
		sum += end[first]
		end[first] = sum
	}
	for first, from := range next {
		for next[first] < end[first] { // bring each row to its part
			at := next[first]
			if of := key(&rows[at])[0]; int(of) != first {
				rows[at], rows[next[of]] = rows[next[of]], rows[at]
				next[of]++
				continue
			}
			next[first]++
		}
		worked((end[first]-from)/easyRows + 1)
		slices.SortFunc(rows[from:end[first]], compare)
	}
}

// merged sorts units by rows, and adds up the units of each row.
func merged(slots []foldedSlot, worked func(int)) []foldedSlot {
	sortByKey(slots, func(s *foldedSlot) *storage.Key { return &s.key }, func(a, b foldedSlot) int {
		if c := cmp.Compare(int64(a.limit), int64(b.limit)); c != 0 {
			return c
		}
		if c := cmp.Compare(a.window, b.window); c != 0 {
			return c
		}
		if c := bytes.Compare(a.key[:], b.key[:]); c != 0 {
			return c
		}
		return cmp.Compare(a.slot, b.slot)
	}, worked)
	sums := slots[:0]
	for _, slot := range slots {
		if last := len(sums) - 1; last >= 0 && sums[last].sameRow(&slot) {
			sums[last].units = min(sums[last].units+slot.units, mostUsed)
			continue
		}
		sums = append(sums, slot)
	}
	return sums
}

func (a *foldedSlot) sameRow(b *foldedSlot) bool {
	return a.limit == b.limit && a.window == b.window && a.key == b.key && a.slot == b.slot
}

func (f *folding) writeSlots() error {
	adds := make([]*foldedSlot, 0, len(f.slots))
	for i := range f.slots {
		w := &f.slots[i]
		switch {
		case w.units > 0:
			adds = append(adds, w)
		case w.units < 0:
			f.worked(1)
			f.take.bind(0, w.units, int64(w.limit), w.window, w.key[:], w.slot)
			if _, err := f.take.exec(); err != nil {
				return err
			}
		}
	}
	return inSizes(&f.upserts, len(adds), func(s *stmt, row, n int) {
		f.worked(1)
		w := adds[n]
		s.bind(5*row, int64(w.limit), w.window, w.key[:], w.slot, w.units)
	})
}

func (f *folding) writeBuckets() error {
	return inSizes(&f.buckets, len(f.states), func(s *stmt, row, n int) {
		f.worked(1)
		b := &f.states[n]
		s.bind(6*row, int64(b.limit), b.key[:], b.n[0], b.n[1], b.n[2], b.n[3])
	})
}
