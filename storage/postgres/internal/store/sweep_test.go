package store

import (
	"context"
	"testing"
	"time"
)

// TestSweepEnds holds the lock that the end of a sweep needs. Each sweep reports that until the lock is
// free, and then ends.
func TestSweepEnds(t *testing.T) {
	server, o := sharedServer(t), newOptions()
	s := openStore(t, opener(t, server, server.Port, o))
	c, err := placeOn(t, server.DSN(server.Port), o).connect(context.Background())
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
