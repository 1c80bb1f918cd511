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
	// Ledger has the counts to report.
	Ledger *Ledger
	// Store returns the store in use, or nil if there is none or it keeps no history.
	Store func() storage.Historian
	// Now returns the time of the store, in nanoseconds since the Unix epoch.
	Now func() int64
	// Name names keys at rest. It is called on the reporter's goroutine.
	Name Namer
	// Observer is notified when reports can't be written, and when they can again. May be nil.
	Observer Observer
}

// Observer receives the events of reports. Its methods are called on the reporter's goroutine.
type Observer interface {
	// HistoryWaits reports that the store can't be written to: once, until it can again.
	HistoryWaits(err error)
	// HistoryWritten reports that all waiting reports are written, except for so many minutes of
	// series that were dropped because there were too many.
	HistoryWritten(givenUp int)
}

const (
	// perReport is how many series are written in one transaction.
	perReport = 64
	// maxWaiting is the most minutes of series that wait for the store, some 30 MB.
	maxWaiting = 10_000
	// laterBy is how long after a minute it is reported, so that its counts are complete.
	laterBy = 100 * time.Millisecond
)

// errNoStore is the error while there is no store.
var errNoStore = errors.New("there is no store")

// Reporter reports the counts of a ledger, once a minute and at the end.
type Reporter struct {
	opts   Options
	writer int64 // identifies the reporter
	number int64 // of the last report
	begun  int64 // time of the last take

	waiting []storage.Report // not known to be written, in order
	minutes int              // in all of them
	givenUp int              // minutes dropped since the last HistoryWritten
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

// loop reports after each minute. It ends after a last report when stop is closed.
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

// untilNext returns the time until the end of the minute.
func (r *Reporter) untilNext() time.Duration {
	now := r.opts.Now()
	next := (storage.Period(now, time.Minute) + 1) * int64(time.Minute)
	return time.Duration(next-now) + laterBy
}

// Close reports the remaining counts, and waits for that, or until the context is done.
func (r *Reporter) Close(ctx context.Context) error {
	close(r.stop)
	select {
	case <-r.stopped:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// report takes the counts, and writes all waiting reports.
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

// enqueue makes reports from counts.
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

// rest pauses the use of the store, so that claims take precedence.
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
