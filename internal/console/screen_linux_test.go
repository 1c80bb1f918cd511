package console

import (
	"context"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gdamore/tcell/v3/vt"
	"github.com/spf13/cobra"

	"github.com/caddy-tally/caddy-tally/internal/operator"
	"github.com/caddy-tally/caddy-tally/internal/testing/sample"
	"github.com/caddy-tally/caddy-tally/internal/testing/terminal"
)

// broken is a service that panics when a client is explained.
type broken struct{ *sample.Service }

func (broken) Explain(context.Context, operator.Question) (operator.Explanation, error) {
	panic("index out of range")
}

// TestMain is `top --watch` of a sample in the processes that tests start in terminals.
func TestMain(m *testing.M) {
	if os.Getenv("CONSOLE_TEST_SCREEN") == "" {
		os.Exit(m.Run())
	}
	s := sample.New(time.Now)
	if os.Getenv("CONSOLE_TEST_SCREEN") == "hostile" {
		for _, text := range hostile {
			s.Add(text)
		}
	}
	c := console{func(*cobra.Command) (operator.Service, error) { return broken{s}, nil }, time.Now, LookOf}
	cmd := c.top()
	cmd.SilenceUsage = true
	cmd.SetArgs([]string{"--watch"})
	cmd.SetOut(os.Stdout)
	if cmd.Execute() != nil {
		os.Exit(1)
	}
}

// child returns the command of a process that shows the screen of a sample.
func child(t *testing.T, env ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append([]string{"CONSOLE_TEST_SCREEN=sample", "TERM=xterm-256color", "HOME=" + t.TempDir(), "GOCOVERDIR=" + t.TempDir()}, env...)
	return cmd
}

// However the screen ends, the terminal is as it was: its modes, its cursor, and what it showed.
func TestTerminalIsAsItWas(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*terminal.Terminal){
		"q":      func(d *terminal.Terminal) { d.Type("q") },
		"Esc":    func(d *terminal.Terminal) { d.Type("\x1b") },
		"Ctrl-C": func(d *terminal.Terminal) { d.Type("\x03") },
		"SIGINT": func(d *terminal.Terminal) { d.Signal(os.Interrupt) }, "SIGTERM": func(d *terminal.Terminal) { d.Signal(syscall.SIGTERM) },
		"SIGHUP":  func(d *terminal.Terminal) { d.Signal(syscall.SIGHUP) },
		"a panic": func(d *terminal.Terminal) { d.Type("\r") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := terminal.Start(t, child(t, "CONSOLE_TEST_SCREEN=hostile"), 90, 30)
			d.Await(t, "? keys   q ends")
			d.Resize(20, 5)
			d.Await(t, "? keys   q ends   by")
			end(d)
			err := d.WantRestored(t)
			written := d.Written()
			_, after, left := strings.Cut(written, "\x1b[?1049l")
			if !left || strings.LastIndex(written, "\x1b[?25h") < strings.LastIndex(written, "\x1b[?25l") {
				t.Errorf("the cursor is hidden, or what was shown before doesn't come back: %q", written)
			}
			if failed := name == "a panic"; failed != (err != nil) || failed != strings.Contains(after, "Error: the screen has failed, please report this: index out of range") || strings.Contains(written, "goroutine ") {
				t.Errorf("it ends with %v, and writes %q", err, after)
			}
		})
	}
}

// NO_COLOR takes the colors away, and only the selected row is reversed. A terminal without UTF-8 gets ASCII.
func TestScreenWithoutColors(t *testing.T) {
	shown := make(map[string]*terminal.Terminal)
	for _, env := range []string{"LC_ALL=C.UTF-8", "LC_ALL=C", "NO_COLOR=1"} {
		shown[env] = terminal.Start(t, child(t, env), 90, 30)
	}
	for env, d := range shown {
		d.AwaitThat(t, "a bar of refusals", regexp.MustCompile(`refused \S+ +[█#]`).MatchString)
		reversed := 0
		for y := range 30 {
			if c := d.GetCell(vt.Coord{Y: vt.Row(y)}); c.S != nil && c.S.Attr()&vt.Reverse != 0 {
				reversed++
			}
		}
		d.Type("?")
		d.Await(t, "select a row")
		d.Type("q")
		if err := d.WantRestored(t); err != nil || reversed != 1 {
			t.Errorf("%s: it ends with %v, and reverses %d rows", env, err, reversed)
		}
		written := d.Written()
		if colored := strings.Contains(written, "\x1b[33m"); colored == (env == "NO_COLOR=1") {
			t.Errorf("%s: colored is %v", env, colored)
		}
		if ascii := strings.IndexFunc(written, func(r rune) bool { return r > 0x7f }) < 0; ascii != (env == "LC_ALL=C") {
			t.Errorf("%s: it writes %q", env, written)
		}
	}
}

// Without a terminal that can show a screen, keys are listed again and again.
func TestWatchingWithoutAScreen(t *testing.T) {
	t.Parallel()
	d := terminal.Start(t, child(t, "TERM=dumb"), 90, 30)
	d.Await(t, "203.0.113.77")
	d.Signal(os.Interrupt)
	if err := d.WantRestored(t); err != nil || strings.Contains(d.Written(), "\x1b") {
		t.Errorf("a dumb terminal gets %q, %v", d.Written(), err)
	}
	cmd := child(t)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line := make([]byte, 4)
	if _, err := io.ReadFull(out, line); err != nil || string(line) != "ZONE" {
		t.Errorf("a pipe gets %q, %v", line, err)
	}
	_ = cmd.Process.Signal(os.Interrupt)
	rest, _ := io.ReadAll(out)
	if err := cmd.Wait(); err != nil || strings.Contains(string(rest), "\x1b") {
		t.Errorf("a pipe gets %q, %v", rest, err)
	}
}
