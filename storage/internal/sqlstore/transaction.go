package sqlstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/caddy-tally/caddy-tally/storage"
)

// batch is what a transaction is to do: it reads and locks rows, decides, and writes what has
// changed.
type batch struct {
	term  *storage.Term // nil if the call has none
	now   int64         // the time of a call without a term
	locks []lock        // of tables, always in the same order
	alone bool          // no other batch that says so may run at a time
	reads []*script     // statements that are run after that
	peek  bool          // it locks and writes nothing: the transaction has ended when it is read

	decide func(tx *transaction) error
}

// lock is the rows of a table that are locked, read and perhaps written.
type lock struct {
	table table
	names []string // in ascending order, without repeats, at least one
	peek  bool     // they are only read
	open  bool     // missing rows are not locked: if somebody else inserts one meanwhile, the batch fails
}

// transaction is a batch under way.
type transaction struct {
	*batch
	at   storage.Time
	meta meta
	rows map[table]map[string]*row
	read []Rows  // the answers to the batch's reads
	more *script // statements to run with what is written

	asked storage.Reading // before the server was asked
	began time.Time       // likewise
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

// set changes a row.
func (r *row) set(state []byte, expires int64) { r.state, r.expires = state, expires }

func (r *row) changed() bool {
	return !bytes.Equal(r.state, r.was) || len(r.state) > 0 && r.expires != r.wasExpires
}

// errSwept says that a row was removed while it was to be locked.
var errSwept = errors.New("a row was swept meanwhile")

// transact runs a batch.
func (s *Store) transact(ctx context.Context, what string, b *batch) error {
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	s.claims.mu.Lock()
	defer s.claims.mu.Unlock()
	return s.place.wrap(what, again(ctx, func() error { return s.tryLocked(ctx, b) }))
}

// resolveShare is the part of the time of a call that is left to find out whether a batch took
// effect.
const resolveShare = 4

// tryLocked runs a batch once. When it fails it had no effect, unless its error says otherwise.
func (s *Store) tryLocked(ctx context.Context, b *batch) error {
	conn, err := s.claims.connectLocked(ctx)
	if err != nil {
		return err
	}
	defer s.claims.checkLocked(conn)
	trips, cancel := leaving(ctx, resolveShare)
	defer cancel()
	tx, err := s.begin(trips, conn, b)
	if err == nil {
		err = b.decide(tx)
	}
	if err == nil && tx.writes() {
		return s.commitLocked(ctx, trips, conn, tx)
	}
	if !b.peek || err != nil {
		s.place.rollback(trips, conn)
	}
	return s.correct(trips, conn, err)
}

// leaving returns a context that ends before another one, by a part of its time.
func leaving(ctx context.Context, part int64) (context.Context, context.CancelFunc) {
	deadline, ok := ctx.Deadline()
	if !ok {
		return context.WithCancel(ctx)
	}
	return context.WithDeadline(ctx, deadline.Add(-time.Until(deadline)/time.Duration(part)))
}

// begin begins a transaction, locks and reads its rows, and takes the time, all in one round
// trip. The number of the newest reset is read after rows are locked, so that a reset is known
// that was made before.
func (s *Store) begin(ctx context.Context, c Conn, b *batch) (*transaction, error) {
	tx := &transaction{batch: b, rows: make(map[table]map[string]*row), more: s.place.script()}
	sql := s.beginning(b)
	tx.ask()
	results, err := s.place.run(ctx, c, sql)
	tx.answered()
	if err != nil {
		return tx, err
	}
	if err := hasResults(results, len(b.locks)+2+len(b.reads)); err != nil {
		return tx, err
	}
	return tx, s.enter(tx, results)
}

// beginning is the first round trip of a batch: the machine's row, those of each lock, and meta.
func (s *Store) beginning(b *batch) *script {
	sql := s.place.script().add(s.place.dialect.Begin(s.place.options.Timeout / 2)).end()
	sql.add("SELECT batches FROM ", table("machines"), " WHERE id = ", s.id)
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

// hasResults returns an error unless so many statements have been answered.
func hasResults(results []Rows, n int) error {
	if len(results) != n {
		return fmt.Errorf("the server answered %d statements, expected %d", len(results), n)
	}
	return nil
}

// lock locks rows, which are made if need be, and reads them.
func (s *script) lock(l lock) {
	if !l.open {
		s.insert(l.table, l.names, func(string) *row { return new(row) })
		s.add(" ", raw(s.place.dialect.Keep("name"))).end()
	}
	s.read(l).add(" ORDER BY name FOR UPDATE").end()
}

func (s *script) read(l lock) *script {
	return s.add("SELECT name, state, expires FROM ", l.table, " WHERE name IN ").list(l.names)
}

// enter reads what the server answered, takes the time, and checks the term.
func (s *Store) enter(tx *transaction, results []Rows) error {
	if tx.peek && s.pending {
		// What became of it is for a batch to find out that locks the row.
	} else if err := s.isCurrentLocked(results[0]); err != nil {
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
	return s.takeTime(tx)
}

// take takes rows that were read.
func (tx *transaction) take(l lock, rows Rows) error {
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
