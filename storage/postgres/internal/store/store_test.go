package store

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

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/caddy-tally/caddy-tally/internal/testing/proof"
	"github.com/caddy-tally/caddy-tally/internal/testing/testserver"
	"github.com/caddy-tally/caddy-tally/storage"
	"github.com/caddy-tally/caddy-tally/storage/storagetest"
)

// The shared server of all tests but those that kill one, and its places.
var (
	once        sync.Once
	shared      *testserver.Server
	errNoServer error
	places      atomic.Int64

	mu    sync.Mutex
	empty []string // guarded by mu: prefixes of existing tables without rows
)

func TestMain(m *testing.M) {
	proof.Overlap()
	code := m.Run()
	if shared != nil {
		shared.Close()
	}
	os.Exit(code)
}

// sharedServer returns the server, or skips the test if none is installed.
func sharedServer(t testing.TB) *testserver.Server {
	t.Helper()
	once.Do(func() { shared, errNoServer = testserver.Postgres() })
	return orSkip(t, shared, errNoServer)
}

// ownServer starts a server for one test.
func ownServer(t testing.TB) *testserver.Server {
	t.Helper()
	s, err := testserver.Postgres()
	orSkip(t, s, err)
	t.Cleanup(s.Close)
	return s
}

// orSkip skips a test whose server isn't installed, and fails one whose server doesn't start.
func orSkip(t testing.TB, s *testserver.Server, err error) *testserver.Server {
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

// newOptions returns the options of a new place.
func newOptions() Options {
	return Options{Prefix: fmt.Sprintf("place%d_", places.Add(1)), Timeout: patience}
}

// placeOn returns a place on the server of a DSN.
func placeOn(t testing.TB, dsn string, o Options) *Place {
	t.Helper()
	var err error
	if o.Config, err = pgconn.ParseConfig(dsn); err != nil {
		t.Fatal(err)
	}
	return NewPlace(o)
}

// opener returns an opener of stores in a place, through a port of a server or of a proxy.
func opener(t testing.TB, s *testserver.Server, port string, o Options) storage.Opener {
	t.Helper()
	return placeOn(t, s.DSN(port), o).Open
}

// execOn runs statements on the server of a DSN.
func execOn(dsn, statements string) error {
	c, err := pgconn.Connect(context.Background(), dsn)
	if err != nil {
		return err
	}
	defer c.Close(context.Background())
	_, err = c.Exec(context.Background(), statements).ReadAll()
	return err
}

// openStore opens a store.
func openStore(t testing.TB, open storage.Opener) *Store {
	t.Helper()
	s, err := open(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s.(*Store)
}

// conformance runs the suite of stores, except for the named tests, on a server or through a proxy.
// The clocks of the tests replace that of the server.
func conformance(t *testing.T, by *testserver.Server, except ...string) {
	storagetest.Run(t, func(t *testing.T) storage.Opener {
		o := newOptions()
		o.Prefix = emptyPlace(t, o.Prefix)
		o.Clock = func(r storage.Reading) int64 { return r.Wall }
		if !proof.IsOn() {
			o.MaxNotes = storagetest.FewNotes
		}
		return opener(t, by, by.Port, o)
	}, append(except, storagetest.ServerTime)...)
}

// emptyPlace returns the prefix of an empty place for a test: next, unless an earlier test has left
// its tables, which take longer to create than most tests to run.
func emptyPlace(t *testing.T, next string) string {
	mu.Lock()
	defer mu.Unlock()
	if last := len(empty) - 1; last >= 0 {
		next, empty = empty[last], empty[:last]
	}
	t.Cleanup(func() {
		var deletes strings.Builder
		for _, table := range tables {
			fmt.Fprintf(&deletes, "DELETE FROM %s%s; ", next, table.name)
		}
		if execOn(shared.DSN(shared.Port), deletes.String()) == nil { // a test may have opened no store
			mu.Lock()
			defer mu.Unlock()
			empty = append(empty, next)
		}
	})
	return next
}

func BenchmarkClaim(b *testing.B) {
	server := sharedServer(b)
	storagetest.BenchmarkClaim(b, func(b *testing.B) storage.Store {
		return openStore(b, opener(b, server, server.Port, newOptions()))
	}, nil)
}

func TestConformance(t *testing.T) {
	t.Parallel()
	conformance(t, sharedServer(t))
}

// Each new connection uses the present user and password of the DSN.
func TestPasswordIsReadAnew(t *testing.T) {
	config, err := pgconn.ParseConfig("postgres://tally:first@db.example.com/counts")
	if err != nil {
		t.Fatal(err)
	}
	dsn, unreadable := "postgres://other:second@elsewhere.example.com/x", errors.New("no such file")
	current := Options{Config: config, Reread: func() (string, error) { return dsn, unreadable }}.current
	if _, err := current(); !errors.Is(err, unreadable) {
		t.Errorf("without the file: %v", err)
	}
	unreadable = nil
	if c, err := current(); err != nil || c.User != "other" || c.Password != "second" || c.Host != "db.example.com" || c.Database != "counts" {
		t.Errorf("%+v (%v)", c, err)
	}
	dsn = "postgres://%zz:second@"
	if _, err := current(); err == nil || strings.Contains(err.Error(), "second") {
		t.Errorf("a DSN that can't be read: %v", err)
	}
}
