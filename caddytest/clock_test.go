package caddytest

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"
	_ "unsafe" // for the link name

	"github.com/caddy-tally/caddy-tally/internal/engine"
	"github.com/caddy-tally/caddy-tally/storage"
)

// defaultClock is that of all engines of this process.
//
//go:linkname defaultClock github.com/caddy-tally/caddy-tally/internal/engine.defaultClock
var defaultClock func() engine.Clock

// shiftClocks shifts the clocks of a process that is a Caddy by the content of the file that $CLOCK
// names, if any.
func shiftClocks() {
	file, real := os.Getenv("CLOCK"), defaultClock
	if file != "" {
		defaultClock = func() engine.Clock { return shiftedClock{real(), file} }
	}
}

// shiftedClock is a clock that is shifted by the content of a file: by how much the wall clock is
// wrong, and how much time has passed that really has not.
type shiftedClock struct {
	engine.Clock
	file string
}

func (c shiftedClock) shift() (wrong, gone int64) {
	text, _ := os.ReadFile(c.file)
	fmt.Sscan(string(text), &wrong, &gone)
	return wrong, gone
}

// Elapsed implements [engine.Clock].
func (c shiftedClock) Elapsed() int64 {
	_, gone := c.shift()
	return c.Clock.Elapsed() + gone
}

// Read implements [engine.Clock].
func (c shiftedClock) Read() (r storage.Reading, elapsed int64) {
	wrong, gone := c.shift()
	r, elapsed = c.Clock.Read()
	r.Wall += wrong + gone
	r.Steady += gone
	return r, elapsed + gone
}

// shifted is a server whose clock a test may shift.
type shifted struct {
	*server
	wrong, gone time.Duration
	poked       int
}

// newShifted prepares a server with the right time.
func newShifted(t *testing.T, config string) *shifted {
	t.Helper()
	return shift(newServer(t, config))
}

// shift has a server that wasn't started yet use a clock that a test may shift.
func shift(server *server) *shifted {
	server.t.Helper()
	if os.Getenv("CADDYTEST_BINARY") != "" {
		server.t.Skip("only the Caddy of the tests has a clock that can be shifted")
	}
	s := &shifted{server: server}
	s.env = append(s.env, "CLOCK="+s.clock())
	s.setClock()
	return s
}

// beside prepares another server with the same clock and the same database.
func (s *shifted) beside() *server {
	s.t.Helper()
	text, err := os.ReadFile(s.config)
	if err != nil {
		s.t.Fatal(err)
	}
	return newServer(s.t, string(text), "XDG_DATA_HOME="+s.data(), "CLOCK="+s.clock())
}

func (s *shifted) clock() string { return filepath.Join(s.dir, "clock") }

// step sets the wall clock by so much.
func (s *shifted) step(by time.Duration) {
	s.wrong += by
	s.setClock()
}

// pass has time pass, without waiting for it.
func (s *shifted) pass(d time.Duration) {
	s.gone += d
	s.setClock()
}

// setClock writes both at once: nobody reads half of it. It returns when the engine
// will look at the clock the next time that it is asked, which it does once a
// millisecond.
func (s *shifted) setClock() {
	s.t.Helper()
	text := fmt.Appendln(nil, s.wrong.Nanoseconds(), s.gone.Nanoseconds())
	if err := os.WriteFile(s.clock()+".new", text, 0o644); err != nil {
		s.t.Fatal(err)
	}
	if err := os.Rename(s.clock()+".new", s.clock()); err != nil {
		s.t.Fatal(err)
	}
	time.Sleep(2 * time.Millisecond)
}
