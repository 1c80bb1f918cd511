package engine // store

import (
	"errors"
	"sync/atomic"

	"github.com/caddy-tally/caddy-tally/internal/engine/clock"
	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/limiter/reputation"
	"github.com/caddy-tally/caddy-tally/storage"
)

// writer makes the calls that change the store: batches and offenses, in as many calls as
// necessary. Its handling of claims is in claim.go. Only the committer's goroutine uses it.
//
// Invariants: one call is under way at a time. The cells of a part hold the granted units, and owe
// the units that were not charged, before the next part is sent.
type writer struct {
	opts     *Options
	clock    *clock.Clock
	conn     *connection
	table    *cells
	offenses *offenses
	leases   *leases

	answers atomic.Int64 // transactions answered by the store
	claimed atomic.Int64 // claims answered by the store

	current *batch // the batch under way, or nil
	claims  []storage.Claim
	grants  []limiter.Grant

	known       []*entry // of the last batch, that claimed at once
	knownClaims []storage.KnownClaim
}

// put sends a batch to the store in as many calls as necessary, and delivers the grants. After a
// failed call it makes no further ones.
func (w *writer) put(b *batch) error {
	most := w.conn.maxBatch()
	rest := w.claimAtOnce(b)
	for !rest.isEmpty() {
		p := rest.first(most)
		if err := w.claim(&p); err != nil {
			w.leases.undo(p.entries, err)
			w.leases.undo(rest.entries, errNotSent)
			return err
		}
		for _, entry := range p.entries {
			w.leases.deliver(entry, b.now)
		}
	}
	return nil
}

// flushSize is how many leases are given back in one transaction on close, and how many debts are
// settled in one after an outage.
const flushSize = 512

// flush calls add with every key, locked, and commits the added entries.
func (w *writer) flush(add func(*batch, cell)) error {
	b := &batch{done: make(chan struct{})}
	var err error
	w.table.each(func(c cell) {
		if err != nil {
			return
		}
		c = c.lockPresent()
		add(b, c)
		c.Unlock()
		if len(b.entries) >= flushSize {
			err = w.flushBatch(b)
		}
	})
	if err != nil {
		return err
	}
	return w.flushBatch(b)
}

func (w *writer) flushBatch(b *batch) error {
	if len(b.entries) == 0 {
		return nil
	}
	if b.err = w.put(b); b.err != nil {
		return b.err
	}
	b.entries = b.entries[:0]
	return nil
}

// returnLocked adds the debts and the lease of a key to a batch.
func (b *batch) returnLocked(c cell) {
	b.chargeLocked(c)
	if c.leaseLocked().Holds() {
		b.entries = append(b.entries, &entry{cell: c, limit: c.limit(), batch: b, give: c.takeLeaseLocked()})
	}
}

// beWritable makes sure that the store is writable. It makes room first if that takes no round
// trips.
func (w *writer) beWritable() error {
	if w.conn.onNetwork.Load() && w.proveWritable() == nil {
		return nil
	}
	w.makeRoom() // the store may be full
	return w.proveWritable()
}

// proofID is the ID of the limit that proveWritable charges. No other limit has it.
const proofID storage.LimitID = 0

// proveWritable charges a unit to a key that no limit has, because a store that opens and reads
// well may still be read-only.
func (w *writer) proveWritable() error {
	limit, err := limiter.New(limiter.Params{Algorithm: limiter.TokenBucket, Amount: 1, Window: limiter.MinWindow})
	if err != nil {
		return err
	}
	_, err = w.conn.inTerms(func(store storage.Store, term *storage.Term) error {
		claim := storage.Claim{ID: proofID, Limit: limit,
			Claim: limiter.Claim{Now: term.Time.Now, Charge: limiter.Charge{Units: 1}}}
		ctx, cancel := w.conn.call()
		defer cancel()
		return store.Claim(ctx, term, []storage.Claim{claim}, make([]limiter.Grant, 1))
	})
	return err
}

// roomSteps is how many steps of a sweep are taken before a store is used again after a fault.
const roomSteps = 512

// makeRoom sweeps a part of the store. A full store stays unusable until it is swept.
func (w *writer) makeRoom() {
	ctx, cancel := w.conn.call()
	defer cancel()
	for range roomSteps {
		swept, err := w.conn.sweepStep(ctx)
		if err != nil || !swept.More {
			return // if it matters, the next call fails as well
		}
	}
}

// punish records all waiting offenses in the store.
func (w *writer) punish() error {
	for {
		if more, err := w.punishSome(); err != nil || !more {
			return err
		}
	}
}

// punishSome records the first waiting offenses in the store, in one transaction, and reports
// whether there may be more.
func (w *writer) punishSome() (more bool, err error) {
	most := min(offenseBatch, w.conn.maxBatch())
	waiting := w.offenses.first(most)
	if len(waiting) == 0 {
		return false, nil
	}
	var records []reputation.Record
	_, err = w.conn.inTerms(func(store storage.Store, term *storage.Term) error {
		waiting = w.offenses.first(most) // they may have been moved with the time, or forgotten
		records = make([]reputation.Record, len(waiting))
		offenses := make([]storage.Offense, len(waiting))
		for i, o := range waiting {
			client, err := w.clientOf(o.cell, term, term.Time.Now)
			if err != nil {
				return err
			}
			offenses[i] = storage.Offense{Client: client, Offense: o.Offense}
		}
		ctx, cancel := w.conn.call()
		defer cancel()
		return store.Punish(ctx, term, offenses, records)
	})
	if err != nil && !errors.Is(err, storage.ErrUnknownOutcome) {
		return false, err
	}
	w.answers.Add(1)
	w.offenses.remove(len(waiting))
	for i, o := range waiting {
		if err == nil {
			o.cell.client().learn(records[i], 1)
			if records[i].At == o.At && records[i].Banned(o.At) { // offenses of banned clients change nothing
				w.opts.Observer.Banned(o.cell.text(), o.Reason, records[i].Until)
			}
		} else {
			o.cell.client().forget(1)
		}
		o.end()
	}
	return len(waiting) == most, err
}
