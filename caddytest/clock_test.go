package caddytest

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// shiftedBinary builds a Caddy, once, whose clocks are shifted by what the file
// says that $CLOCK names: by how much the wall clock is wrong, and how much time
// has passed that really has not. Nothing else of it differs: the build replaces
// a few lines of the engine's clock.
var shiftedBinary = sync.OnceValues(func() (string, error) {
	const file = "../limiter/engine/clock_system.go"
	original, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	const read = "return now.UnixNano(), int64(now.Sub(c.start))"
	const elapsed = "return int64(time.Since(c.start))"
	const steady = "r.Steady = bootTime()"
	for _, line := range []string{read, elapsed, steady, "import (\n"} {
		if strings.Count(string(original), line) != 1 {
			return "", fmt.Errorf("%s has changed: there is no %q", file, line)
		}
	}
	changed := strings.NewReplacer(
		read, "wrong, gone := shifted(); return now.UnixNano() + wrong + gone, int64(now.Sub(c.start)) + gone",
		elapsed, "_, elapsed := c.at(); return elapsed",
		steady, "_, gone := shifted(); r.Steady = bootTime() + gone",
		"import (\n", "import (\n\t\"fmt\"\n\t\"os\"\n").Replace(string(original))
	return buildWith(file, changed+`
func shifted() (wrong, gone int64) {
	text, _ := os.ReadFile(os.Getenv("CLOCK"))
	fmt.Sscan(string(text), &wrong, &gone)
	return wrong, gone
}
`)
})

// buildWith builds Caddy with other content in one of its files.
func buildWith(file, content string) (string, error) {
	file, err := filepath.Abs(file)
	if err != nil {
		return "", err
	}
	replacement, overlay := filepath.Join(scratch, "replacement.go"), filepath.Join(scratch, "overlay.json")
	replaced, err := json.Marshal(map[string]any{"Replace": map[string]string{file: replacement}})
	if err != nil {
		return "", err
	}
	for name, data := range map[string][]byte{replacement: []byte(content), overlay: replaced} {
		if err := os.WriteFile(name, data, 0o600); err != nil {
			return "", err
		}
	}
	binary := filepath.Join(scratch, "caddy-shifted.exe")
	out, err := exec.Command("go", "build", "-ldflags", "-s -w", "-overlay", overlay, "-o", binary, "../cmd/caddy").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return binary, nil
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
	binary, err := shiftedBinary()
	if err != nil {
		server.t.Fatal(err)
	}
	s := &shifted{server: server}
	s.binary = binary
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
	other := newServer(s.t, string(text), "XDG_DATA_HOME="+s.data(), "CLOCK="+s.clock())
	other.binary = s.binary
	return other
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
