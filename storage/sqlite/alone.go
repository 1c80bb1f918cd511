package sqlite

import (
	"cmp"
	"context"
	"database/sql/driver"
	"errors"
	"maps"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/caddy-tally/caddy-tally/storage"
	"github.com/caddy-tally/caddy-tally/storage/sqlite/internal/journal"
	"github.com/caddy-tally/caddy-tally/storage/sqlite/internal/sleeplock"
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
	pending pending // guarded by periods.reading
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

// periods begins and ends the periods of a store, and owns its journal. It doesn't know how records are folded.
type periods struct {
	tx      *transactions
	options *Options
	state   *stmt // reads the journal's row

	// alone is the present period, or nil. It is set under the lock of transactions.
	alone atomic.Pointer[alone]

	// The lock of transactions guards these.
	journal  *journal.Journal // nil where there can be none
	openedAt time.Time        // when the journal was opened
	unfolded bool             // the journal may have records that are not folded

	// reading guards the reader and the index of pending records. While it is held, no record of an
	// indexed segment is overwritten.
	reading sleeplock.Lock

	woken chan struct{} // wakes the keeper; holds one
}

// openJournal opens the journal beside the database, if there can be one. From then on, no other process
// is alone.
func (p *periods) openJournal(ctx context.Context) error {
	o := journal.Options{Path: p.options.Path + chargesSuffix, Origin: p.tx.place.origin}
	var j *journal.Journal
	var err error
	for _, size := range p.options.journalSizes {
		o.Segments, o.Records = size.segments, size.records
		if j, err = journal.Open(ctx, o); !lacksRoom(err) {
			break
		}
	}
	if errors.Is(err, journal.ErrUnsupported) {
		if !p.options.NoJournal && p.options.Synchronous != Full {
			p.options.notify(Notice{NoJournal: true, Path: p.options.Path, Cause: err})
		}
		return nil
	}
	if err != nil {
		return err
	}
	p.journal, p.openedAt = j, time.Now()
	p.unfolded = true
	if p.journals() && j.Places() < p.options.journalSizes[0].segments {
		p.options.notify(Notice{SmallJournal: true, Path: p.options.Path})
	}
	return nil
}

// lacksRoom reports whether a file was too large, for the disk, the user's quota or a limit of the process
// (LimitFSIZE of systemd), so that a smaller one may fit.
func lacksRoom(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || errors.Is(err, syscall.EFBIG)
}

func (o *Options) notify(n Notice) {
	if o.Notice != nil {
		o.Notice(n)
	}
}

// reopenJournalLocked opens the journal again if its file was removed, replaced, cut or grown, and returns
// that as the cause. All records of the old journal must be folded.
func (p *periods) reopenJournalLocked() (cause, err error) {
	cause = cmp.Or(p.journal.Err(), p.journal.InPlace())
	if p.tx.closed || p.unfolded || cause == nil {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), lookEvery)
	defer cancel()
	old := p.journal
	if err := p.openJournal(ctx); err != nil {
		return nil, err
	}
	return cause, old.Close()
}

// checkJournalLocked gives notice if the journal is not that of the database.
func (p *periods) checkJournalLocked() error {
	if p.journal == nil {
		return nil
	}
	id, _, err := p.journalStateLocked()
	if err == nil && id != 0 && id != p.journal.ID() {
		p.options.notify(Notice{LostJournal: true, Path: p.options.Path})
	}
	return err
}

func (p *periods) prepare() (err error) {
	p.state, err = p.tx.conn.prepare(journalState, 0, 4)
	return err
}

// journalState is the query for the ID of the database's journal, and for the progress of folds.
const journalState = `SELECT id, folded, upto, below FROM journal`

// readState returns the ID of the database's journal, and the progress of folds, in a transaction.
func (p *periods) readState() (id int64, done progress, err error) { return parseState(p.state) }

// journalStateLocked is readState outside of any transaction.
func (p *periods) journalStateLocked() (id int64, done progress, err error) {
	if err := p.tx.rollbackLocked(); err != nil {
		return 0, done, err
	}
	return p.readState()
}

// parseState runs journalState.
func parseState(s *stmt) (id int64, done progress, err error) {
	err = s.each(func(row []driver.Value) error {
		var folded, upto, below int64
		err := integers(row, &id, &folded, &upto, &below)
		done = progress{uint32(folded), uint32(upto), int(min(max(below, 0), prefixes))}
		return err
	})
	return id, done, err
}

// beginPeriodLocked begins a period, if no other process uses the database. Processes of a version
// without a journal are only in the table of processes.
func (p *periods) beginPeriodLocked() error {
	if !p.journals() || p.tx.closed || p.alone.Load() != nil {
		return nil
	}
	if err := errors.Join(p.tx.place.check(), p.journal.InPlace()); err != nil {
		return err
	}
	id, done, err := p.journalStateLocked()
	if err != nil {
		return err
	}
	others, err := p.tx.conn.int(`SELECT count(*) FROM processes, clock WHERE until > now AND journal = 0`)
	if err != nil || others > 0 {
		return err
	}
	if id != p.journal.ID() {
		done = progress{folded: p.journal.Newest()} // its records belong to another database
		if id != 0 && time.Since(p.openedAt) < strangerWait {
			return nil // processes with the old journal notice the new one in this time
		}
	}
	if !p.journal.Own(done.folded, done.upto) {
		return p.journal.Err()
	}
	if err := p.adoptJournalLocked(id, done); err != nil {
		p.journal.Disown()
		return err
	}
	a := &alone{period: storage.NextPeriod(), journal: p.journal}
	a.folded.Store(done.folded)
	a.resets.Store(unknownResets)
	a.limits.Store(&map[storage.LimitID]int64{})
	p.unfolded = true
	p.alone.Store(a)
	p.wakeKeeper() // for the filter
	return nil
}

// journals reports whether charges may go to the journal. Charges that must survive a loss of power are
// committed by transactions.
func (p *periods) journals() bool {
	return p.journal != nil && !p.options.NoJournal && p.options.Synchronous != Full
}

// adoptJournalLocked makes the journal that of the database, unless it is already.
func (p *periods) adoptJournalLocked(id int64, done progress) error {
	now := p.journal.ID()
	if now == id {
		return nil
	}
	return p.tx.doLocked(func() (int64, error) {
		return 1, p.tx.conn.exec(`UPDATE journal SET id = ?, folded = ?, upto = 0, below = 0`, now, int64(done.folded))
	})
}

// endPeriod ends a period. The journal's goroutine, or the next transaction, folds its records.
func (p *periods) endPeriod(a *alone) {
	if p.alone.CompareAndSwap(a, nil) {
		p.wakeKeeper()
	}
}

// checkPeriod ends a period if this Store no longer owns the journal.
func (p *periods) checkPeriod(a *alone) {
	if !a.journal.Owned() {
		p.endPeriod(a)
	}
}

// lasts reports whether a period has not ended. It isn't enough that this Store owns the journal: it may
// own it again in a later period, after charges by other processes.
func (p *periods) lasts(a *alone) bool {
	return a.journal.Owned() && p.alone.Load() == a
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

// keeper is the journal's goroutine. It decides when a period begins and ends, when records are folded, and when the
// filter of a period is made.
type keeper struct {
	options *Options
	tx      *transactions
	periods *periods
	folds   *folds

	stop chan struct{} // closed to end the goroutine
	kept chan struct{} // closed when it has ended
}

// keep is the goroutine. It begins and ends periods, and folds records. It ends when stop is
// closed.
func (k *keeper) keep() {
	defer close(k.kept)
	if !k.periods.journals() {
		return
	}
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		var full <-chan struct{}
		if a := k.periods.alone.Load(); a != nil {
			full = a.journal.Full()
		}
		select {
		case <-k.stop:
			return
		case <-tick.C:
			k.lookAfterJournal()
		case <-k.periods.woken:
			k.lookAfterJournal()
		case <-full:
			k.folds.foldSome(k.periods.alone.Load(), false)
		}
	}
}

func (p *periods) wakeKeeper() {
	select {
	case p.woken <- struct{}{}:
	default:
	}
}

// settleJournal begins a period, or folds the records of the journal.
func (k *keeper) settleJournal() error {
	k.tx.mu.Lock()
	defer k.tx.mu.Unlock()
	if err := k.periods.checkJournalLocked(); err != nil {
		return err
	}
	if err := k.beginLocked(); err != nil || k.periods.alone.Load() != nil {
		return err
	}
	return k.folds.foldAllLocked()
}

// beginLocked begins a period, if no other process uses the database.
func (k *keeper) beginLocked() error {
	err := k.periods.beginPeriodLocked()
	if k.periods.alone.Load() != nil {
		k.folds.hurried.segments = nil
	}
	return err
}

// lookAfterJournal begins a period if it can. It ends the period if other processes use the database or if
// files are not in place. Otherwise it folds old records, and maintains the filter.
func (k *keeper) lookAfterJournal() {
	a := k.periods.alone.Load()
	if a == nil {
		if !k.tx.mu.TryLock() {
			return // another call uses the store; the next tick retries
		}
		// An error here comes back in a call that can return it.
		_ = k.beginLocked()
		var gone error
		if k.periods.alone.Load() == nil && !k.tx.closed && k.tx.place.check() == nil {
			_ = k.tx.place.failed(wrap("fold", k.folds.foldAllLocked()))
			gone, _ = k.periods.reopenJournalLocked()
		}
		k.tx.mu.Unlock()
		if gone != nil {
			k.options.notify(Notice{NewJournal: true, Path: k.options.Path, Cause: gone})
		}
		if a = k.periods.alone.Load(); a == nil {
			return
		}
	}
	if !a.journal.Owned() || k.tx.place.check() != nil || a.journal.InPlace() != nil {
		k.periods.endPeriod(a)
		return
	}
	k.folds.foldSome(a, true)
	k.keepFilter(a)
}

// leaveJournalLocked ends the period for good, and folds the journal. Records that can't be folded stay
// there until the database is opened again. It reports whether the last records may be lost.
func (k *keeper) leaveJournalLocked() (lost bool, err error) {
	if k.periods.journal == nil {
		return false, nil
	}
	k.periods.reading.Lock() // waits for claims under way, which still end in the period
	defer k.periods.reading.Unlock()
	k.periods.alone.Store(nil)
	k.periods.journal.Disown()
	if k.tx.place.check() != nil {
		return false, nil
	}
	err = k.folds.foldAllLocked()
	return k.periods.journal.Err() != nil, err
}

// keepFilter makes a filter if there is none, or if it has become too small. It reads the keys of the
// database in small steps, and waits for none of the store's locks.
func (k *keeper) keepFilter(a *alone) {
	capacity := a.filters.due()
	if capacity == 0 {
		return
	}
	next := newFilter(capacity)
	a.filters.next.Store(next)
	err := k.fillFilter(a, next)
	if err == nil && k.periods.alone.Load() == a {
		a.filters.use(next)
	}
	a.filters.next.Store(nil)
}
