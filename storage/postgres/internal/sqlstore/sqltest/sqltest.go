// Package sqltest tests the promises of package sqlstore on real servers, which it kills and
// disconnects. It is for tests only.
package sqltest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/testing/proof"
	"github.com/caddy-tally/caddy-tally/internal/testing/testserver"
	"github.com/caddy-tally/caddy-tally/storage"
	"github.com/caddy-tally/caddy-tally/storage/postgres/internal/sqlstore"
	"github.com/caddy-tally/caddy-tally/storage/storagetest"
)

// Kind is a kind of server.
type Kind struct {
	// Start starts a server.
	Start func(settings ...string) (*testserver.Server, error)
	// Opener returns an opener of stores on a server.
	Opener func(dsn string, o sqlstore.Options) (storage.Opener, error)
	// Exec runs statements.
	Exec func(dsn, statements string) error

	once   sync.Once
	shared *testserver.Server
	err    error
	places atomic.Int64
	mu     sync.Mutex
	empty  []string // guarded by mu: prefixes of existing tables without rows
}

// Main runs the tests of a package on one shared server. Tests that kill a server start their own.
func (k *Kind) Main(m *testing.M) {
	proof.Overlap()
	code := m.Run()
	if k.shared != nil {
		k.shared.Close()
	}
	os.Exit(code)
}

// Server returns the server, or skips the test if none is installed.
func (k *Kind) Server(t testing.TB) *testserver.Server {
	t.Helper()
	k.once.Do(func() { k.shared, k.err = k.Start() })
	return OrSkip(t, k.shared, k.err)
}

// Own starts a server for one test.
func (k *Kind) Own(t testing.TB, settings ...string) *testserver.Server {
	t.Helper()
	s, err := k.Start(settings...)
	OrSkip(t, s, err)
	t.Cleanup(s.Close)
	return s
}

// OrSkip skips a test whose server isn't installed, and fails one whose server doesn't start.
func OrSkip(t testing.TB, s *testserver.Server, err error) *testserver.Server {
	t.Helper()
	if errors.Is(err, testserver.ErrMissing) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// patience is the timeout of calls on a busy machine.
const patience = 20 * time.Second

// Options returns the options of a new place.
func (k *Kind) Options() sqlstore.Options {
	return sqlstore.Options{Prefix: fmt.Sprintf("place%d_", k.places.Add(1)), Timeout: patience}
}

// Place returns an opener of stores in a place, through a port of a server or of a proxy.
func (k *Kind) Place(t testing.TB, s *testserver.Server, port string, o sqlstore.Options) storage.Opener {
	t.Helper()
	open, err := k.Opener(s.DSN(port), o)
	if err != nil {
		t.Fatal(err)
	}
	return open
}

// opened opens a store.
func opened(t testing.TB, open storage.Opener) *sqlstore.Store {
	t.Helper()
	s, err := open(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s.(*sqlstore.Store)
}

// Conformance runs the suite of stores, except for the named tests, on a server or through a proxy.
// The clocks of the tests replace that of the server.
func (k *Kind) Conformance(t *testing.T, by *testserver.Server, except ...string) {
	storagetest.Run(t, func(t *testing.T) storage.Opener {
		o := k.Options()
		o.Prefix = k.emptyPlace(t, o.Prefix)
		o.Clock = func(r storage.Reading) int64 { return r.Wall }
		if !proof.IsOn() {
			o.MaxNotes = storagetest.FewNotes
		}
		return k.Place(t, by, by.Port, o)
	}, append(except, storagetest.ServerTime)...)
}

// emptyPlace returns the prefix of an empty place for a test: next, unless an earlier test has left
// its tables, which take longer to create than most tests to run.
func (k *Kind) emptyPlace(t *testing.T, next string) string {
	k.mu.Lock()
	defer k.mu.Unlock()
	if last := len(k.empty) - 1; last >= 0 {
		next, k.empty = k.empty[last], k.empty[:last]
	}
	t.Cleanup(func() {
		var deletes strings.Builder
		for _, table := range sqlstore.Tables() {
			fmt.Fprintf(&deletes, "DELETE FROM %s%s; ", next, table)
		}
		if k.Exec(k.shared.DSN(k.shared.Port), deletes.String()) == nil { // a test may have opened no store
			k.mu.Lock()
			defer k.mu.Unlock()
			k.empty = append(k.empty, next)
		}
	})
	return next
}

// Benchmark measures batches of claims.
func (k *Kind) Benchmark(b *testing.B) {
	server := k.Server(b)
	storagetest.BenchmarkClaim(b, func(b *testing.B) storage.Store {
		return opened(b, k.Place(b, server, server.Port, k.Options()))
	}, nil)
}
