package sqlite

import (
	"context"
	"errors"

	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/limiter/reputation"
	"github.com/caddy-tally/caddy-tally/storage"
	"github.com/caddy-tally/caddy-tally/storage/sqlite/internal/journal"
)

// reader is the connection with which claims of a period read, while another connection writes.
type reader struct {
	periods             *periods // with the lock of the reader
	place               *place
	conn                *conn
	begin, end, journal *stmt
	claims              claimer // only its reads are used
	clients             standings
	clock               clock
	writes              []slotWrite
	noted               []journal.Record
}

// readerCache is the size of the reader's cache, in KiB.
const readerCache = 4 << 10

func (r *reader) open(ctx context.Context, o *Options) (err error) {
	if err = retryBusy(ctx, func() error { r.conn, err = o.dial(readerCache); return err }); err != nil {
		return err
	}
	own := r.conn.prepareAll([]prepared{
		{&r.begin, `BEGIN`, 0, 0},
		{&r.end, `ROLLBACK`, 0, 0},
		{&r.journal, journalState, 0, 4},
	})
	return errors.Join(own, r.clock.prepare(r.conn), r.claims.counters.prepareReads(r.conn),
		r.claims.buckets.prepareReads(r.conn), r.clients.prepareReads(r.conn))
}

// errTransaction says that a call needs a transaction that writes.
var errTransaction = errors.New("the claims need a transaction")

// claimAlone answers claims in a period from the database and the journal, and adds the charges to the
// journal. It waits for no transaction.
func (s *Store) claimAlone(a *alone, term *storage.Term, claims []storage.Claim, grants []limiter.Grant) error {
	if hasFormer(claims) {
		return errTransaction // rows must be moved
	}
	if err := s.folds.makeRoom(a); err != nil {
		return err
	}
	if err := s.claims.tellLimits(&s.tx, a, term, claims); err != nil {
		return err
	}
	return s.reader.claimAlone(a, term, claims, grants)
}

// claimAlone is that of the Store, once the journal has room and the database has the limits.
func (r *reader) claimAlone(a *alone, term *storage.Term, claims []storage.Claim, grants []limiter.Grant) error {
	r.periods.reading.Lock()
	defer r.periods.reading.Unlock()
	if err := r.mayReadAlone(a); err != nil {
		return err
	}
	if err := a.pending.follow(a.journal.Segments(a.folded.Load())); err != nil {
		return err
	}
	if err := r.decide(&a.pending, term, claims, grants); err != nil {
		return err
	}
	if r.noteCells(a, claims) {
		return nil
	}
	return errNotNoted
}

func hasFormer(claims []storage.Claim) bool {
	for i := range claims {
		if claims[i].Former != (storage.Key{}) {
			return true
		}
	}
	return false
}

// tellLimits writes the limits of claims to the database, unless they were written lately. The database must
// have the limits of all records in the journal.
func (cl *claimer) tellLimits(tx *transactions, a *alone, term *storage.Term, claims []storage.Claim) error {
	era, known := term.Era, true
	for i := range claims {
		known = known && a.knowsLimit(limitOf(claims[i].ID, era), claims[i].Now)
	}
	if known {
		return nil
	}
	tx.mu.Lock()
	defer tx.mu.Unlock()
	if tx.closed {
		return storage.ErrClosed
	}
	err := tx.doLocked(func() (int64, error) {
		cl.era = era
		cl.gather(claims)
		return 1, cl.limits.see(claims, cl.cells, era)
	})
	if err != nil {
		cl.limits.forget()
		return tx.place.failed(err)
	}
	a.learnLimits(claims, era)
	return nil
}

// decide answers claims from one snapshot of the database and the pending records. It changes only the
// cells.
func (r *reader) decide(p *pending, term *storage.Term, claims []storage.Claim, grants []limiter.Grant) error {
	return r.look(func() error { return r.decideAsOf(p, term, claims, grants) })
}

// look calls f, which reads one snapshot of the database.
func (r *reader) look(f func() error) (err error) {
	if err := r.begin.run(); err != nil {
		return err
	}
	defer func() {
		if failed := r.end.run(); failed != nil && code(failed) != codeError {
			err = errors.Join(err, failed)
		}
	}()
	return f()
}

func (r *reader) decideAsOf(p *pending, term *storage.Term, claims []storage.Claim, grants []limiter.Grant) error {
	cl := &r.claims
	if err := r.tell(term, claims); err != nil {
		return err
	}
	cl.era = term.Era
	_, done, err := parseState(r.journal)
	if err != nil {
		return err
	}
	cl.gather(claims)
	if err := cl.readStates(claims); err != nil {
		return err
	}
	if err := p.apply(claims, cl.cells, done); err != nil {
		return err
	}
	cl.answer(claims, grants)
	return nil
}

// tell sets the time of a term and of its claims. It returns errTransaction if the time must be written, or
// if other processes can't read this clock.
func (r *reader) tell(term *storage.Term, claims []storage.Claim) error {
	if err := r.clock.tell(term); err != nil {
		return err
	}
	if r.clock.must || !r.clock.reading.Shared {
		return errTransaction
	}
	if !term.Holds(term.Time) {
		return storage.ErrTerm
	}
	for i := range claims {
		claims[i].Now = term.Time.Now
	}
	return nil
}

// noteCells writes the changes of claims to the journal, and reports whether they are durable and the
// period goes on.
func (r *reader) noteCells(a *alone, claims []storage.Claim) bool {
	r.noted = r.noted[:0]
	for i := range r.claims.cells {
		c := &r.claims.cells[i]
		limit := claims[c.claims[len(c.claims)-1]].Limit
		before := len(r.noted)
		if limit.CountsSlots() {
			r.writes = c.changes(r.writes[:0], claims, i)
			r.noted = noteSlots(r.noted, c, limit, r.writes)
		} else if c.state.Bucket != c.bucket {
			r.noted = noted(r.noted, c.id, c.key, limit, &limiter.Changes{Bucket: c.state.Bucket})
		}
		c.noted = len(r.noted) > before
	}
	if !r.periods.note(a, r.noted) || !r.periods.lasts(a) {
		r.periods.checkPeriod(a)
		return false
	}
	for i := range r.claims.cells {
		if c := &r.claims.cells[i]; c.noted {
			a.filters.add(c.id, c.key)
		}
	}
	return true
}

// noteSlots adds the records of changes of a key's slots.
func noteSlots(records []journal.Record, c *cell, limit limiter.Limit, writes []slotWrite) []journal.Record {
	for len(writes) > 0 {
		var changes limiter.Changes
		n := min(len(writes), len(changes.Slots))
		for i, w := range writes[:n] {
			changes.Slots[i] = limiter.Slot{Index: w.slot, Used: w.units}
		}
		records = noted(records, c.id, c.key, limit, &changes)
		writes = writes[n:]
	}
	return records
}

// mayReadAlone returns an error if a period is over, or if the files of the database aren't in place.
func (r *reader) mayReadAlone(a *alone) error {
	if !r.periods.lasts(a) {
		r.periods.endPeriod(a)
		return errTransaction
	}
	return r.place.check()
}

// recordsAlone reads the records of clients in a period. It waits for no transaction.
func (r *reader) recordsAlone(a *alone, term *storage.Term, clients []storage.Client,
	records []reputation.Record) error {
	r.periods.reading.Lock()
	defer r.periods.reading.Unlock()
	if err := r.mayReadAlone(a); err != nil {
		return err
	}
	return r.look(func() error { return r.records(term, clients, records) })
}

// records reads the records of clients. It returns errTransaction if a record must be moved from a former
// name.
func (r *reader) records(term *storage.Term, clients []storage.Client, records []reputation.Record) error {
	if err := r.tell(term, nil); err != nil {
		return err
	}
	r.clients.shift = term.Shift
	for i, client := range clients {
		known, moved, err := r.clients.find(client, term.Time.Now)
		if err != nil {
			return err
		}
		if moved {
			return errTransaction
		}
		records[i] = known
	}
	return nil
}
