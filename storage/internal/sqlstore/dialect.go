package sqlstore

import (
	"context"
	"time"
)

// Dialect has the differences between servers.
type Dialect struct {
	// Name is the store's name in errors.
	Name string
	// Connect connects to the server.
	Connect func(ctx context.Context) (Conn, error)
	// Explain explains an error of Connect or of a Conn, and adds a remedy.
	Explain func(err error) (Fault, error)

	// Bytes are the text before and after the hexadecimal digits of a literal.
	Bytes [2]string
	// ShortBytes is the type of a column that is a key, LongBytes that of any other bytes.
	ShortBytes, LongBytes string
	// Hot follows the columns of a table whose rows are written often, Cold those of other tables.
	Hot, Cold string
	// Clock is the server's time at the beginning of a statement, or later, in nanoseconds since the
	// Unix epoch.
	Clock string

	// Begin begins a transaction whose statements each see all earlier commits. The server stops
	// waiting for a lock after wait, and ends a transaction that its client doesn't continue.
	Begin func(wait time.Duration) string
	// Keep follows the rows of an INSERT into a table with a key. It locks existing rows and doesn't
	// change them.
	Keep func(key string) string
	// Replace follows the rows of an INSERT of name, state and expires. It replaces state and expires
	// in existing rows.
	Replace string
	// Making keeps other machines from creating tables until the transaction ends. It may be "".
	Making string
	// Exists is 1 if a table exists, otherwise 0.
	Exists func(table string) string
	// Size is the size of tables in bytes.
	Size func(tables []string) string
}

// Conn is a connection to a server. One call is made at a time.
type Conn interface {
	// Run runs statements in one round trip, and returns the rows of each statement with columns. If
	// a statement fails, the later ones are not run.
	Run(ctx context.Context, statements []byte) ([]Rows, error)
	// Broken reports whether the connection can't be used any more, for example after a call whose
	// context ended.
	Broken() bool
	// Close closes the connection without waiting.
	Close()
}

// Rows are the rows of a statement. A value is a number in decimal digits, raw bytes, or nil.
type Rows [][][]byte

// Fault is the meaning of an error.
type Fault int

// What an error may mean.
const (
	Failed  Fault = iota // anything else
	Broken               // the connection ended
	Busy                 // others hold locks, or have inserted a row: the transaction can be retried
	Missing              // there is no such table or column
)
