package mysql

import (
	"context"
	"database/sql/driver"
	"testing"

	driverof "github.com/go-sql-driver/mysql"

	"github.com/caddy-tally/caddy-tally/internal/dbserver"
	"github.com/caddy-tally/caddy-tally/storage"
	"github.com/caddy-tally/caddy-tally/storage/internal/sqlstore"
	"github.com/caddy-tally/caddy-tally/storage/internal/sqlstore/sqltest"
)

var kind = sqltest.Kind{
	Start: dbserver.MariaDB,
	Opener: func(dsn string, o sqlstore.Options) (storage.Opener, error) {
		return Opener(Options{DSN: dsn, Options: o})
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

func TestConformance(t *testing.T) { kind.Conformance(t) }

func TestCuts(t *testing.T) { kind.Cuts(t) }

func TestCommitAnsweredWithAnError(t *testing.T) {
	kind.Answered(t, func(dsn string) *sqlstore.Dialect {
		connector, err := connectorTo(dsn)
		if err != nil {
			t.Fatal(err)
		}
		return dialect(connector)
	}, &driverof.MySQLError{Number: 2013, Message: "Lost connection to server during query"},
		&driverof.MySQLError{Number: 9001, Message: "Max connect timeout reached"})
}

func TestLate(t *testing.T) { kind.Late(t) }

func TestKilled(t *testing.T) { kind.Killed(t) }

func TestLostWrites(t *testing.T) { kind.Lost(t) }

func TestStrangers(t *testing.T) { kind.Strangers(t) }

func TestClockSet(t *testing.T) { kind.ClockSet(t) }

func TestRoundTrips(t *testing.T) { kind.Trips(t) }

func BenchmarkClaim(b *testing.B) { kind.Benchmark(b) }

func TestSilentServer(t *testing.T) {
	kind.Silent(t)
}
