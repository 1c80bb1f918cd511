package mysql

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	driverof "github.com/go-sql-driver/mysql"

	"github.com/caddy-tally/caddy-tally/storage/internal/sqlstore"
)

func dialect(connector driver.Connector) *sqlstore.Dialect {
	return &sqlstore.Dialect{
		Name:       "mysql",
		Connect:    func(ctx context.Context) (sqlstore.Conn, error) { return connect(ctx, connector) },
		Explain:    explain,
		Bytes:      [2]string{"x'", "'"},
		ShortBytes: "VARBINARY(24)", LongBytes: "BLOB",
		Hot:     " ENGINE = InnoDB",
		Cold:    " ENGINE = InnoDB",
		Clock:   "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) * 1000",
		Begin:   begin,
		Keep:    func(key string) string { return "ON DUPLICATE KEY UPDATE " + key + " = VALUES(" + key + ")" },
		Replace: "ON DUPLICATE KEY UPDATE state = VALUES(state), expires = VALUES(expires)",
		Exists: func(table string) string {
			return "(SELECT COUNT(*) FROM information_schema.tables WHERE " + named(table) + ")"
		},
		Size: func(tables []string) string {
			var each []string
			for _, t := range tables {
				each = append(each, "("+named(t)+")")
			}
			return "CAST(COALESCE(SUM(data_length + index_length), 0) AS SIGNED) FROM information_schema.tables WHERE " + strings.Join(each, " OR ")
		},
	}
}

// named returns the condition for the row of a table in information_schema.tables.
func named(table string) string {
	schema, name, ok := strings.Cut(table, ".")
	if !ok {
		return "table_schema = DATABASE() AND table_name = '" + table + "'"
	}
	return "table_schema = '" + schema + "' AND table_name = '" + name + "'"
}

// idleFor is how long the server waits for the second round trip of a batch before it ends the
// connection, and with it the transaction and its locks.
const idleFor = 2 * time.Second

// begin begins a transaction. The server's bounds are whole seconds. MariaDB bounds idle transactions.
// MySQL only bounds idle connections, which are then made again.
func begin(wait time.Duration) string {
	seconds := func(d time.Duration) int64 { return max(int64((d+time.Second-1)/time.Second), 1) }
	idle := seconds(max(idleFor, 2*wait))
	return fmt.Sprintf("SET SESSION innodb_lock_wait_timeout = %d"+
		"/*M! , SESSION idle_transaction_timeout = %d */ /*!80000 , SESSION wait_timeout = %d */; "+
		"SET TRANSACTION ISOLATION LEVEL READ COMMITTED; START TRANSACTION", seconds(wait), idle, idle)
}

// conn is a connection. A message holds all statements of a round trip, and nothing is prepared.
type conn struct {
	driver.Conn
	closed bool
}

func connect(ctx context.Context, connector driver.Connector) (sqlstore.Conn, error) {
	c, err := connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &conn{Conn: c}, nil
}

// Run implements [sqlstore.Conn].
func (c *conn) Run(ctx context.Context, statements []byte) (results []sqlstore.Rows, err error) {
	if results, err = c.run(ctx, statements); err != nil && c.Broken() {
		err = &endedError{err}
	}
	return results, err
}

// endedError is an error that ended a connection. MySQL sends one, with a number, when it ends an idle
// connection.
type endedError struct{ error }

func (e *endedError) Unwrap() error { return e.error }

func (c *conn) run(ctx context.Context, statements []byte) (results []sqlstore.Rows, err error) {
	rows, err := c.Conn.(driver.QueryerContext).QueryContext(ctx, string(statements), nil)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for len(rows.Columns()) > 0 {
		table, err := read(rows)
		if err != nil {
			return results, err
		}
		results = append(results, table)
		if err := rows.(driver.RowsNextResultSet).NextResultSet(); err == io.EOF {
			return results, nil
		} else if err != nil {
			return results, err
		}
	}
	return results, nil
}

func read(source driver.Rows) (rows sqlstore.Rows, err error) {
	for {
		values := make([]driver.Value, len(source.Columns()))
		if err := source.Next(values); err == io.EOF {
			return rows, nil
		} else if err != nil {
			return rows, err
		}
		row := make([][]byte, len(values))
		for i, value := range values {
			switch value := value.(type) {
			case nil:
			case []byte:
				row[i] = append([]byte{}, value...)
			case string:
				row[i] = []byte(value)
			case int64:
				row[i] = strconv.AppendInt(nil, value, 10)
			default:
				return rows, fmt.Errorf("a value is %T, expected a number or bytes", value)
			}
		}
		rows = append(rows, row)
	}
}

// Broken implements [sqlstore.Conn].
func (c *conn) Broken() bool { return c.closed || !c.Conn.(driver.Validator).IsValid() }

// Close implements [sqlstore.Conn].
func (c *conn) Close() {
	c.closed = true
	_ = c.Conn.Close()
}

// faults has the meanings of the server's error numbers, and remedies.
var faults = map[uint16]struct {
	fault  sqlstore.Fault
	remedy string
}{
	1062: {sqlstore.Busy, ""},    // a row with that key is there
	1205: {sqlstore.Busy, ""},    // a lock was waited for too long
	1213: {sqlstore.Busy, ""},    // deadlock
	1146: {sqlstore.Missing, ""}, // no such table
	1054: {sqlstore.Missing, ""}, // no such column
	1049: {sqlstore.Failed, "make the database"},
	1044: {sqlstore.Failed, grant},
	1142: {sqlstore.Failed, grant},
	1045: {sqlstore.Failed, "correct the user or the password"},
	1290: {sqlstore.Failed, "the server is read-only: name the primary"},
	1836: {sqlstore.Failed, "the server is read-only: name the primary"},
	1792: {sqlstore.Failed, "the server is read-only: name the primary"},
	1665: {sqlstore.Failed, "set the server's binlog_format to ROW or MIXED: batches are READ COMMITTED"},
	1040: {sqlstore.Failed, "each Caddy takes two connections: raise max_connections"},
	1021: {sqlstore.Failed, "the server's disk is full"},
	1114: {sqlstore.Failed, "the server's disk is full"},
	1053: {sqlstore.Broken, ""}, // the server shuts down
	1927: {sqlstore.Broken, ""}, // the connection was killed
	2006: {sqlstore.Broken, ""}, // a proxy has no connection to the server any more
	2013: {sqlstore.Broken, ""}, // a proxy lost the server before it answered
}

const grant = "GRANT SELECT, INSERT, UPDATE, DELETE, CREATE ON the database to the user"

// explain returns the meaning of an error, and adds a remedy. A connection that ended, or could not be
// made, is broken.
func explain(err error) (sqlstore.Fault, error) {
	answer := (*driverof.MySQLError)(nil)
	if !errors.As(err, &answer) {
		return sqlstore.Broken, err
	}
	known := faults[answer.Number]
	if ended := (*endedError)(nil); errors.As(err, &ended) {
		known.fault = sqlstore.Broken
	}
	if known.remedy != "" {
		err = fmt.Errorf("%w; %s", err, known.remedy)
	}
	return known.fault, err
}
