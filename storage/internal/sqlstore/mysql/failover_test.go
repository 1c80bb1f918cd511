package mysql

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/caddy-tally/caddy-tally/internal/testing/proof"
	"github.com/caddy-tally/caddy-tally/internal/testing/testserver"
	"github.com/caddy-tally/caddy-tally/storage/internal/sqlstore"
	"github.com/caddy-tally/caddy-tally/storage/internal/sqlstore/sqltest"
)

// A replica that lags takes over. Clients find it where the primary was, as by a virtual address.
func TestFailover(t *testing.T) {
	proof.Only(t)
	t.Parallel()
	if testing.Short() {
		t.Skip("skipped: it takes some ten seconds")
	}
	primary, replica := kind.Own(t, "--log-bin=binlog", "--server-id=1"), kind.Own(t, "--server-id=2")
	proxy, err := testserver.NewProxy(primary.Address())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(proxy.Close)
	ask := func(server *testserver.Server, statements string) []sqlstore.Rows {
		t.Helper()
		c, err := connectTo(server.DSN(server.Port))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		rows, err := c.Run(context.Background(), []byte(statements))
		if err != nil {
			t.Fatalf("%s: %v", statements, err)
		}
		return rows
	}
	ask(replica, fmt.Sprintf("CHANGE MASTER TO master_host = '127.0.0.1', master_port = %s, master_user = '%s', master_password = '%s', master_use_gtid = slave_pos; START SLAVE",
		primary.Port, testserver.User, testserver.Password))
	pair := sqltest.Pair{
		Primary: primary, Replica: replica, DSN: primary.DSN(proxy.Port),
		Stop: func(t *testing.T) {
			written := string(ask(primary, "SELECT @@gtid_binlog_pos")[0][0][0])
			if done := ask(replica, "SELECT MASTER_GTID_WAIT('"+written+"', 20)")[0]; string(done[0][0]) != "0" {
				t.Fatalf("the replica doesn't follow: %s", done)
			}
			ask(replica, "STOP SLAVE")
		},
		TakeOver: func(*testing.T) { proxy.SetServer(replica.Address()) },
		GoBack:   func(*testing.T) { proxy.SetServer(primary.Address()) },
	}
	kind.Failover(t, pair)
	ask(primary, "SET GLOBAL binlog_format = STATEMENT")
	open := kind.Place(t, primary, primary.Port, kind.Options())
	if _, err := open(context.Background()); err == nil || !strings.Contains(err.Error(), "set the server's binlog_format") {
		t.Errorf("with a log of statements open says %v", err)
	}
}
