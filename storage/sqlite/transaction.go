package sqlite

import (
	"context"
	"errors"
	"fmt"

	"github.com/caddy-tally/caddy-tally/storage"
	"github.com/caddy-tally/caddy-tally/storage/sqlite/internal/sleeplock"
)

// transactions owns the write connection, and runs its transactions, one at a time.
type transactions struct {
	place *place
	log   *wal

	// mu guards the connection, the following fields, and what is only used in transactions.
	mu     sleeplock.Lock
	conn   *conn
	clock  clock
	open   bool // a transaction may be open
	closed bool // the store is closed

	begin, commit, rollback *stmt
}

func (t *transactions) prepare() error {
	return errors.Join(t.clock.prepare(t.conn), t.conn.prepareAll([]prepared{
		{&t.begin, `BEGIN IMMEDIATE`, 0, 0},
		{&t.commit, `COMMIT`, 0, 0},
		{&t.rollback, `ROLLBACK`, 0, 0},
	}))
}

// with calls f with the connection locked, and adds the failed operation to its error.
func (t *transactions) with(ctx context.Context, what string, f func() error) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return wrap(what, storage.ErrClosed)
	}
	if err := ctx.Err(); err != nil {
		return wrap(what, err)
	}
	return t.place.failed(wrap(what, f()))
}

// do runs f in a transaction, which is committed if f wrote rows.
func (t *transactions) do(ctx context.Context, what string, f func() (written int64, err error)) error {
	return t.with(ctx, what, func() error { return t.doLocked(f) })
}

// change runs f, which writes rows, in a transaction.
func (t *transactions) change(ctx context.Context, what string, f func() error) error {
	return t.do(ctx, what, func() (written int64, err error) { return 1, f() })
}

// inTerm runs f in a transaction, within a term.
func (t *transactions) inTerm(ctx context.Context, term *storage.Term, what string,
	f func() (written int64, err error)) error {
	return t.with(ctx, what, func() error { return t.inTermLocked(term, f) })
}

// inTermLocked runs f in a transaction, within a term. The transaction is committed if f wrote rows, or if the
// time must be written.
func (t *transactions) inTermLocked(term *storage.Term, f func() (written int64, err error)) error {
	return t.doLocked(func() (written int64, err error) {
		if err := t.clock.tell(term); err != nil {
			return 0, err
		}
		if term.Holds(term.Time) {
			written, err = f()
		} else {
			err = storage.ErrTerm
		}
		if err != nil && err != storage.ErrTerm {
			return 0, err
		}
		kept, failed := t.clock.keep(term, written > 0)
		if failed != nil {
			return 0, failed
		}
		return written + kept, err
	})
}

// doLocked runs f in a transaction, which is committed if f wrote rows.
func (t *transactions) doLocked(f func() (written int64, err error)) error {
	if err := t.place.check(); err != nil {
		return err
	}
	if err := t.beginLocked(); err != nil {
		return err
	}
	written, err := f()
	if err != nil && !errors.Is(err, storage.ErrTerm) || written == 0 {
		return errors.Join(err, t.rollbackLocked())
	}
	if err := t.commit.run(); err != nil {
		t.clock.forget()
		return errors.Join(fmt.Errorf("commit: %w: %w", storage.ErrUnknownOutcome, err), t.rollbackLocked())
	}
	t.open = false
	t.log.wroteLocked(written)
	return err
}

// beginLocked begins a transaction. It first ends one that was left open.
func (t *transactions) beginLocked() error {
	if err := t.rollbackLocked(); err != nil {
		return err
	}
	t.open = true // also after an error, for all that is known
	if err := t.begin.run(); err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	return nil
}

// rollbackLocked ends the transaction, if there is one. SQLite itself rolls back after some errors, and
// returns a plain error for another rollback.
func (t *transactions) rollbackLocked() error {
	if !t.open {
		return nil
	}
	if err := t.rollback.run(); err != nil && code(err) != codeError {
		return fmt.Errorf("rollback: %w", err)
	}
	t.open = false
	return nil
}
