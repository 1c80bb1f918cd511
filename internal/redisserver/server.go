// Package redisserver starts servers that speak the protocol of Redis, for tests.
package redisserver

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/child"
)

// Server is a server of a test's own: with a port, a folder and no other clients.
type Server struct {
	Address string
	Folder  string
	// Bus is the port by which nodes of a cluster speak to each other.
	Bus string
	// Env is more of the environment, from the next Run on.
	Env []string

	args    []string
	mu      sync.Mutex
	process *exec.Cmd // guarded by mu; nil while it is stopped
}

// Names are the programs that are looked for, the first of which is used.
var Names = []string{"redis-server", "valkey-server"}

// Find returns the program, or skips the test if there is none.
func Find(t testing.TB) string {
	t.Helper()
	for _, name := range Names {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Skipf("skipped: none of %v is installed (apt-get install redis-server)", Names)
	return ""
}

// Start starts a server with more arguments, and stops it when the test ends. It saves nothing
// unless they say so.
func Start(t testing.TB, args ...string) *Server {
	t.Helper()
	s := StartCommon(t, args...)
	t.Cleanup(func() {
		s.Kill()
		_ = os.RemoveAll(s.Folder)
	})
	return s
}

// StartCommon starts a server that goes on when the test ends, for others. Whoever calls it calls
// Kill and removes the folder.
func StartCommon(t testing.TB, args ...string) *Server {
	t.Helper()
	folder, err := os.MkdirTemp("", "tally-server-")
	if err != nil {
		t.Fatal(err)
	}
	if err := child.RemoveFolder(folder); err != nil {
		t.Fatal(err)
	}
	s := &Server{Address: freeAddress(t), Folder: folder, args: args}
	if slices.Contains(args, "--cluster-enabled") {
		_, s.Bus, _ = net.SplitHostPort(freeAddress(t))
		s.args = append(s.args, "--cluster-port", s.Bus)
	}
	s.Run(t)
	return s
}

func freeAddress(t testing.TB) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}

// Run starts the server again, with what is in its folder.
func (s *Server) Run(t testing.TB) {
	t.Helper()
	program := Find(t)
	cmd := exec.Command(program, s.arguments(t)...)
	cmd.Env = append(os.Environ(), s.Env...)
	if err := child.Start(cmd); err != nil {
		t.Fatal(err)
	}
	s.mu.Lock()
	s.process = cmd
	s.mu.Unlock()
	for end := time.Now().Add(20 * time.Second); ; {
		answer, err := s.Ask("PING")
		if err == nil && !strings.HasPrefix(answer, "-LOADING") {
			return
		}
		if time.Now().After(end) {
			log, _ := os.ReadFile(filepath.Join(s.Folder, "log"))
			t.Fatalf("the server doesn't answer: %v\n%s", err, log)
		}
		<-time.After(5 * time.Millisecond)
	}
}

// arguments returns what the program is called with. A sentinel wants a file that it can write to.
func (s *Server) arguments(t testing.TB) []string {
	_, port, _ := net.SplitHostPort(s.Address)
	log := filepath.Join(s.Folder, "log")
	if len(s.args) == 0 || s.args[0] != sentinel {
		return append([]string{
			"--port", port, "--bind", "127.0.0.1", "--dir", s.Folder, "--save", "", "--appendonly", "no",
			"--logfile", log, "--daemonize", "no",
		}, s.args...)
	}
	file := filepath.Join(s.Folder, "sentinel.conf")
	lines := append([]string{"port " + port, "bind 127.0.0.1", "dir " + s.Folder, "logfile " + log}, s.args[1:]...)
	if err := os.WriteFile(file, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return []string{file, sentinel}
}

const sentinel = "--sentinel"

// StartSentinel starts a sentinel that alone decides about a primary, which it calls by a name.
func StartSentinel(t testing.TB, name string, primary *Server) *Server {
	t.Helper()
	host, port, _ := net.SplitHostPort(primary.Address)
	return Start(t, sentinel,
		fmt.Sprintf("sentinel monitor %s %s %s 1", name, host, port),
		fmt.Sprintf("sentinel down-after-milliseconds %s 300", name),
		fmt.Sprintf("sentinel failover-timeout %s 3000", name))
}

// Kill ends the server at once, as `kill -9` does.
func (s *Server) Kill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.process != nil {
		_ = s.process.Process.Kill()
		_ = child.Wait(s.process)
		s.process = nil
	}
}

// Ask sends a command on a connection of its own, and returns the first line of the answer.
func (s *Server) Ask(words ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", s.Address)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
	fmt.Fprintf(conn, "*%d\r\n", len(words))
	for _, word := range words {
		fmt.Fprintf(conn, "$%d\r\n%s\r\n", len(word), word)
	}
	line, err := bufio.NewReader(conn).ReadString('\n')
	return strings.TrimSpace(line), err
}

// Must is Ask for a command that the server must not refuse.
func (s *Server) Must(t testing.TB, words ...string) string {
	t.Helper()
	answer, err := s.Ask(words...)
	if err != nil || strings.HasPrefix(answer, "-") {
		t.Fatalf("%v: %s, %v", words, answer, err)
	}
	return answer
}
