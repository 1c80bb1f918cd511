package dbserver

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
)

// Postgres starts a Postgres server with a database. Settings are added to those that it starts
// with, for example "fsync=on".
func Postgres(settings ...string) (*Server, error) {
	const installed = "/usr/lib/postgresql/*/bin"
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
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	secret := filepath.Join(folder, "password")
	if err := errors.Join(os.WriteFile(secret, []byte(Password), 0o600), giveAway(secret)); err != nil {
		return nil, err
	}
	data := filepath.Join(folder, "data")
	if err := run(folder, initdb, "--no-sync", "-D", data, "-U", User, "-A", "scram-sha-256", "--pwfile", secret, "--locale=C", "-E", "UTF8"); err != nil {
		return nil, err
	}
	args := []string{postgres, "-D", data, "-h", "127.0.0.1", "-p", port, "-k", folder}
	for _, setting := range append([]string{"fsync=off", "shared_buffers=16MB", "max_connections=60"}, settings...) {
		args = append(args, "-c", setting)
	}
	s := &Server{Port: port, folder: folder, args: args, ready: "ready to accept connections",
		dsn: func(_ *Server, port string) string {
			return fmt.Sprintf("postgres://%s:%s@127.0.0.1:%s/postgres?sslmode=disable", User, url.PathEscape(Password), port)
		}}
	return s, s.Start()
}
