package history

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/caddy-tally/caddy-tally/storage"
)

// Options configure a [Reporter]. All but Observer are required.
type Options struct {
	// Ledger has what is to be reported.
	Ledger *Ledger
	// Store returns the store that is in use, or nil if there is none or it keeps no
	// history.
	Store func() storage.Historian
	// Now returns the time of the store, in nanoseconds since the Unix epoch.
	Now func() int64
	// Name names keys at rest. It is called on the reporter's goroutine.
	Name Namer
	// Observer is told when reports can't be written, and when they can again. Nil means
	// that nobody is.
	Observer Observer
}

// Observer is told what becomes of reports. It is called on the reporter's goroutine.
type Observer interface {
	// HistoryWaits says that the store can't be written to: once, until it can again.
	HistoryWaits(err error)
	// HistoryWritten says that all is written that waited, but for so many minutes of
	// series that were given up because there were too many.
	HistoryWritten(givenUp int)
}

const (
	// perReport is how many series are written in one transaction.
	perReport = 64
	// maxWaiting is how many minutes of series wait for the store at most, some 30 MB.
	maxWaiting = 10_000
	// laterBy is how long after a minute it is reported, so that none of it is missing.
	laterBy = 100 * time.Millisecond
)

// errNoStore says that there is no store at the moment.
var errNoStore = errors.New("there is no store")

// Reporter reports what a ledger has counted, once a minute and at the end.
type Reporter struct {
	opts   Options
	writer int64 // who it is
	number int64 // of the last report
	begun  int64 // when the ledger was last taken from

	waiting []storage.Report // that are not known to be written, in order
	minutes int              // in all of them
	givenUp int              // since the last HistoryWritten
	trouble bool             // HistoryWaits was called

	stop    chan struct{} // closed to end the goroutine
	stopped chan struct{} // closed when it has ended
}

// Start begins to report. The caller must Close the reporter.
func Start(o Options) *Reporter {
	r := newReporter(o)
	go r.loop()
	return r
}

func newReporter(o Options) *Reporter {
	return &Reporter{
		opts: o, writer: rand.Int64(), begun: o.Now(),
		stop: make(chan struct{}), stopped: make(chan struct{}),
	}
}

// loop reports after each minute. It ends when stop is closed, after it has reported what
// there is.
func (r *Reporter) loop() {
	defer close(r.stopped)
	for {
		timer := time.NewTimer(r.untilNext())
		select {
		case <-timer.C:
			r.report()
		case <-r.stop:
			timer.Stop()
			r.report()
			return
		}
	}
}

// untilNext returns how long it is until the minute is over.
func (r *Reporter) untilNext() time.Duration {
	now := r.opts.Now()
	next := (storage.Period(now, time.Minute) + 1) * int64(time.Minute)
	return time.Duration(next-now) + laterBy
}

// Close reports what is left, and waits for that, or until the context is done.
func (r *Reporter) Close(ctx context.Context) error {
	close(r.stop)
	select {
	case <-r.stopped:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// report takes what was counted, and writes all that waits.
func (r *Reporter) report() {
	now := r.opts.Now()
	r.enqueue(r.opts.Ledger.take(r.begun, r.opts.Name))
	r.begun = now
	for len(r.waiting) > 0 {
		start := time.Now()
		if err := r.write(now, r.waiting[0]); err != nil {
			r.fail(err)
			return
		}
		r.minutes -= len(r.waiting[0].Minutes)
		r.waiting = slices.Delete(r.waiting, 0, 1)
		if len(r.waiting) > 0 {
			r.rest(time.Since(start))
		}
	}
	if r.trouble && r.opts.Observer != nil {
		r.opts.Observer.HistoryWritten(r.givenUp)
	}
	r.trouble, r.givenUp = false, 0
}

// enqueue makes reports of what was counted.
func (r *Reporter) enqueue(counted []storage.Minute) {
	for part := range slices.Chunk(counted, perReport) {
		r.number++
		r.waiting = append(r.waiting, storage.Report{Writer: r.writer, Number: r.number, Minutes: part})
		r.minutes += len(part)
	}
	for r.minutes > maxWaiting {
		n := len(r.waiting[0].Minutes)
		r.minutes, r.givenUp = r.minutes-n, r.givenUp+n
		r.waiting = slices.Delete(r.waiting, 0, 1)
	}
}

// rest stays away from the store for a while, so that claims come first.
func (r *Reporter) rest(d time.Duration) {
	select {
	case <-time.After(d):
	case <-r.stop:
	}
}

func (r *Reporter) write(now int64, report storage.Report) error {
	store := r.opts.Store()
	if store == nil {
		return errNoStore
	}
	return store.Report(context.Background(), now, report)
}

// fail notes that reports have to wait.
func (r *Reporter) fail(err error) {
	if !r.trouble && r.opts.Observer != nil {
		r.opts.Observer.HistoryWaits(err)
	}
	r.trouble = true
}
