package sqltest

import (
	"context"
	"testing"
	"time"

	"github.com/caddy-tally/caddy-tally/storage/postgres/internal/sqlstore"
)

// SweepEnds holds the lock that the end of a sweep needs. Each sweep reports that until the lock is
// free, and then ends.
func (k *Kind) SweepEnds(t *testing.T, connect func(dsn string) (sqlstore.Conn, error)) {
	server, o := k.Server(t), k.Options()
	s := opened(t, k.Place(t, server, server.Port, o))
	c, err := connect(server.DSN(server.Port))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Run(context.Background(),
		[]byte("START TRANSACTION; SELECT id FROM "+o.Prefix+"meta FOR UPDATE")); err != nil {
		t.Fatal(err)
	}
	const steps = 2 // of a sweep of empty tables
	for range steps - 1 {
		if swept, err := s.Sweep(context.Background(), term(t, s, clock{})); err != nil || !swept.More {
			t.Fatalf("a step of the sweep: %+v, %v", swept, err)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 500*time.Millisecond)
	defer cancel()
	if swept, err := s.Sweep(ctx, term(t, s, clock{})); err == nil {
		t.Fatalf("the end of the sweep is held up, and it says %+v", swept)
	}
	if _, err := c.Run(context.Background(), []byte("ROLLBACK")); err != nil {
		t.Fatal(err)
	}
	if swept, err := s.Sweep(context.Background(), term(t, s, clock{})); err != nil || swept.More {
		t.Errorf("the end of the sweep, once more: %+v, %v", swept, err)
	}
}
