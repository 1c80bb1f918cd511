package testserver

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"

	"github.com/caddy-tally/caddy-tally/internal/testing/child"
)

const installed = "/usr/lib/postgresql/*/bin" // of Postgres, in Debian

// Postgres starts a Postgres server with a database. Settings are added to the default ones, for
// example "fsync=on".
func Postgres(settings ...string) (*Server, error) {
	postgres, err := find("postgres", installed)
	if err != nil {
		return nil, err
	}
	initdb, err := find("initdb", installed)
	if err != nil {
		return nil, err
	}
	folder, err := newFolder("postgres")
	if err != nil {
		return nil, err
	}
	port, err := child.FreePort()
	if err != nil {
		return nil, err
	}
	data, args := filepath.Join(folder, "data"), []string{"--no-sync", "-U", User, "-A", "scram-sha-256", "--locale=C", "-E", "UTF8", "--wal-segsize=1"}
	err = copyOf(data, func(data string) error {
		secret := filepath.Join(filepath.Dir(data), "password")
		return errors.Join(os.WriteFile(secret, []byte(Password), 0o600), giveAway(secret),
			run(filepath.Dir(data), initdb, append(args, "-D", data, "--pwfile", secret)...))
	}, initdb, args...)
	if err != nil {
		return nil, err
	}
	return startPostgres(postgres, folder, data, port, settings)
}

func startPostgres(postgres, folder, data, port string, settings []string) (*Server, error) {
	args := []string{postgres, "-D", data, "-h", "127.0.0.1", "-p", port, "-k", folder}
	for _, setting := range append([]string{"fsync=off", "shared_buffers=16MB", "max_connections=60"}, settings...) {
		args = append(args, "-c", setting)
	}
	s := &Server{Port: port, Folder: folder, args: args, ready: "ready to accept", // "connections" or "read-only connections"
		dsn: func(_ *Server, port string) string {
			return fmt.Sprintf("postgres://%s:%s@127.0.0.1:%s/postgres?sslmode=disable", User, url.PathEscape(Password), port)
		}}
	return s, s.Start()
}

// Standby starts a standby of a Postgres server, with a copy of its data that follows the server.
func Standby(primary *Server) (*Server, error) {
	backup, err := find("pg_basebackup", installed)
	if err != nil {
		return nil, err
	}
	folder, err := newFolder("standby")
	if err != nil {
		return nil, err
	}
	port, err := child.FreePort()
	if err != nil {
		return nil, err
	}
	data := filepath.Join(folder, "data")
	if err := run(folder, backup, "-d", primary.DSN(primary.Port), "-D", data, "--write-recovery-conf", "--checkpoint=fast", "--no-sync"); err != nil {
		return nil, err
	}
	return startPostgres(primary.args[0], folder, data, port, nil)
}
