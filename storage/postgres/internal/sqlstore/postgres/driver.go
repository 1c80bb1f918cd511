package postgres

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/caddy-tally/caddy-tally/storage/postgres/internal/sqlstore"
)

func driver(current func() (*pgconn.Config, error), durable bool) *sqlstore.Driver {
	return &sqlstore.Driver{
		Connect: func(ctx context.Context) (sqlstore.Conn, error) { return connect(ctx, current) },
		Explain: explain,
		Begin:   func(wait time.Duration) string { return begin(wait, durable) },
	}
}

// idleFor is how long the server waits for the second round trip of a batch before it ends the
// transaction and releases its locks.
const idleFor = 2 * time.Second

// begin begins a transaction. The settings hold only in it, so a pooler may use another connection for
// the next one. A batch reads a few rows by their keys. With the default costs of a disk the server would
// scan small tables instead, and compiling a statement takes longer than running it.
func begin(wait time.Duration, durable bool) string {
	ms := max(wait.Milliseconds(), 1)
	sql := fmt.Sprintf("BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL lock_timeout = %d; SET LOCAL statement_timeout = %d; SET LOCAL idle_in_transaction_session_timeout = %d; SET LOCAL random_page_cost = 1; SET LOCAL jit = off",
		ms, 2*ms, max(idleFor, 2*wait).Milliseconds())
	if !durable {
		sql += "; SET LOCAL synchronous_commit = off"
	}
	return sql
}

// conn is a connection. It uses simple queries, so that one message holds all statements of a round
// trip, and nothing is prepared.
type conn struct{ *pgconn.PgConn }

func connect(ctx context.Context, current func() (*pgconn.Config, error)) (sqlstore.Conn, error) {
	config, err := current()
	if err != nil {
		return nil, err
	}
	c, err := pgconn.ConnectConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	return conn{c}, nil
}

// Run implements [sqlstore.Conn].
func (c conn) Run(ctx context.Context, statements []byte) (results []sqlstore.Rows, err error) {
	reader := c.Exec(ctx, string(statements))
	for reader.NextResult() {
		r := reader.ResultReader()
		if len(r.FieldDescriptions()) == 0 {
			_, _ = r.Close() // its error is the reader's
			continue
		}
		rows, failed := read(r)
		if failed != nil {
			err = failed
		}
		results = append(results, rows)
	}
	return results, errors.Join(reader.Close(), err)
}

func read(r *pgconn.ResultReader) (rows sqlstore.Rows, err error) {
	columns := r.FieldDescriptions()
	for r.NextRow() {
		values := r.Values()
		row := make([][]byte, len(values))
		for i, value := range values {
			switch {
			case value == nil:
			case columns[i].DataTypeOID == pgtype.ByteaOID:
				if row[i], err = decode(value); err != nil {
					return nil, err
				}
			default:
				row[i] = append([]byte(nil), value...)
			}
		}
		rows = append(rows, row)
	}
	_, err = r.Close()
	return rows, err
}

// decode decodes bytes from their text.
func decode(text []byte) ([]byte, error) {
	digits, ok := strings.CutPrefix(string(text), `\x`)
	if !ok {
		return nil, errors.New(`bytes are not in hexadecimal format: set bytea_output = 'hex'`)
	}
	return hex.DecodeString(digits)
}

// Broken implements [sqlstore.Conn].
func (c conn) Broken() bool { return c.IsClosed() }

// closeFor bounds the time for telling the server that a connection is closed.
const closeFor = 100 * time.Millisecond

// Close implements [sqlstore.Conn].
func (c conn) Close() {
	if c.IsClosed() {
		return // the driver is cleaning it up
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeFor)
	defer cancel()
	_ = c.PgConn.Close(ctx)
}
