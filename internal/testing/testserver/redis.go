package testserver

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/testing/child"
)

// RedisServer is a server with the Redis protocol.
type RedisServer struct {
	*Server
	// Bus is the port that nodes of a cluster use among themselves.
	Bus string
}

// RedisNames are the programs that [Redis] looks for. It uses the first one found.
var RedisNames = []string{"redis-server", "valkey-server"}

// FindRedis returns the path of the program. It skips the test if there is none.
func FindRedis(t testing.TB) string {
	t.Helper()
	for _, name := range RedisNames {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Skipf("skipped: none of %v is installed (apt-get install redis-server)", RedisNames)
	return ""
}

// Redis starts a server with additional arguments. It ends with the test. It saves nothing unless
// the arguments say so.
func Redis(t testing.TB, args ...string) *RedisServer {
	t.Helper()
	s := CommonRedis(t, args...)
	t.Cleanup(s.Close)
	return s
}

// CommonRedis starts a server that several tests share. The caller closes it.
func CommonRedis(t testing.TB, args ...string) *RedisServer {
	t.Helper()
	s := newRedis(t, "Ready to accept connections")
	s.args = append([]string{
		FindRedis(t), "--port", s.Port, "--bind", "127.0.0.1", "--dir", s.Folder, "--save", "", "--appendonly", "no",
	}, args...)
	if slices.Contains(args, "--cluster-enabled") {
		port, err := child.FreePort()
		if err != nil {
			t.Fatal(err)
		}
		s.Bus = port
		s.args = append(s.args, "--cluster-port", port)
	}
	s.Run(t)
	return s
}

// Sentinel starts a sentinel that decides alone about a primary.
func Sentinel(t testing.TB, name string, primary *RedisServer) *RedisServer {
	t.Helper()
	s := newRedis(t, "+monitor")
	t.Cleanup(s.Close)
	file := filepath.Join(s.Folder, "sentinel.conf") // the sentinel rewrites it
	config := fmt.Sprintf("port %s\nbind 127.0.0.1\ndir %s\nsentinel monitor %[3]s 127.0.0.1 %[4]s 1\n"+
		"sentinel down-after-milliseconds %[3]s 300\nsentinel failover-timeout %[3]s 3000\n", s.Port, s.Folder, name, primary.Port)
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	s.args = []string{FindRedis(t), file, "--sentinel"}
	s.Run(t)
	return s
}

func newRedis(t testing.TB, ready string) *RedisServer {
	t.Helper()
	folder, err := newFolder("redis")
	port, err2 := child.FreePort()
	if err := errors.Join(err, err2); err != nil {
		t.Fatal(err)
	}
	return &RedisServer{Server: &Server{Port: port, Folder: folder, ready: ready, privileged: true}}
}

// Run restarts the server with the data in its folder.
func (s *RedisServer) Run(t testing.TB) {
	t.Helper()
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
}

// Ask sends a command on a new connection and returns the first line of the answer.
func (s *RedisServer) Ask(words ...string) (string, error) {
	line, _, err := s.ask(words)
	return line, err
}

// ask also returns the bulk string of an answer, if it is one.
func (s *RedisServer) ask(words []string) (line, bulk string, err error) {
	conn, err := net.DialTimeout("tcp", s.Address(), 10*time.Second)
	if err != nil {
		return "", "", err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
	fmt.Fprintf(conn, "*%d\r\n", len(words))
	for _, word := range words {
		fmt.Fprintf(conn, "$%d\r\n%s\r\n", len(word), word)
	}
	reader := bufio.NewReader(conn)
	line, err = reader.ReadString('\n')
	line = strings.TrimSpace(line)
	length, found := strings.CutPrefix(line, "$")
	if n, _ := strconv.Atoi(length); err == nil && found && n > 0 {
		text := make([]byte, n)
		_, err = io.ReadFull(reader, text)
		bulk = string(text)
	}
	return line, bulk, err
}

// Must is Ask for a command that the server accepts.
func (s *RedisServer) Must(t testing.TB, words ...string) string {
	t.Helper()
	answer, err := s.Ask(words...)
	if err != nil || strings.HasPrefix(answer, "-") {
		t.Fatalf("%v: %s, %v", words, answer, err)
	}
	return answer
}

// MustInfo returns a section of the server's INFO.
func (s *RedisServer) MustInfo(t testing.TB, section string) string {
	t.Helper()
	line, info, err := s.ask([]string{"INFO", section})
	if err != nil || info == "" {
		t.Fatalf("INFO %s: %s, %v", section, line, err)
	}
	return info
}
