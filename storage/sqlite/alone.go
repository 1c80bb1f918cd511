package sqlite

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/caddy-tally/caddy-tally/storage"
	"github.com/caddy-tally/caddy-tally/storage/sqlite/internal/journal"
)

// alone is a period in which this Store alone is charged, because it owns the journal. Charges are added to
// the journal, and folded into the database some time later (fold.go).
type alone struct {
	period  uint32
	journal *journal.Journal
	folded  atomic.Uint32                             // at least the records up to this generation are folded
	crowded atomic.Bool                               // the journal has little room left
	resets  atomic.Int64                              // the number of the newest reset, or unknownResets
	limits  atomic.Pointer[map[storage.LimitID]int64] // when limits were last written to the database
	filters filters
	pending pending // guarded by Store.reading
}

const (
	// lookEvery is how often the store checks whether it is alone, and whether its files are in place.
	lookEvery = 500 * time.Millisecond
	// foldEvery is about the age at which records of the journal are folded.
	foldEvery = 2 * time.Second
	// strangerWait is how long after its opening no period begins with a journal that has replaced
	// another one.
	strangerWait = 4 * lookEvery
	// crowdedShare is the divisor of the journal that gives the part kept free: claims wait once more than
	// 3/4 is unfolded.
	crowdedShare = 4
)

// journalSize is how many segments a journal has, and how many records each of them.
type journalSize struct{ segments, records int }

// journalSizes are the sizes of new journals, the first that fits on the disk: 32 MiB or less.
var journalSizes = []journalSize{{64, 8192}, {8, 1024}, {2, 256}}

// HasJournal reports whether this platform supports a journal. Whether there is one also depends on the
// file system of the database.
const HasJournal = journal.Supported

// unknownResets is no number of a reset.
const unknownResets = -1

// openJournal opens the journal beside the database, if there can be one. From then on, no other process
// is alone.
func (s *Store) openJournal(ctx context.Context) error {
	o := journal.Options{Path: s.options.Path + chargesSuffix, Origin: s.origin}
	var j *journal.Journal
	var err error
	for _, size := range s.options.journalSizes {
		o.Segments, o.Records = size.segments, size.records
		if j, err = journal.Open(ctx, o); !lacksRoom(err) {
			break
		}
	}
	if errors.Is(err, journal.ErrUnsupported) {
		if s.options.Notice != nil && !s.options.NoJournal && s.options.Synchronous != Full {
			s.options.Notice(Notice{NoJournal: true, Path: s.options.Path, Cause: err})
		}
		return nil
	}
	if err != nil {
		return err
	}
	s.journal, s.openedAt = j, time.Now()
	s.unfolded = true
	if s.journals() && j.Places() < s.options.journalSizes[0].segments {
		s.notify(Notice{SmallJournal: true, Path: s.options.Path})
	}
	return nil
}

// lacksRoom reports whether a file was too large, for the disk, the user's quota or a limit of the process
// (LimitFSIZE of systemd), so that a smaller one may fit.
func lacksRoom(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || errors.Is(err, syscall.EFBIG)
}

func (s *Store) notify(n Notice) {
	if s.options.Notice != nil {
		s.options.Notice(n)
	}
}

// reopenJournalLocked opens the journal again if its file was removed, replaced, cut or grown, and returns
// that as the cause. All records of the old journal must be folded.
func (s *Store) reopenJournalLocked() (cause, err error) {
	cause = cmp.Or(s.journal.Err(), s.journal.InPlace())
	if s.closed || s.unfolded || cause == nil {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), lookEvery)
	defer cancel()
	old := s.journal
	if err := s.openJournal(ctx); err != nil {
		return nil, err
	}
	return cause, old.Close()
}

// beginPeriodLocked begins a period, if no other process uses the database. Processes of a version
// without a journal are only in the table of processes.
func (s *Store) beginPeriodLocked() error {
	if !s.journals() || s.closed || s.alone.Load() != nil {
		return nil
	}
	if err := errors.Join(s.place.check(), s.journal.InPlace()); err != nil {
		return err
	}
	id, done, err := s.journalStateLocked()
	if err != nil {
		return err
	}
	others, err := s.writer.int(`SELECT count(*) FROM processes, clock WHERE until > now AND journal = 0`)
	if err != nil || others > 0 {
		return err
	}
	if id != s.journal.ID() {
		done = progress{folded: s.journal.Newest()} // its records belong to another database
		if id != 0 && time.Since(s.openedAt) < strangerWait {
			return nil // processes with the old journal notice the new one in this time
		}
	}
	if !s.journal.Own(done.folded, done.upto) {
		return s.journal.Err()
	}
	if err := s.adoptJournalLocked(id, done); err != nil {
		s.journal.Disown()
		return err
	}
	a := &alone{period: storage.NextPeriod(), journal: s.journal}
	a.folded.Store(done.folded)
	a.resets.Store(unknownResets)
	a.limits.Store(&map[storage.LimitID]int64{})
	s.unfolded, s.hurried.segments = true, nil
	s.alone.Store(a)
	s.wakeKeeper() // for the filter
	return nil
}

// journals reports whether charges may go to the journal. Charges that must survive a loss of power are
// committed by transactions.
func (s *Store) journals() bool {
	return s.journal != nil && !s.options.NoJournal && s.options.Synchronous != Full
}

// adoptJournalLocked makes the journal that of the database, unless it is already.
func (s *Store) adoptJournalLocked(id int64, done progress) error {
	now := s.journal.ID()
	if now == id {
		return nil
	}
	return s.tx.doLocked(func() (int64, error) {
		return 1, s.writer.exec(`UPDATE journal SET id = ?, folded = ?, upto = 0, below = 0`, now, int64(done.folded))
	})
}

// endPeriod ends a period. The journal's goroutine, or the next transaction, folds its records.
func (s *Store) endPeriod(a *alone) {
	if s.alone.CompareAndSwap(a, nil) {
		s.wakeKeeper()
	}
}

// checkPeriod ends a period if this Store no longer owns the journal.
func (s *Store) checkPeriod(a *alone) {
	if !a.journal.Owned() {
		s.endPeriod(a)
	}
}

// lasts reports whether a period has not ended. It isn't enough that this Store owns the journal: it may
// own it again in a later period, after charges by other processes.
func (s *Store) lasts(a *alone) bool {
	return a.journal.Owned() && s.alone.Load() == a
}

// knowsLimit reports whether a limit was written to the database lately.
func (a *alone) knowsLimit(id storage.LimitID, now int64) bool {
	seen, ok := (*a.limits.Load())[id]
	return ok && now < seen+seenEvery
}

// learnLimits notes that the limits of claims were written to the database.
func (a *alone) learnLimits(claims []storage.Claim, era int64) {
	known := maps.Clone(*a.limits.Load())
	for i := range claims {
		if id := limitOf(claims[i].ID, era); !a.knowsLimit(id, claims[i].Now) {
			known[id] = claims[i].Now
		}
	}
	a.limits.Store(&known)
}

// keep is the journal's goroutine. It begins and ends periods, and folds records. It ends when stop is
// closed.
func (s *Store) keep() {
	defer close(s.kept)
	if !s.journals() {
		return
	}
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		var full <-chan struct{}
		if a := s.alone.Load(); a != nil {
			full = a.journal.Full()
		}
		select {
		case <-s.stop:
			return
		case <-tick.C:
			s.lookAfterJournal()
		case <-s.woken:
			s.lookAfterJournal()
		case <-full:
			s.foldSome(s.alone.Load(), false)
		}
	}
}

func (s *Store) wakeKeeper() {
	select {
	case s.woken <- struct{}{}:
	default:
	}
}

// lookAfterJournal begins a period if it can. It ends the period if other processes use the database or if
// files are not in place. Otherwise it folds old records, and maintains the filter.
func (s *Store) lookAfterJournal() {
	a := s.alone.Load()
	if a == nil {
		if !s.mu.TryLock() {
			return // another call uses the store; the next tick retries
		}
		// An error here comes back in a call that can return it.
		_ = s.beginPeriodLocked()
		var gone error
		if s.alone.Load() == nil && !s.closed && s.place.check() == nil {
			_ = s.place.failed(wrap("fold", s.foldAllLocked()))
			gone, _ = s.reopenJournalLocked()
		}
		s.mu.Unlock()
		if gone != nil {
			s.notify(Notice{NewJournal: true, Path: s.options.Path, Cause: gone})
		}
		if a = s.alone.Load(); a == nil {
			return
		}
	}
	if !a.journal.Owned() || s.place.check() != nil || a.journal.InPlace() != nil {
		s.endPeriod(a)
		return
	}
	s.foldSome(a, true)
	s.keepFilter(a)
}

// leaveJournalLocked ends the period for good, and folds the journal. Records that can't be folded stay
// there until the database is opened again.
func (s *Store) leaveJournalLocked() error {
	if s.journal == nil {
		return nil
	}
	s.reading.Lock() // waits for claims under way, which still end in the period
	defer s.reading.Unlock()
	s.alone.Store(nil)
	s.journal.Disown()
	if s.place.check() != nil {
		return nil
	}
	err := s.foldAllLocked()
	if s.journal.Err() != nil {
		s.astray.Store(true) // the last records may be lost
	}
	return err
}

// keepFilter makes a filter if there is none, or if it has become too small. It reads the keys of the
// database in small steps, and waits for none of the store's locks.
func (s *Store) keepFilter(a *alone) {
	capacity := a.filters.due()
	if capacity == 0 {
		return
	}
	next := newFilter(capacity)
	a.filters.next.Store(next)
	err := s.fillFilter(a, next)
	if err == nil && s.alone.Load() == a {
		a.filters.use(next)
	}
	a.filters.next.Store(nil)
}
