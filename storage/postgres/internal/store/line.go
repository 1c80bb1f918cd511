package store

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/caddy-tally/caddy-tally/storage"
)

// connectError says why no connection could be made.
type connectError struct{ err error }

func (e *connectError) Error() string { return e.err.Error() }
func (e *connectError) Unwrap() error { return e.err }

// line is a connection for one call at a time. It reconnects after the connection broke.
type line struct {
	place *Place

	mu     sync.Mutex
	conn   conn // guarded by mu: nil if there is none
	closed bool // guarded by mu
}

// with calls f with the connection, which may have ended without being noticed.
func (l *line) with(ctx context.Context, f func(conn) error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.withLocked(ctx, f)
}

func (l *line) withLocked(ctx context.Context, f func(conn) error) error {
	conn, err := l.connectLocked(ctx)
	if err != nil {
		return err
	}
	defer l.checkLocked(conn)
	return f(conn)
}

// checkLocked drops a connection that can't be used any more.
func (l *line) checkLocked(conn conn) {
	if l.conn == conn && conn.IsClosed() {
		l.hangUpLocked()
	}
}

// connectLocked returns the connection, and makes one if there is none.
func (l *line) connectLocked(ctx context.Context) (conn, error) {
	if l.closed {
		return nil, storage.ErrClosed
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if l.conn != nil && l.conn.IsClosed() {
		l.hangUpLocked()
	}
	if l.conn == nil {
		conn, err := l.place.connect(ctx)
		if err != nil {
			return nil, &connectError{l.place.explain(ctx, err)}
		}
		l.conn = conn
	}
	return l.conn, nil
}

func (l *line) hangUpLocked() {
	if l.conn != nil {
		l.conn.Close()
		l.conn = nil
	}
}

// close closes the line after the call that is under way.
func (l *line) close() (first bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.hangUpLocked()
	first, l.closed = !l.closed, true
	return first
}

// serverError is an error of the server and its meaning.
type serverError struct {
	fault fault
	err   error
}

func (e *serverError) Error() string { return e.err.Error() }
func (e *serverError) Unwrap() error { return e.err }

// explain explains an error of the server, or one caused by the end of a context.
func (p *Place) explain(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	fault, err := explain(err)
	if ended := ctx.Err(); ended != nil && !errors.Is(err, ended) {
		err = fmt.Errorf("%w: %w", ended, err)
	}
	return &serverError{fault, err}
}

func faultOf(err error) fault {
	if known := (*serverError)(nil); errors.As(err, &known) {
		return known.fault
	}
	return failed
}

// run runs a script.
func (p *Place) run(ctx context.Context, c conn, s *script) ([]result, error) {
	results, err := c.Run(ctx, s.sql)
	return results, p.explain(ctx, err)
}

// query runs a script with n statements that return rows.
func (p *Place) query(ctx context.Context, c conn, s *script, n int) ([]result, error) {
	results, err := p.run(ctx, c, s)
	if err == nil {
		err = hasResults(results, n)
	}
	return results, err
}

// rollback ends a transaction that failed or has written nothing. If that fails, it closes the
// connection, and the server rolls back.
func (p *Place) rollback(ctx context.Context, c conn) {
	if c.IsClosed() {
		return
	}
	if _, err := c.Run(ctx, []byte("ROLLBACK")); err != nil {
		c.Close()
	}
}
