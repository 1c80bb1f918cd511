package store

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
)

// conn is a connection to a server. One call is made at a time. Tests replace it.
type conn interface {
	// Run runs statements in one round trip, and returns the rows of each statement with columns. If
	// a statement fails, the later ones are not run.
	Run(ctx context.Context, statements []byte) ([]result, error)
	// IsClosed reports whether the connection can't be used any more, for example after a call whose
	// context ended.
	IsClosed() bool
	// Close closes the connection without waiting.
	Close()
}

// result is the rows of a statement. A value is a number in decimal digits, raw bytes, or nil.
type result [][][]byte

// idleFor is how long the server waits for the second round trip of a batch before it ends the
// transaction and releases its locks.
const idleFor = 2 * time.Second

// begin begins a transaction whose statements each see all earlier commits. The server stops waiting for a lock
// after half of a call's time. The settings hold only in the transaction, so a pooler may use another connection for
// the next one. A batch reads a few rows by their keys. With the default costs of a disk the server would
// scan small tables instead, and compiling a statement takes longer than running it.
func (p *Place) begin() *script {
	wait := p.options.Timeout / 2
	ms := max(wait.Milliseconds(), 1)
	s := p.script().add(fmt.Sprintf("BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL lock_timeout = %d; SET LOCAL statement_timeout = %d; SET LOCAL idle_in_transaction_session_timeout = %d; SET LOCAL random_page_cost = 1; SET LOCAL jit = off",
		ms, 2*ms, max(idleFor, 2*wait).Milliseconds()))
	if !p.options.Durable {
		s.add("; SET LOCAL synchronous_commit = off")
	}
	return s.end()
}

// session is a connection that uses simple queries, so that one message holds all statements of a round
// trip, and nothing is prepared.
type session struct{ *pgconn.PgConn }

// dial connects to the server.
func (p *Place) dial(ctx context.Context) (conn, error) {
	config, err := p.options.current()
	if err != nil {
		return nil, err
	}
	c, err := pgconn.ConnectConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	return session{c}, nil
}

// current returns the configuration for a new connection.
func (o Options) current() (*pgconn.Config, error) {
	if o.Reread == nil {
		return o.Config, nil
	}
	dsn, err := o.Reread()
	if err != nil {
		return nil, err
	}
	changed, err := pgconn.ParseConfig(dsn)
	if err != nil {
		return nil, errors.New("postgres: the DSN can't be read any more: a placeholder has another value")
	}
	current := o.Config.Copy()
	current.User, current.Password = changed.User, changed.Password
	return current, nil
}

// Run implements [conn].
func (c session) Run(ctx context.Context, statements []byte) (results []result, err error) {
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

func read(r *pgconn.ResultReader) (rows result, err error) {
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

// closeFor bounds the time for telling the server that a connection is closed.
const closeFor = 100 * time.Millisecond

// Close implements [conn].
func (c session) Close() {
	if c.IsClosed() {
		return // the driver is cleaning it up
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeFor)
	defer cancel()
	_ = c.PgConn.Close(ctx)
}
