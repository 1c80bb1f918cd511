package store

import (
	"bytes"
	"context"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
)

// failure is the answer to the next script that commits. Its connection stays usable.
type failure struct {
	err error // nil if none is to fail
	run bool  // whether the script is run before
}

// failing is a connection on which a commit fails.
type failing struct {
	conn
	next *failure
}

func (f failing) Run(ctx context.Context, statements []byte) ([]result, error) {
	fail := *f.next
	if fail.err == nil || !bytes.HasSuffix(statements, []byte("COMMIT")) {
		return f.conn.Run(ctx, statements)
	}
	*f.next = failure{}
	if fail.run {
		if _, err := f.conn.Run(ctx, statements); err != nil {
			return nil, err
		}
	}
	return nil, fail.err
}

// TestCommitAnsweredWithAnError makes the answer to a commit an error on a connection that stays usable, as from a proxy
// that has lost the server. The claim reports whether it took effect.
func TestCommitAnsweredWithAnError(t *testing.T) {
	server, l := sharedServer(t), large(t)
	place, next := placeOn(t, server.DSN(server.Port), newOptions()), new(failure)
	connect := place.connect
	place.connect = func(ctx context.Context) (conn, error) {
		c, err := connect(ctx)
		return failing{c, next}, err
	}
	s := openStore(t, place.Open)
	answer := &pgconn.PgError{Severity: "ERROR", Code: "XX000", Message: "unable to read data from the server"}
	taken := int64(0)
	for _, run := range []bool{true, false} {
		*next = failure{answer, run}
		err := take(s, l, 1)
		if err == nil {
			taken++
		}
		if run && err != nil {
			t.Errorf("the batch took effect, and the claim says %v", err)
		}
		if got := used(t, s, l, 1); got != taken {
			t.Errorf("run: %v: %d units were granted, %d are charged", run, taken, got)
		}
	}
}
