package mysql

import (
	"context"
	"database/sql/driver"
	"testing"

	driverof "github.com/go-sql-driver/mysql"

	"github.com/caddy-tally/caddy-tally/internal/testing/proof"
	"github.com/caddy-tally/caddy-tally/storage/internal/sqlstore"
)

// idle is a connection that the server ends before the next call, as MySQL 8 does: the server sends
// an error, and the driver closes its side because it had sent nothing.
type idle struct {
	driver.Conn
	ends *bool
}

func (i idle) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	if *i.ends {
		*i.ends = false
		_ = i.Close()
		return nil, &driverof.MySQLError{Number: 4031, Message: "The client was disconnected by the server because of inactivity."}
	}
	return i.Conn.(driver.QueryerContext).QueryContext(ctx, query, args)
}

func (i idle) IsValid() bool { return i.Conn.(driver.Validator).IsValid() }

// idling makes connections that the server ends.
type idling struct {
	driver.Connector
	ends *bool
}

func (i idling) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := i.Connector.Connect(ctx)
	return idle{conn, i.ends}, err
}

// A connection that the server has ended for idleness is replaced, and no call fails.
func TestIdleConnections(t *testing.T) {
	proof.Only(t)
	server, ends := kind.Server(t), false
	connector, err := connectorTo(server.DSN(server.Port))
	if err != nil {
		t.Fatal(err)
	}
	place, err := sqlstore.NewPlace(dialect(idling{connector, &ends}), kind.Options())
	if err != nil {
		t.Fatal(err)
	}
	s, err := place.Open(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for range 3 {
		if _, err := s.Stats(context.Background()); err != nil {
			t.Error(err)
		}
		ends = true
	}
}
