package mysql

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/testing/proof"
	"github.com/caddy-tally/caddy-tally/storage/internal/sqlstore"
)

// A machine's batch locks the machine's row. A sweep that removes other machines doesn't wait for
// the lock, and so holds no locks meanwhile that others need.
func TestSweepWaitsForNoLiveMachine(t *testing.T) {
	proof.Only(t)
	server, o := kind.Server(t), kind.Options()
	o.Timeout = 2 * time.Second // which is what a sweep that waits would take
	s, err := kind.Place(t, server, server.Port, o)(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	c, err := connectTo(server.DSN(server.Port))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	run := func(statements string) []sqlstore.Rows {
		t.Helper()
		rows, err := c.Run(context.Background(), []byte(strings.ReplaceAll(statements, "machines", o.Prefix+"machines")))
		if err != nil {
			t.Fatalf("%s: %v", statements, err)
		}
		return rows
	}
	run("INSERT INTO machines (id, batches, time, expires) VALUES (1, 0, 0, 1), (3, 0, 0, 1)")
	run("INSERT INTO machines (id, batches, time, expires) VALUES (2, 0, 0, 9000000000000000000)")
	run("START TRANSACTION; SELECT id FROM machines WHERE id = 2 FOR UPDATE")
	const steps = 4 // of a sweep of empty tables, and a spare one
	for range steps {
		swept, err := s.Sweep(context.Background(), time.Now().UnixNano())
		if err != nil {
			t.Fatal(err)
		}
		if !swept.More {
			break
		}
	}
	if left := run("SELECT id FROM machines WHERE id IN (1, 2, 3)")[0]; len(left) != 1 || string(left[0][0]) != "2" {
		t.Errorf("the machines %q are left, want 2", left)
	}
}

func TestSweepEnds(t *testing.T) {
	proof.Only(t)
	kind.SweepEnds(t, connectTo)
}
