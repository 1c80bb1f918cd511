//go:build unix

package caddytest

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/caddy-tally/caddy-tally/internal/testing/testserver"
	"github.com/caddy-tally/caddy-tally/internal/testing/wrongclock"
)

// fleetServer is the server that a fleet of Caddys has its store on, and what can befall it.
type fleetServer struct {
	address string
	store   string // the words of the Caddyfile; {$STORE} is the port to connect to
	faults  []fleetFault
	start   func()
	kill    func()
	setEnv  func(env []string) // for the next start
	clock   *wrongclock.Clock  // of the server's process; nil if that can't be
}

// fleetFault is something that befalls the server, from begin to end.
type fleetFault struct {
	name       string
	save       func() // has the server's data copied before a limit is used up, if anything
	dead       bool   // save wants the server killed
	begin, end func()
	short      bool // it is in the short form
	passing    bool // it is over at once
	loses      bool // what was counted since before
}

// fleetServers start servers by the names of the stores.
var fleetServers = map[string]func(t *testing.T) *fleetServer{
	"redis":    redisOfFleet,
	"postgres": postgresOfFleet,
}

// own starts the server anew with a clock of its own, before anybody uses it.
func (f *fleetServer) own(t *testing.T) *fleetServer {
	if f.clock = wrongclock.New(t); f.clock != nil {
		f.kill()
		f.setEnv(f.clock.Env())
		f.start()
	}
	return f
}

func redisOfFleet(t *testing.T) *fleetServer {
	r := testserver.Redis(t, "--user", "caddy", "on", ">"+redisPassword, "~{tally}:*", "+@all")
	dump := filepath.Join(r.Folder, "dump.rdb")
	must := func(words ...string) func() { return func() { r.Must(t, words...) } }
	start := func() { r.Run(t) }
	f := &fleetServer{
		address: r.Address(), store: "redis redis://caddy:" + redisPassword + "@127.0.0.1:{$STORE}",
		start: start, kill: r.Kill, setEnv: func(env []string) { r.Env = env },
	}
	f.faults = []fleetFault{
		{name: "killed, with its data", begin: func() { r.Must(t, "SAVE"); r.Kill() }, end: start},
		{name: "killed, started empty", short: true, loses: true, begin: func() { r.Kill(); os.Remove(dump) }, end: start},
		{name: "an old copy", loses: true, save: must("SAVE"), begin: r.Kill, end: start},
		{name: "stopped", begin: func() { r.Pause() }, end: func() { r.Resume() }},
		{name: "emptied", short: true, begin: must("FLUSHALL"), end: func() {}, passing: true, loses: true},
		{name: "scripts forgotten", begin: must("SCRIPT", "FLUSH"), end: func() {}, passing: true},
		{name: "memory full", short: true, begin: must("CONFIG", "SET", "maxmemory", "1"), end: must("CONFIG", "SET", "maxmemory", "0")},
		{name: "rights lost", begin: must("ACL", "SETUSER", "caddy", "-@all"), end: must("ACL", "SETUSER", "caddy", "+@all")},
		{name: "password changed", begin: func() {
			r.Must(t, "ACL", "SETUSER", "caddy", "resetpass", ">another")
			r.Must(t, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
		}, end: must("ACL", "SETUSER", "caddy", "resetpass", ">"+redisPassword)},
		{name: "a replica", begin: must("REPLICAOF", "127.0.0.1", "1"), end: must("REPLICAOF", "NO", "ONE")},
	}
	return f
}

// What an administrator of a Postgres says.
const (
	makeUser = "CREATE ROLE caddy LOGIN PASSWORD '" + redisPassword + "'; GRANT USAGE, CREATE ON SCHEMA public TO caddy"
	truncate = `DO $$ DECLARE name text; BEGIN FOR name IN SELECT tablename FROM pg_tables WHERE schemaname = 'public' LOOP
		EXECUTE 'TRUNCATE TABLE ' || quote_ident(name); END LOOP; END $$`
	revoke   = "REVOKE ALL ON ALL TABLES IN SCHEMA public FROM caddy"
	grant    = "GRANT ALL ON ALL TABLES IN SCHEMA public TO caddy"
	readOnly = "ALTER ROLE caddy SET default_transaction_read_only = on; SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'caddy'"
	writing  = "ALTER ROLE caddy RESET default_transaction_read_only; SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'caddy'"
)

func execPostgres(dsn, statements string) error {
	conn, err := pgconn.Connect(context.Background(), dsn)
	if err != nil {
		return err
	}
	defer conn.Close(context.Background())
	return conn.Exec(context.Background(), statements).Close()
}

func postgresOfFleet(t *testing.T) *fleetServer {
	db, err := testserver.Postgres()
	if errors.Is(err, testserver.ErrMissing) {
		t.Skip(err)
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(err)
	t.Cleanup(db.Close)
	exec := func(statements string) func() {
		return func() {
			t.Helper()
			for err := execPostgres(db.DSN(db.Port), statements); err != nil; err = execPostgres(db.DSN(db.Port), statements) {
				if !strings.Contains(err.Error(), "eadlock") { // with a machine's transaction
					t.Fatal(err)
				}
			}
		}
	}
	exec(makeUser)()
	start := func() { must(db.Start()) }
	save := func() { must(db.Save()) }
	restore := func() { must(db.Restore()); start() }
	f := &fleetServer{
		address: db.Address(), store: "postgres postgres://caddy:" + redisPassword + "@127.0.0.1:{$STORE}/postgres?sslmode=disable",
		start: start, kill: db.Kill, setEnv: func(env []string) { db.Env = env },
	}
	f.faults = []fleetFault{
		{name: "killed, with its data", begin: db.Kill, end: start},
		{name: "an old copy", loses: true, save: save, dead: true, begin: db.Kill, end: restore},
		{name: "stopped", begin: db.Pause, end: db.Resume},
		{name: "emptied", loses: true, begin: exec(truncate), end: func() {}, passing: true},
		{name: "rights lost", begin: exec(revoke), end: exec(grant)},
		{name: "read-only", begin: exec(readOnly), end: exec(writing)},
	}
	return f
}
