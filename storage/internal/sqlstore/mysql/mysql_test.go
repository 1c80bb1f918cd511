package mysql

import (
	"context"
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
		config, err := driverof.ParseDSN(dsn)
		if err != nil {
			return err
		}
		config.MultiStatements = true
		connector, err := driverof.NewConnector(config)
		if err != nil {
			return err
		}
		c, err := connect(context.Background(), connector)
		if err != nil {
			return err
		}
		defer c.Close()
		_, err = c.Run(context.Background(), []byte(statements))
		return err
	},
}

func TestMain(m *testing.M) { kind.Main(m) }

func TestConformance(t *testing.T) { kind.Conformance(t) }

func TestCuts(t *testing.T) { kind.Cuts(t) }

func TestLate(t *testing.T) { kind.Late(t) }

func TestKilled(t *testing.T) { kind.Killed(t) }

func TestLostWrites(t *testing.T) { kind.Lost(t) }

func TestStrangers(t *testing.T) { kind.Strangers(t) }

func TestClockSet(t *testing.T) { kind.ClockSet(t) }

func TestRoundTrips(t *testing.T) { kind.Trips(t) }

func BenchmarkClaim(b *testing.B) { kind.Benchmark(b) }
