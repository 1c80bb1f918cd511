package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/caddy-tally/caddy-tally/storage"
)

// batch describes a transaction: it locks and reads rows, decides, and writes the changes, in two round trips
// (decision 97).
type batch struct {
	locks []lock        // of tables, always in the same order
	alone bool          // it runs at the same time as no other batch with alone
	reads []*script     // statements that are run after the locks are held
	peek  bool          // it locks and writes nothing: the transaction ends with its first round trip
	clock storage.Clock // the caller's; see noClock

	decide func(tx *transaction) error
}

// lock names the rows of a table to lock, read and perhaps write.
type lock struct {
	table table
	names []string // in ascending order, without repeats, at least one
	peek  bool     // they are only read
	open  bool     // missing rows are not locked: if another batch inserts one meanwhile, this one fails
}

// transaction is a batch under way.
type transaction struct {
	*batch
	at   storage.Time // zero without a term
	meta meta
	rows map[table]map[string]*row
	read []result // the answers to the batch's reads
	more *script  // statements to run with the writes

	asked storage.Reading // the clocks, before the server was asked
	began time.Time       // when the server was asked
	took  time.Duration   // until the answer came
}

// row is the state under a name. A row without a state is not stored.
type row struct {
	state   []byte
	expires int64
	missing bool // it is neither stored nor locked

	was        []byte
	wasExpires int64
}

func (r *row) changed() bool {
	return !bytes.Equal(r.state, r.was) || len(r.state) > 0 && r.expires != r.wasExpires
}

// batches runs the batches of a machine, one at a time. They are claims, records of clients, and what must be numbered
// as these are. Their connection is not that of chores.
type batches struct {
	line
	machine *machine
	times   *times
}

// errSwept says that a row was swept before it could be locked.
var errSwept = errors.New("a row was swept meanwhile")

// inTerm runs a batch within a term.
func (bs *batches) inTerm(ctx context.Context, what string, term *storage.Term, b *batch) error {
	timed := *b
	timed.clock = term.Clock
	timed.decide = func(tx *transaction) error {
		if err := bs.times.take(tx, term); err != nil {
			return err
		}
		return b.decide(tx)
	}
	return bs.transact(ctx, what, &timed)
}

func (bs *batches) transact(ctx context.Context, what string, b *batch) error {
	ctx, cancel := bs.place.deadline(ctx)
	defer cancel()
	bs.mu.Lock()
	defer bs.mu.Unlock()
	return bs.place.wrap(what, again(ctx, func() error { return bs.tryLocked(ctx, b) }))
}

// resolveShare is the divisor of a call's time that gives the part reserved to find out whether a batch
// took effect.
const resolveShare = 4

// tryLocked runs a batch once. If it fails, it had no effect, unless its error says otherwise.
func (bs *batches) tryLocked(ctx context.Context, b *batch) error {
	conn, err := bs.connectLocked(ctx)
	if err != nil {
		return err
	}
	defer bs.checkLocked(conn)
	trips, cancel := leaving(ctx, resolveShare)
	defer cancel()
	tx, err := bs.begin(trips, conn, b)
	if err == nil {
		err = b.decide(tx)
	}
	if err == nil && tx.writes() {
		return bs.commitLocked(ctx, trips, conn, tx)
	}
	if !b.peek || err != nil {
		bs.place.rollback(trips, conn)
	}
	return bs.times.correct(trips, conn, err)
}

// leaving returns a context that ends earlier than ctx, and leaves a part of its time.
func leaving(ctx context.Context, part int64) (context.Context, context.CancelFunc) {
	deadline, ok := ctx.Deadline()
	if !ok {
		return context.WithCancel(ctx)
	}
	return context.WithDeadline(ctx, deadline.Add(-time.Until(deadline)/time.Duration(part)))
}

// begin begins a transaction, locks and reads its rows, and reads the server's clock, in one round trip. It reads
// the number of the newest reset after it has locked the rows, so that it sees all earlier resets.
func (bs *batches) begin(ctx context.Context, c conn, b *batch) (*transaction, error) {
	tx := &transaction{batch: b, rows: make(map[table]map[string]*row), more: bs.place.script()}
	sql := bs.beginning(b)
	tx.ask()
	results, err := bs.place.run(ctx, c, sql)
	tx.answered()
	if err != nil {
		return tx, err
	}
	if err := hasResults(results, len(b.locks)+2+len(b.reads)); err != nil {
		return tx, err
	}
	return tx, bs.enter(tx, results)
}

// beginning returns the first round trip of a batch, which reads the machine's row, the rows of each
// lock, and meta.
func (bs *batches) beginning(b *batch) *script {
	sql := bs.place.begin()
	sql.add("SELECT batches FROM ", table("machines"), " WHERE id = ", bs.machine.id)
	if !b.peek {
		sql.add(" FOR UPDATE")
	}
	sql.end()
	for _, l := range b.locks {
		if l.peek || b.peek {
			sql.read(l).end()
		} else {
			sql.lock(l)
		}
	}
	sql.selectMeta(b.alone)
	if b.peek {
		return sql.add("COMMIT")
	}
	for _, read := range b.reads {
		sql.add(raw(read.sql)).end()
	}
	return sql
}

// hasResults returns an error unless n statements were answered.
func hasResults(results []result, n int) error {
	if len(results) != n {
		return fmt.Errorf("the server answered %d statements, expected %d", len(results), n)
	}
	return nil
}

// lock locks and reads rows. It creates missing rows unless the lock is open.
func (s *script) lock(l lock) {
	if !l.open {
		s.insert(l.table, l.names, func(string) *row { return new(row) })
		s.add(" ", orKeep).end()
	}
	s.read(l).add(" ORDER BY name FOR UPDATE").end()
}

func (s *script) read(l lock) *script {
	return s.add("SELECT name, state, expires FROM ", l.table, " WHERE name IN ").list(l.names)
}

// enter reads the server's answer. It returns an error if the tables were replaced.
func (bs *batches) enter(tx *transaction, results []result) error {
	if tx.peek && bs.machine.pending {
		// Only a batch that locks the row can find out the outcome.
	} else if err := bs.machine.isCurrentLocked(results[0]); err != nil {
		return err
	}
	for i, l := range tx.locks {
		if err := tx.take(l, results[1+i]); err != nil {
			return err
		}
	}
	if err := tx.meta.read(results[1+len(tx.locks)]); err != nil {
		return err
	}
	tx.read = results[2+len(tx.locks):]
	return bs.machine.isSame(&tx.meta)
}

// take parses the rows of a lock.
func (tx *transaction) take(l lock, rows result) error {
	tx.rows[l.table] = make(map[string]*row)
	for _, values := range rows {
		if len(values) != 3 {
			return fmt.Errorf("a row has %d columns, expected 3", len(values))
		}
		r := &row{state: values[1], was: values[1]}
		if err := numbers(values[2:], &r.expires); err != nil {
			return err
		}
		r.wasExpires = r.expires
		tx.rows[l.table][string(values[0])] = r
	}
	for _, name := range l.names {
		switch {
		case tx.rows[l.table][name] != nil:
		case tx.peek || l.peek || l.open:
			tx.rows[l.table][name] = &row{missing: true}
		default:
			return errSwept
		}
	}
	return nil
}
