package store

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/caddy-tally/caddy-tally/internal/testing/proof"
	"github.com/caddy-tally/caddy-tally/internal/testing/testserver"
)

// A pooler gives each transaction another connection.
func TestPgBouncer(t *testing.T) {
	t.Parallel()
	server := sharedServer(t)
	bouncer, err := testserver.PgBouncer(server)
	orSkip(t, bouncer, err)
	defer bouncer.Close()
	conformance(t, bouncer, pooled()...)
}

// pooled returns the tests of the suite that work through a pooler.
func pooled() []string {
	parts := []string{"Model", "HugeValues", "SweepExpired", "SweepWhileClaiming", "RenamedKeys", "Probe", "NewsMissed", "ResetsKept"}
	if !proof.IsOn() {
		parts = append(parts, "NotesFull", "History", "TwoHandles", "ClaimFor", "FutureRows", "SweepLongWindows", "SweepStandings",
			"KeysAndLimitsApart", "SweepFuture", "SweepForeignLimits", "SweepCounted", "NamesThatMeet", "Renamed", "BanUnderTwoNames", "BadStandings",
			"OneTime", "ResetTerm", "ResetAgain", "ResetBad", "ResetClient", "NotesReplayed", "NotesBad", "PeriodsEnd", "Heaviest", "HistoryBad", "BadCalls")
	}
	return parts
}

// Errors contain a remedy, and no password.
func TestErrorsOfTheServer(t *testing.T) {
	server := sharedServer(t)
	exec := func(statements string) {
		t.Helper()
		if err := execOn(server.DSN(server.Port), statements); err != nil {
			t.Fatal(err)
		}
	}
	made := newOptions()
	s, err := opener(t, server, server.Port, made)(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	exec("CREATE ROLE stranger LOGIN PASSWORD 'geheim'; CREATE ROLE reader LOGIN PASSWORD 'geheim'; ALTER ROLE reader SET default_transaction_read_only = on")
	exec("GRANT CREATE ON SCHEMA public TO reader")
	as := func(user, password string) string {
		return strings.NewReplacer(testserver.User+":", user+":", testserver.Password, password).Replace(server.DSN(server.Port))
	}
	for what, c := range map[string]struct {
		dsn, prefix, says string
	}{
		"a wrong password":    {as("stranger", "geheim2"), "x_", "correct the password"},
		"no right to make":    {as("stranger", "geheim"), "x_", "GRANT USAGE, CREATE ON SCHEMA"},
		"no right to write":   {as("stranger", "geheim"), made.Prefix, "GRANT SELECT, INSERT, UPDATE, DELETE"},
		"a read-only session": {as("reader", "geheim"), "x_", "the server is read-only"},
		"no database":         {strings.Replace(server.DSN(server.Port), "/postgres?", "/nowhere?", 1), "x_", "make the database"},
		"no schema":           {server.DSN(server.Port), "nowhere.x_", "make the schema"},
	} {
		o := newOptions()
		o.Prefix = c.prefix
		s, err := placeOn(t, c.dsn, o).Open(context.Background())
		if err == nil {
			_ = s.Close()
		}
		if err == nil || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "geheim") || strings.Contains(err.Error(), testserver.Password) {
			t.Errorf("%s: open says %v, want %q in it", what, err, c.says)
		}
	}
}

const endSessions = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND usename = current_user"

// The rows of a batch are found by their key, even in a table of a few thousand rows, which the
// server would rather scan.
func TestRowsAreFoundByTheirKey(t *testing.T) {
	server := sharedServer(t)
	c, err := pgconn.Connect(context.Background(), server.DSN(server.Port))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background())
	var names []string
	for i := range 64 {
		names = append(names, fmt.Sprintf(`E'\\x%048d'`, i))
	}
	const rows = "CREATE TEMPORARY TABLE cells (name BYTEA PRIMARY KEY, state BYTEA NOT NULL, expires BIGINT NOT NULL) WITH (fillfactor = 60);" +
		"INSERT INTO cells SELECT decode(md5(i::text), 'hex'), decode('01020304', 'hex'), 5 FROM generate_series(1, 10000) i;"
	results, err := c.Exec(context.Background(), rows+string(NewPlace(Options{Timeout: 2 * time.Second}).begin().sql)+
		"EXPLAIN SELECT name, state, expires FROM cells WHERE name IN ("+strings.Join(names, ", ")+") ORDER BY name FOR UPDATE").ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	var plan strings.Builder
	for _, row := range results[len(results)-1].Rows {
		fmt.Fprintln(&plan, string(row[0]))
	}
	if !strings.Contains(plan.String(), "cells_pkey") || strings.Contains(plan.String(), "Seq Scan") {
		t.Errorf("the plan is\n%s", plan.String())
	}
}

func TestRoleIsRestricted(t *testing.T) {
	role := func(setting, value, says string) restriction {
		return restriction{Do: "ALTER ROLE app SET " + setting + " = " + value, Undo: "ALTER ROLE app RESET " + setting, Says: says}
	}
	restricted(t, "CREATE ROLE app LOGIN PASSWORD '"+testserver.Password+"'; GRANT CREATE ON SCHEMA public TO app",
		"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'app'", []restriction{
			role("default_transaction_read_only", "on", "the server is read-only"),
			role("statement_timeout", "1", ""),
			role("idle_in_transaction_session_timeout", "1", ""),
			role("lock_timeout", "1", ""),
			role("synchronous_commit", "on", ""),
			role("default_transaction_isolation", "'serializable'", ""),
			{Do: "ALTER ROLE app NOLOGIN", Undo: "ALTER ROLE app LOGIN", Says: "not permitted to log in"},
			{Do: "REVOKE UPDATE ON PLACEcells FROM app", Undo: "GRANT UPDATE ON PLACEcells TO app", Says: "GRANT SELECT, INSERT, UPDATE, DELETE"},
			{Do: "REVOKE UPDATE ON PLACEmachines FROM app", Undo: "GRANT UPDATE ON PLACEmachines TO app", Says: "GRANT SELECT, INSERT, UPDATE, DELETE"},
			{Do: "REVOKE SELECT ON PLACEmeta FROM app", Undo: "GRANT SELECT ON PLACEmeta TO app", Says: "GRANT SELECT, INSERT, UPDATE, DELETE"},
		})
}
