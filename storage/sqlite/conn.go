package sqlite

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
)

// conn is a connection without a pool. A [database/sql.DB] would add locks, copies and conversions to every
// call, and a store with one connection needs nothing that it offers. It is not safe for concurrent use.
type conn struct {
	raw   driver.Conn
	stmts []*stmt
}

// background is the context of every call of the driver; see doc.go.
var background = context.Background()

func connect(connector driver.Connector) (*conn, error) {
	raw, err := connector.Connect(background)
	if err != nil {
		return nil, err
	}
	return &conn{raw: raw}, nil
}

// close finalizes the prepared statements and closes the connection.
func (c *conn) close() error {
	var errs []error
	for _, s := range c.stmts {
		errs = append(errs, s.raw.Close())
	}
	c.stmts = nil
	return errors.Join(append(errs, c.raw.Close())...)
}

// exec runs a statement once.
func (c *conn) exec(query string, args ...driver.Value) error {
	execer, ok := c.raw.(driver.ExecerContext)
	if !ok {
		return fmt.Errorf("driver %T can't execute", c.raw)
	}
	_, err := execer.ExecContext(background, query, named(args))
	return err
}

// int runs a query once and returns the integer in its first row.
func (c *conn) int(query string) (n int64, err error) {
	found := false
	err = c.each(query, func(row []driver.Value) error {
		if found {
			return nil
		}
		found = true
		return integers(row, &n)
	})
	if err == nil && !found {
		err = errDamaged("no row for " + query)
	}
	return n, err
}

// each runs a query once and calls f for each of its rows.
func (c *conn) each(query string, f func(row []driver.Value) error, args ...driver.Value) error {
	queryer, ok := c.raw.(driver.QueryerContext)
	if !ok {
		return fmt.Errorf("driver %T can't query", c.raw)
	}
	rows, err := queryer.QueryContext(background, query, named(args))
	if err != nil {
		return err
	}
	return drain(rows, make([]driver.Value, len(rows.Columns())), f)
}

// stmt is a prepared statement with room for its arguments.
type stmt struct {
	raw  driver.Stmt
	args []driver.NamedValue
	row  []driver.Value
}

// prepare makes a statement with a number of arguments and columns. It is closed with the connection.
func (c *conn) prepare(query string, args, columns int) (*stmt, error) {
	raw, err := c.raw.Prepare(query)
	if err != nil {
		return nil, err
	}
	s := &stmt{raw: raw, args: named(make([]driver.Value, args)), row: make([]driver.Value, columns)}
	c.stmts = append(c.stmts, s)
	return s, nil
}

// prepared describes a statement to prepare, and where to store it.
type prepared struct {
	stmt          **stmt
	query         string
	args, columns int
}

func (c *conn) prepareAll(statements []prepared) (err error) {
	for _, p := range statements {
		if *p.stmt, err = c.prepare(p.query, p.args, p.columns); err != nil {
			return err
		}
	}
	return nil
}

// bind sets arguments, beginning with the i-th, counted from 0.
func (s *stmt) bind(i int, values ...driver.Value) {
	for j, v := range values {
		s.args[i+j].Value = v
	}
}

// exec runs the statement with its first arguments set, and returns how many rows it changed.
func (s *stmt) exec(first ...driver.Value) (int64, error) {
	s.bind(0, first...)
	result, err := s.raw.(driver.StmtExecContext).ExecContext(background, s.args)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

// run is exec without the number of rows.
func (s *stmt) run(first ...driver.Value) error {
	_, err := s.exec(first...)
	return err
}

// each runs the statement and calls f for each of its rows. The next row overwrites the previous one.
func (s *stmt) each(f func(row []driver.Value) error) error {
	rows, err := s.raw.(driver.StmtQueryContext).QueryContext(background, s.args)
	if err != nil {
		return err
	}
	return drain(rows, s.row, f)
}

// read runs the statement and stores the integers of its last row. Without a row it changes nothing.
func (s *stmt) read(to ...*int64) error {
	return s.each(func(row []driver.Value) error { return integers(row, to...) })
}

func drain(rows driver.Rows, row []driver.Value, f func(row []driver.Value) error) (err error) {
	for {
		if err = rows.Next(row); err != nil {
			break
		}
		if err = f(row); err != nil {
			break
		}
	}
	if err == io.EOF {
		err = nil
	}
	if closed := rows.Close(); err == nil {
		err = closed
	}
	return err
}

func named(values []driver.Value) []driver.NamedValue {
	args := make([]driver.NamedValue, len(values))
	for i, v := range values {
		args[i] = driver.NamedValue{Ordinal: i + 1, Value: v}
	}
	return args
}

// integers stores the values of a row. They are integers unless the database is damaged, because its
// tables are STRICT.
func integers(row []driver.Value, to ...*int64) error {
	for i, n := range to {
		v, ok := row[i].(int64)
		if !ok {
			return errDamaged(fmt.Sprintf("a value is %T where an integer belongs", row[i]))
		}
		*n = v
	}
	return nil
}
