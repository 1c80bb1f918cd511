package testserver

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/caddy-tally/caddy-tally/internal/testing/child"
)

// PgBouncer starts a pooler before a Postgres server. It runs each transaction on any of two
// connections.
func PgBouncer(postgres *Server) (*Server, error) {
	bouncer, err := find("pgbouncer", "/usr/sbin")
	if err != nil {
		return nil, err
	}
	folder, err := newFolder("pgbouncer")
	if err != nil {
		return nil, err
	}
	port, err := child.FreePort()
	if err != nil {
		return nil, err
	}
	config, users := filepath.Join(folder, "pgbouncer.ini"), filepath.Join(folder, "users")
	ini := fmt.Sprintf("[databases]\npostgres = host=127.0.0.1 port=%s\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = %s\n"+
		"unix_socket_dir =\nauth_type = scram-sha-256\nauth_file = %s\npool_mode = transaction\ndefault_pool_size = 2\n", postgres.Port, port, users)
	for path, text := range map[string]string{config: ini, users: fmt.Sprintf("%q %q\n", User, Password)} {
		if err := errors.Join(os.WriteFile(path, []byte(text), 0o600), giveAway(path)); err != nil {
			return nil, err
		}
	}
	s := &Server{Port: port, Folder: folder, args: []string{bouncer, config}, ready: "process up", dsn: postgres.dsn}
	return s, s.Start()
}
