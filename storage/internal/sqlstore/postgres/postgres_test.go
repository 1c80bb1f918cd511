package postgres

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/dbserver"
	"github.com/caddy-tally/caddy-tally/storage"
	"github.com/caddy-tally/caddy-tally/storage/internal/sqlstore"
	"github.com/caddy-tally/caddy-tally/storage/storagetest"
)

// server is one for all tests of the package. Tests that kill one start their own.
var server struct {
	once sync.Once
	*dbserver.Server
	err error
}

func TestMain(m *testing.M) {
	code := m.Run()
	if server.Server != nil {
		server.Close()
	}
	os.Exit(code)
}

// running returns the server, or skips the test.
func running(t testing.TB) *dbserver.Server {
	t.Helper()
	server.once.Do(func() { server.Server, server.err = dbserver.Postgres() })
	return started(t, server.Server, server.err)
}

func started(t testing.TB, s *dbserver.Server, err error) *dbserver.Server {
	t.Helper()
	if errors.Is(err, dbserver.ErrMissing) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return s
}

var places atomic.Int64

// patience is how long calls may take on a machine that is busy.
const patience = 20 * time.Second

// newPlace returns options for a place of its own on a server.
func newPlace(s *dbserver.Server) Options {
	return Options{DSN: s.DSN(s.Port), Options: sqlstore.Options{Prefix: fmt.Sprintf("place%d_", places.Add(1)), Timeout: patience}}
}

func openerOf(t testing.TB, o Options) storage.Opener {
	t.Helper()
	open, err := Opener(o)
	if err != nil {
		t.Fatal(err)
	}
	return open
}

func TestConformance(t *testing.T) {
	s := running(t)
	storagetest.Run(t, func(t *testing.T) storage.Opener {
		o := newPlace(s)
		o.Clock = func(r storage.Reading) int64 { return r.Wall }
		return openerOf(t, o)
	}, storagetest.ServerTime)
}
