package postgres

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/testing/child"
	"github.com/caddy-tally/caddy-tally/internal/testing/testserver"
	"github.com/caddy-tally/caddy-tally/limiter/region"
	"github.com/caddy-tally/caddy-tally/storage/exchange"
	"github.com/caddy-tally/caddy-tally/storage/exchange/exchangetest"
)

// pg is the server of all tests.
var pg struct {
	start  sync.Once
	server *testserver.Server
	err    error
}

func TestMain(m *testing.M) {
	code := m.Run()
	if pg.server != nil {
		pg.server.Close()
	}
	if errors.Is(pg.err, testserver.ErrMissing) {
		fmt.Fprintln(os.Stderr, "exchange/postgres: tests were skipped, because no Postgres server is installed")
	}
	os.Exit(code)
}

// dsnOf returns the DSN of a new database.
func dsnOf(t *testing.T, database string) string {
	t.Helper()
	pg.start.Do(func() { pg.server, pg.err = testserver.Postgres() })
	if errors.Is(pg.err, testserver.ErrMissing) {
		t.Skip("no Postgres server is installed: ", pg.err)
	}
	if pg.err != nil {
		t.Fatal(pg.err)
	}
	admin := pg.server.DSN(pg.server.Port)
	run(t, admin, "CREATE DATABASE "+database)
	return strings.Replace(admin, "/postgres?", "/"+database+"?", 1)
}

// run runs a statement.
func run(t *testing.T, dsn, statement string) {
	t.Helper()
	db := connect(t, dsn)
	if _, err := db.conn.Exec(context.Background(), statement); err != nil {
		t.Fatal(err)
	}
}

// connect connects without checking the tables.
func connect(t *testing.T, dsn string) *database {
	t.Helper()
	s, err := parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	db, err := s.connect(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

func open(t *testing.T, dsn string) (exchange.Exchange, error) {
	t.Helper()
	s, err := parse(dsn)
	if err != nil {
		return nil, err
	}
	db, err := s.open(t.Context())
	if err == nil {
		t.Cleanup(func() { db.Close() })
	}
	return db, err
}

func TestExchange(t *testing.T) {
	defer func(n int) { sweepRows = n }(sweepRows)
	sweepRows = 30
	dsn := dsnOf(t, "conformance")
	exchangetest.Test(t, func(t *testing.T) exchange.Exchange {
		db, err := open(t, dsn)
		if err != nil {
			t.Fatal(err)
		}
		return db
	})
}

// Of several concurrent openers of an empty database, one creates the tables.
func TestOpenedAtOnce(t *testing.T) {
	dsn := dsnOf(t, "at_once")
	var wait sync.WaitGroup
	ids := make([]int64, 8)
	for i := range ids {
		wait.Go(func() {
			db, err := open(t, dsn)
			if err != nil {
				t.Error(err)
				return
			}
			met, err := db.Meet(context.Background(), exchange.Member{Component: region.Component{Region: "eu", Machine: int64(i)}})
			if ids[i] = met.ID; err != nil {
				t.Error(err)
			}
		})
	}
	wait.Wait()
	for _, id := range ids {
		if id != ids[0] || id == 0 {
			t.Errorf("the exchange has the numbers %d", ids)
		}
	}
}

func TestTablesOfAnotherVersion(t *testing.T) {
	dsn := dsnOf(t, "newer")
	if _, err := open(t, dsn); err != nil {
		t.Fatal(err)
	}
	run(t, dsn, "UPDATE tally_exchange_meta SET version = 9")
	if _, err := open(t, dsn); !errors.Is(err, exchange.ErrForeign) || !strings.Contains(err.Error(), "version 9") {
		t.Errorf("tables of version 9: %v", err)
	}
}

// Tables of an older version are replaced, once, by all who open them.
func TestTablesOfAnOlderVersion(t *testing.T) {
	dsn := dsnOf(t, "older")
	db, err := open(t, dsn)
	if err != nil {
		t.Fatal(err)
	}
	before, err := db.Meet(t.Context(), exchange.Member{Component: region.Component{Region: "eu"}})
	if err != nil {
		t.Fatal(err)
	}
	run(t, dsn, "UPDATE tally_exchange_meta SET version = 1; ALTER TABLE tally_exchange_bans DROP COLUMN lifted")
	for range 2 {
		db, err := open(t, dsn)
		if err != nil {
			t.Fatal(err)
		}
		met, err := db.Meet(t.Context(), exchange.Member{Component: region.Component{Region: "eu", Machine: rand.Int64()}})
		if err != nil || met.ID == before.ID {
			t.Fatalf("it meets %+v, %v, where it met %+v before", met, err, before)
		}
		if err := db.Publish(t.Context(), nil, []exchange.Ban{{Region: "eu", Lifted: met.Now, Keep: met.Now}}); err != nil {
			t.Error(err)
		}
	}
	db, _ = open(t, dsn)
	if news, err := db.Collect(t.Context(), region.Component{}, 0, 10); err != nil || len(news.Bans) != 1 {
		t.Errorf("the second opening has replaced them again: %+v, %v", news, err)
	}
}

// A user without the right to create tables uses existing ones.
func TestAUserWithoutRights(t *testing.T) {
	dsn := dsnOf(t, "rights")
	run(t, dsn, "CREATE ROLE clerk LOGIN PASSWORD 'clerk'; REVOKE CREATE ON SCHEMA public FROM PUBLIC")
	clerk := strings.Replace(dsn, testserver.User+":"+testserver.Password, "clerk:clerk", 1)
	if _, err := open(t, clerk); err == nil || !strings.Contains(err.Error(), "permission denied") {
		t.Errorf("without tables: %v", err)
	}
	if _, err := open(t, dsn); err != nil {
		t.Fatal(err)
	}
	run(t, dsn, "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO clerk; GRANT SELECT, USAGE ON ALL SEQUENCES IN SCHEMA public TO clerk")
	db, err := open(t, clerk)
	if err != nil {
		t.Fatal(err)
	}
	row := exchange.Row{Limit: 1, Group: 2, Component: region.Component{Region: "eu"}, Units: 3, Expires: 4}
	if err := db.Publish(t.Context(), []exchange.Row{row}, nil); err != nil {
		t.Error(err)
	}
}

// No error shows a password.
func TestErrorsKeepPasswords(t *testing.T) {
	dsn := dsnOf(t, "secrets")
	nobody, err := child.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	for name, dsn := range map[string]string{
		"wrong password":  strings.Replace(dsn, testserver.Password, "s3cret", 1),
		"nobody there":    "postgres://tally:s3cret@127.0.0.1:" + nobody + "/x",
		"no such host":    "postgres://tally:s3cret@nowhere.invalid/x",
		"can't be parsed": "postgres://tally:s3cret:@@host:port/x",
		"an unescaped /":  "postgres://tally:s3/cret@host/x",
	} {
		_, err := open(t, dsn)
		if err == nil || strings.Contains(err.Error(), "s3") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A call whose context ends returns, even while another session holds the lock.
func TestCallsEndInTime(t *testing.T) {
	dsn := dsnOf(t, "in_time")
	db, err := open(t, dsn)
	if err != nil {
		t.Fatal(err)
	}
	other := connect(t, dsn)
	if _, err := other.conn.Exec(t.Context(), fmt.Sprintf("BEGIN; SELECT pg_advisory_xact_lock(%d)", int64(lock))); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	row := exchange.Row{Limit: 1, Component: region.Component{Region: "eu"}, Units: 3, Expires: 4}
	if err := db.Publish(ctx, []exchange.Row{row}, nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a call that waits for a lock returns %v", err)
	}
}
