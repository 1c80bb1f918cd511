package postgres

import (
	"testing"

	"github.com/caddy-tally/caddy-tally/internal/testing/testserver"
	"github.com/caddy-tally/caddy-tally/storage/postgres/internal/sqlstore/sqltest"
)

// A standby that lags is promoted. The DSN names both servers.
func TestFailover(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("skipped: it takes some ten seconds")
	}
	primary := kind.Own(t)
	standby, err := testserver.Standby(primary)
	sqltest.OrSkip(t, standby, err)
	t.Cleanup(standby.Close)
	exec := func(t *testing.T, on *testserver.Server, statement string) {
		t.Helper()
		if err := kind.Exec(on.DSN(on.Port), statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
	kind.Failover(t, sqltest.Pair{
		Primary: primary, Replica: standby,
		DSN: primary.DSN(primary.Port+",127.0.0.1:"+standby.Port) + "&target_session_attrs=read-write",
		Stop: func(t *testing.T) {
			kind.Until(t, primary, "SELECT 1 / COUNT(*) FROM pg_stat_replication WHERE flush_lsn >= pg_current_wal_lsn()")
			exec(t, standby, "ALTER SYSTEM SET primary_conninfo = ''")
			exec(t, standby, "SELECT pg_reload_conf()")
			kind.Until(t, primary, "SELECT 1 / (1 - COUNT(*)) FROM pg_stat_replication")
		},
		TakeOver: func(t *testing.T) { exec(t, standby, "SELECT pg_promote()") },
		GoBack:   func(t *testing.T) { exec(t, standby, endSessions) },
	})
}
