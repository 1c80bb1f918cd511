package sqltest

import (
	"bytes"
	"context"
	"testing"

	"github.com/caddy-tally/caddy-tally/storage/postgres/internal/sqlstore"
)

// failure is the answer to the next script that commits. Its connection stays usable.
type failure struct {
	err error // nil if none is to fail
	run bool  // whether the script is run before
}

// failing is a connection on which a commit fails.
type failing struct {
	sqlstore.Conn
	next *failure
}

func (f failing) Run(ctx context.Context, statements []byte) ([]sqlstore.Rows, error) {
	fail := *f.next
	if fail.err == nil || !bytes.HasSuffix(statements, []byte("COMMIT")) {
		return f.Conn.Run(ctx, statements)
	}
	*f.next = failure{}
	if fail.run {
		if _, err := f.Conn.Run(ctx, statements); err != nil {
			return nil, err
		}
	}
	return nil, fail.err
}

// Answered makes the answer to a commit an error on a connection that stays usable, as from a proxy
// that has lost the server. The claim reports whether it took effect.
func (k *Kind) Answered(t *testing.T, driver func(dsn string) *sqlstore.Driver, answers ...error) {
	server, l := k.Server(t), large(t)
	d, next := driver(server.DSN(server.Port)), new(failure)
	connect := d.Connect
	d.Connect = func(ctx context.Context) (sqlstore.Conn, error) {
		c, err := connect(ctx)
		return failing{c, next}, err
	}
	place, err := sqlstore.NewPlace(d, k.Options())
	if err != nil {
		t.Fatal(err)
	}
	s := opened(t, place.Open)
	taken := int64(0)
	for _, answer := range answers {
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
				t.Errorf("%v, run: %v: %d units were granted, %d are charged", answer, run, taken, got)
			}
		}
	}
}
