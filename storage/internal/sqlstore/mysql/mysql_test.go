package mysql

import (
	"testing"

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
}

func TestMain(m *testing.M) { kind.Main(m) }

func TestConformance(t *testing.T) { kind.Conformance(t) }
