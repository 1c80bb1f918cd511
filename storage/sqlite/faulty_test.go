package sqlite

import (
	"context"
	"database/sql/driver"
	"errors"
	"strings"
	"sync"
	"sync/atomic"

	sqlite3 "modernc.org/sqlite"
)

// faults are between the store and the driver. before is called for every statement that is about
// to run or, as "prepare: …", to be prepared, and may return an error for it; after is called after
// the statement. "connect" is a statement as well.
type faults struct {
	mu     sync.Mutex
	before func(query string) error
	after  func(query string) error
}

func (f *faults) set(before func(query string) error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.before = before
}

func (f *faults) check(query string) error {
	f.mu.Lock()
	before := f.before
	f.mu.Unlock()
	if before == nil {
		return nil
	}
	return before(query)
}

func (f *faults) setAfter(after func(query string) error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.after = after
}

func (f *faults) checkAfter(query string) error {
	f.mu.Lock()
	after := f.after
	f.mu.Unlock()
	if after == nil {
		return nil
	}
	return after(query)
}

// connect is an Options.connect.
func (f *faults) connect(dsn string) (driver.Connector, error) {
	inner, err := sqlite3.NewConnector(dsn)
	return &faultyConnector{inner, f}, err
}

type faultyConnector struct {
	driver.Connector
	faults *faults
}

func (c *faultyConnector) Connect(ctx context.Context) (driver.Conn, error) {
	if err := c.faults.check("connect"); err != nil {
		return nil, err
	}
	inner, err := c.Connector.Connect(ctx)
	return &faultyConn{inner, c.faults}, err
}

type faultyConn struct {
	driver.Conn
	faults *faults
}

func (c *faultyConn) Prepare(query string) (driver.Stmt, error) {
	if err := c.faults.check("prepare: " + query); err != nil {
		return nil, err
	}
	inner, err := c.Conn.Prepare(query)
	return &faultyStmt{inner, c.faults, query}, err
}

func (c *faultyConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	if err := c.faults.check(query); err != nil {
		return nil, err
	}
	result, err := c.Conn.(driver.ExecerContext).ExecContext(ctx, query, args)
	return result, errors.Join(err, c.faults.checkAfter(query))
}

func (c *faultyConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	if err := c.faults.check(query); err != nil {
		return nil, err
	}
	return c.Conn.(driver.QueryerContext).QueryContext(ctx, query, args)
}

type faultyStmt struct {
	driver.Stmt
	faults *faults
	query  string
}

func (s *faultyStmt) ExecContext(ctx context.Context, args []driver.NamedValue) (driver.Result, error) {
	if err := s.faults.check(s.query); err != nil {
		return nil, err
	}
	result, err := s.Stmt.(driver.StmtExecContext).ExecContext(ctx, args)
	return result, errors.Join(err, s.faults.checkAfter(s.query))
}

func (s *faultyStmt) QueryContext(ctx context.Context, args []driver.NamedValue) (driver.Rows, error) {
	if err := s.faults.check(s.query); err != nil {
		return nil, err
	}
	return s.Stmt.(driver.StmtQueryContext).QueryContext(ctx, args)
}

// coded is an error of the driver with a code.
type coded int

func (c coded) Error() string { return "injected" }
func (c coded) Code() int     { return int(c) }

// failOnce returns a faults.before that fails the first statement with a prefix.
func failOnce(prefix string, err error) func(query string) error {
	return failOnceAnd(prefix, err, func() {})
}

// failOnceAnd is failOnce, which then calls f.
func failOnceAnd(prefix string, err error, f func()) func(query string) error {
	var done atomic.Bool
	return func(query string) error {
		if !strings.HasPrefix(query, prefix) || done.Swap(true) {
			return nil
		}
		f()
		return err
	}
}
