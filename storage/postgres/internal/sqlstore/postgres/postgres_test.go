package postgres

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/caddy-tally/caddy-tally/internal/testing/testserver"
	"github.com/caddy-tally/caddy-tally/storage"
	"github.com/caddy-tally/caddy-tally/storage/postgres/internal/sqlstore"
	"github.com/caddy-tally/caddy-tally/storage/postgres/internal/sqlstore/sqltest"
)

var kind = sqltest.Kind{
	Start: testserver.Postgres,
	Opener: func(dsn string, o sqlstore.Options) (storage.Opener, error) {
		o.DSN = dsn
		return Opener(o, false)
	},
	Exec: func(dsn, statements string) error {
		c, err := pgconn.Connect(context.Background(), dsn)
		if err != nil {
			return err
		}
		defer c.Close(context.Background())
		_, err = c.Exec(context.Background(), statements).ReadAll()
		return err
	},
}

func TestMain(m *testing.M) { kind.Main(m) }

func TestConformance(t *testing.T) {
	t.Parallel()
	kind.Conformance(t, kind.Server(t))
}

func TestCuts(t *testing.T) { kind.Cuts(t) }

func TestAtomic(t *testing.T) {
	t.Parallel()
	kind.Atomic(t)
}

func TestChargesTakeEffectOnce(t *testing.T) {
	t.Parallel()
	kind.Charges(t)
}

// A server that is killed loses its last commits.
func TestIDsOutliveAServer(t *testing.T) {
	t.Parallel()
	kind.IDs(t)
}

func TestCommitAnsweredWithAnError(t *testing.T) {
	kind.Answered(t, func(dsn string) *sqlstore.Driver {
		config, err := pgconn.ParseConfig(dsn)
		if err != nil {
			t.Fatal(err)
		}
		return driver(func() (*pgconn.Config, error) { return config, nil }, false)
	}, &pgconn.PgError{Severity: "ERROR", Code: "XX000", Message: "unable to read data from the server"})
}

func TestSideCuts(t *testing.T) { kind.SideCuts(t) }

func TestLate(t *testing.T) {
	t.Parallel()
	kind.Late(t)
}

func TestKilled(t *testing.T) {
	t.Parallel()
	kind.Killed(t)
}

func TestLostWrites(t *testing.T) { kind.Lost(t) }

func TestStrangers(t *testing.T) { kind.Strangers(t) }

func TestClockSet(t *testing.T) { kind.ClockSet(t) }

func TestRoundTrips(t *testing.T) { kind.Trips(t) }

func BenchmarkClaim(b *testing.B) { kind.Benchmark(b) }

// Each new connection uses the present user and password of the DSN.
func TestPasswordIsReadAnew(t *testing.T) {
	config, err := pgconn.ParseConfig("postgres://tally:first@db.example.com/counts")
	if err != nil {
		t.Fatal(err)
	}
	dsn, unreadable := "postgres://other:second@elsewhere.example.com/x", errors.New("no such file")
	current := func() (*pgconn.Config, error) {
		return reread(sqlstore.Options{Reread: func() (string, error) { return dsn, unreadable }}, config)
	}
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
