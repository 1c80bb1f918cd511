package postgres

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/jackc/pgx/v5/pgproto3"
)

// A password with any characters is taken literally: no part of it becomes the host, which the
// status shows.
func TestPasswordsOfAnyCharacters(t *testing.T) {
	for _, password := range []string{"pa@evil.example/x#y?z", "a b", "100%", "x{env.HOME}y", "{env.NO_SUCH_THING}"} {
		t.Setenv("TALLY_TEST_PASSWORD", password)
		e := &Exchange{DSN: "postgres://tally:{env.TALLY_TEST_PASSWORD}@db.example.com/counts"}
		if err := e.Provision(caddy.Context{}); err != nil || e.Place() != "db.example.com:5432/counts" || e.server.config.Password != password {
			t.Errorf("%q: %v, at %s", password, err, e.Place())
		}
	}
}

// The driver takes a part of a password with an unescaped @ or slash for the host or the database, which the status
// shows. Such an address is an error that doesn't show it. Several hosts are shown, each once.
func TestPlacesShowNoPasswords(t *testing.T) {
	for _, dsn := range []string{
		"postgres://c:a@Secret@host/x", "postgres://c:a@Secret@host:5432/x?sslmode=disable", "postgres://c:Sec/ret@host/x", "postgres://c:12/Secret@host/x",
		"postgres://a@Secret@host,other/x", "postgres://c:a@h1,b@Secret@h2/x", "postgresql://c:a@Secret@[::1]:5432/x", "host=a@Secret dbname=x",
		"postgres://c:12?Secret@host/x", "postgres://c:Sec ret@host/x", "postgres://c:%zz@host/x",
	} {
		e := &Exchange{DSN: dsn}
		if err := e.Provision(caddy.Context{}); err == nil || strings.Contains(err.Error(), "Secret") || strings.Contains(err.Error(), "Sec") {
			t.Errorf("%s: %v", dsn, err)
		}
	}
	for dsn, place := range map[string]string{
		"postgres://c:a%40Secret@host/x": "host:5432/x", "host=h1,h2 port=5432,5433 dbname=x password='a@b'": "h1:5432,h2:5433/x",
		"postgres://c:p@[::1]:5432/x": "[::1]:5432/x",
	} {
		e := &Exchange{DSN: dsn}
		if err := e.Provision(caddy.Context{}); err != nil || e.Place() != place {
			t.Errorf("%s: %v, at %q", dsn, err, e.Place())
		}
	}
}

// A rotated password is read again for each new connection, and so is used without a reload.
// Placeholders are replaced once: their values aren't searched for others.
func TestPasswordIsReadAgainByEachConnection(t *testing.T) {
	path := filepath.Join(t.TempDir(), "password")
	write := func(password string) {
		if err := os.WriteFile(path, []byte(password), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("first")
	asked, address := passwordsAskedAt(t)
	e := &Exchange{DSN: "postgres://tally:{file." + path + "}@" + address + "/counts?sslmode=disable"}
	if err := e.Provision(caddy.Context{}); err != nil {
		t.Fatal(err)
	}
	identity := e.Identity()
	for _, password := range []string{"first", "second", "{env.HOME}"} {
		write(password)
		_, err := e.Open(t.Context())
		if got := <-asked; got != password {
			t.Errorf("connected with %q, want %q", got, password)
		}
		if err == nil || strings.Contains(err.Error(), password) {
			t.Errorf("the server refuses %q: %v", password, err)
		}
	}
	if e.Identity() != identity {
		t.Error("another password is another exchange")
	}
	write("")
	if _, err := e.Open(t.Context()); err == nil || !strings.Contains(err.Error(), "is empty") {
		t.Errorf("an empty password: %v", err)
	}
}

// passwordsAskedAt starts a server that requests passwords in clear text and refuses all of them.
func passwordsAskedAt(t *testing.T) (asked chan string, address string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	asked = make(chan string, 10)
	go func() {
		for conn, err := listener.Accept(); err == nil; conn, err = listener.Accept() {
			asked <- refusePassword(conn)
		}
	}()
	return asked, listener.Addr().String()
}

// refusePassword requests a client's password, refuses it and returns it.
func refusePassword(conn net.Conn) string {
	defer conn.Close()
	server := pgproto3.NewBackend(conn, conn)
	if _, err := server.ReceiveStartupMessage(); err != nil {
		return err.Error()
	}
	server.Send(&pgproto3.AuthenticationCleartextPassword{})
	if err := errors.Join(server.Flush(), server.SetAuthType(pgproto3.AuthTypeCleartextPassword)); err != nil {
		return err.Error()
	}
	message, err := server.Receive()
	if err != nil {
		return err.Error()
	}
	server.Send(&pgproto3.ErrorResponse{Severity: "FATAL", Code: "28P01", Message: "wrong password"})
	_ = server.Flush()
	return message.(*pgproto3.PasswordMessage).Password
}
