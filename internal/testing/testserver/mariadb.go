package testserver

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/caddy-tally/caddy-tally/internal/testing/child"
)

// MariaDB starts a MariaDB server with a database. It has no DSN.
func MariaDB() (*Server, error) {
	mariadbd, err := find("mariadbd", "/usr/sbin")
	if err != nil {
		return nil, err
	}
	install, err := find("mariadb-install-db", "/usr/bin")
	if err != nil {
		return nil, err
	}
	folder, err := newFolder("mariadb")
	if err != nil {
		return nil, err
	}
	port, err := child.FreePort()
	if err != nil {
		return nil, err
	}
	data, start := filepath.Join(folder, "data"), filepath.Join(folder, "start.sql")
	initial := []string{"--no-defaults", "--skip-test-db", "--skip-name-resolve", "--auth-root-authentication-method=normal"}
	err = copyOf(data, func(data string) error {
		return run(filepath.Dir(data), install, append(initial, "--datadir="+data)...)
	}, mariadbd, initial...)
	if err != nil {
		return nil, err
	}
	sql := fmt.Sprintf("CREATE DATABASE IF NOT EXISTS tally;\nCREATE USER IF NOT EXISTS %s@'127.0.0.1' IDENTIFIED BY '%s';\nGRANT ALL ON *.* TO %[1]s@'127.0.0.1' WITH GRANT OPTION;\n", User, Password)
	if err := errors.Join(os.WriteFile(start, []byte(sql), 0o600), giveAway(start)); err != nil {
		return nil, err
	}
	args := []string{mariadbd, "--no-defaults", "--datadir=" + data, "--port=" + port, "--bind-address=127.0.0.1",
		"--socket=" + filepath.Join(folder, "s"), "--pid-file=" + filepath.Join(folder, "pid"), "--init-file=" + start,
		"--skip-name-resolve", "--innodb-buffer-pool-size=32M", "--innodb-log-file-size=16M", "--innodb-flush-log-at-trx-commit=0",
		"--innodb-flush-method=nosync", "--innodb-fast-shutdown=2"}
	s := &Server{Port: port, Folder: folder, args: args, ready: "ready for connections"}
	return s, s.Start()
}
