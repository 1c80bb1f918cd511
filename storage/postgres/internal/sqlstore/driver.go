package sqlstore

import (
	"context"
	"time"
)

// Driver makes connections to a server.
type Driver struct {
	// Connect connects to the server.
	Connect func(ctx context.Context) (Conn, error)
	// Explain explains an error of Connect or of a Conn, and adds a remedy.
	Explain func(err error) (Fault, error)

	// Begin begins a transaction whose statements each see all earlier commits. The server stops
	// waiting for a lock after wait, and ends a transaction that its client doesn't continue.
	Begin func(wait time.Duration) string
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
