package mysql

import (
	"context"
	"database/sql/driver"
	"testing"

	driverof "github.com/go-sql-driver/mysql"

	"github.com/caddy-tally/caddy-tally/internal/testing/proof"
	"github.com/caddy-tally/caddy-tally/internal/testing/testserver"
	"github.com/caddy-tally/caddy-tally/storage"
	"github.com/caddy-tally/caddy-tally/storage/internal/sqlstore"
	"github.com/caddy-tally/caddy-tally/storage/internal/sqlstore/sqltest"
)

var kind = sqltest.Kind{
	Start: testserver.MariaDB,
	Opener: func(dsn string, o sqlstore.Options) (storage.Opener, error) {
		o.DSN = dsn
		return Opener(o)
	},
	Exec: func(dsn, statements string) error {
		c, err := connectTo(dsn)
		if err != nil {
			return err
		}
		defer c.Close()
		_, err = c.Run(context.Background(), []byte(statements))
		return err
	},
}

func connectorTo(dsn string) (driver.Connector, error) {
	config, err := driverof.ParseDSN(dsn)
	if err != nil {
		return nil, err
	}
	config.MultiStatements = true
	return driverof.NewConnector(config)
}

func connectTo(dsn string) (sqlstore.Conn, error) {
	connector, err := connectorTo(dsn)
	if err != nil {
		return nil, err
	}
	return connect(context.Background(), connector)
}

func TestMain(m *testing.M) { kind.Main(m) }

func TestConformance(t *testing.T) {
	t.Parallel()
	kind.Conformance(t, kind.Server(t))
}

func TestCuts(t *testing.T) {
	proof.Only(t)
	kind.Cuts(t)
}

func TestAtomic(t *testing.T) {
	t.Parallel()
	kind.Atomic(t)
}

func TestChargesTakeEffectOnce(t *testing.T) {
	t.Parallel()
	kind.Charges(t)
}

func TestCommitAnsweredWithAnError(t *testing.T) {
	proof.Only(t)
	kind.Answered(t, func(dsn string) *sqlstore.Dialect {
		connector, err := connectorTo(dsn)
		if err != nil {
			t.Fatal(err)
		}
		return dialect(connector)
	}, &driverof.MySQLError{Number: 2013, Message: "Lost connection to server during query"},
		&driverof.MySQLError{Number: 9001, Message: "Max connect timeout reached"})
}

func TestLate(t *testing.T) {
	proof.Only(t)
	t.Parallel()
	kind.Late(t)
}

func TestKilled(t *testing.T) {
	proof.Only(t)
	t.Parallel()
	kind.Killed(t)
}

func TestLostWrites(t *testing.T) {
	proof.Only(t)
	kind.Lost(t)
}

func TestStrangers(t *testing.T) {
	proof.Only(t)
	kind.Strangers(t)
}

func TestClockSet(t *testing.T) {
	proof.Only(t)
	kind.ClockSet(t)
}

func TestRoundTrips(t *testing.T) {
	proof.Only(t)
	kind.Trips(t)
}

func BenchmarkClaim(b *testing.B) { kind.Benchmark(b) }

func TestSilentServer(t *testing.T) {
	proof.Only(t)
	kind.Silent(t)
}

func TestUserIsRestricted(t *testing.T) {
	proof.Only(t)
	global := func(variable, value, was, says string) sqltest.Restriction {
		return sqltest.Restriction{Do: "SET GLOBAL " + variable + " = " + value, Undo: "SET GLOBAL " + variable + " = " + was, Says: says}
	}
	grant := "GRANT SELECT, INSERT, UPDATE, DELETE, CREATE ON tally.* TO app@'127.0.0.1'"
	kind.Restricted(t, "CREATE USER app@'127.0.0.1' IDENTIFIED BY '"+testserver.Password+"'; "+grant, endSessions, []sqltest.Restriction{
		global("read_only", "ON", "OFF", "the server is read-only"),
		global("innodb_lock_wait_timeout", "1", "50", ""),
		global("idle_transaction_timeout", "1", "0", ""),
		global("wait_timeout", "1", "28800", ""),
		global("tx_isolation", "'SERIALIZABLE'", "'REPEATABLE-READ'", ""),
		global("sql_mode", "'ANSI,NO_BACKSLASH_ESCAPES,TRADITIONAL'", "DEFAULT", ""),
		global("autocommit", "OFF", "ON", ""),
		{Do: "REVOKE UPDATE ON tally.* FROM app@'127.0.0.1'", Undo: grant, Says: "GRANT SELECT, INSERT, UPDATE, DELETE"},
		{Do: "ALTER USER app@'127.0.0.1' ACCOUNT LOCK", Undo: "ALTER USER app@'127.0.0.1' ACCOUNT UNLOCK", Says: "locked"},
	})
}

// Sessions that are ended in the middle of batches cost no units.
func TestTerminated(t *testing.T) {
	proof.Only(t)
	kind.Terminated(t, endSessions)
}

// endSessions ends all sessions of the store.
const endSessions = `BEGIN NOT ATOMIC
	DECLARE CONTINUE HANDLER FOR 1094 DO 0;
	FOR c IN (SELECT id FROM information_schema.processlist WHERE id <> CONNECTION_ID() AND user IN ('tally', 'app')) DO KILL c.id; END FOR;
END`
