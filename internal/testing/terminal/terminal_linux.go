// Package terminal has pseudo terminals with processes in them, for tests.
package terminal

import (
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// patience is how long a text may take to appear.
const patience = time.Minute

// Terminal is a pseudo terminal with a process in it. It shows lines, as a terminal of type dumb.
type Terminal struct {
	master, slave *os.File
	wrote         chan struct{} // has a value after a write

	mu     sync.Mutex
	lines  [][]byte // guarded by mu: the last one is the cursor's
	column int      // guarded by mu: of the cursor
}

// Start starts a process in a terminal of a size. It skips the test on a machine without pseudo terminals. The
// process is killed when the test ends.
func Start(t *testing.T, cmd *exec.Cmd, width, height int) *Terminal {
	t.Helper()
	term := &Terminal{wrote: make(chan struct{}, 1), lines: make([][]byte, 1)}
	term.open(t, width, height)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = term.slave, term.slave, term.slave
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go term.show()
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // an error: it has ended
		_ = cmd.Wait()         // it was killed
		term.master.Close()
		term.slave.Close()
	})
	return term
}

// open opens both ends.
func (term *Terminal) open(t *testing.T, width, height int) {
	t.Helper()
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		t.Skipf("this machine has no pseudo terminals: %v", err)
	}
	term.master = os.NewFile(uintptr(fd), "/dev/ptmx")
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		term.slave, err = os.OpenFile("/dev/pts/"+strconv.Itoa(number), os.O_RDWR|unix.O_NOCTTY, 0)
	}
	if err == nil {
		err = unix.IoctlSetWinsize(int(term.slave.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Col: uint16(width), Row: uint16(height)})
	}
	if err != nil {
		t.Fatal(err)
	}
}

// show shows what the process writes.
func (term *Terminal) show() {
	chunk := make([]byte, 4096)
	for {
		n, err := term.master.Read(chunk)
		if err != nil {
			return
		}
		term.mu.Lock()
		for _, b := range chunk[:n] {
			term.showLocked(b)
		}
		term.mu.Unlock()
		select {
		case term.wrote <- struct{}{}:
		default:
		}
	}
}

// showLocked shows a character, or moves the cursor. It ignores other control characters.
func (term *Terminal) showLocked(b byte) {
	last := &term.lines[len(term.lines)-1]
	switch {
	case b == '\n':
		term.lines, term.column = append(term.lines, nil), 0
	case b == '\r':
		term.column = 0
	case b == '\b':
		term.column = max(term.column-1, 0)
	case b >= ' ':
		*last = append((*last)[:term.column], append([]byte{b}, (*last)[min(term.column+1, len(*last)):]...)...)
		term.column++
	}
}

// Type presses keys of the keyboard.
func (term *Terminal) Type(keys string) { _, _ = term.master.WriteString(keys) } // an error: nothing is shown

// Text returns all lines, without spaces at their ends.
func (term *Terminal) Text() string {
	term.mu.Lock()
	defer term.mu.Unlock()
	var b strings.Builder
	for _, line := range term.lines {
		b.WriteString(strings.TrimRight(string(line), " ") + "\n")
	}
	return b.String()
}

// Await waits until the terminal shows a text.
func (term *Terminal) Await(t *testing.T, text string) {
	t.Helper()
	for late := time.After(patience); !strings.Contains(term.Text(), text); {
		select {
		case <-term.wrote:
		case <-late:
			t.Fatalf("the terminal shows\n%s\nwant %q", term.Text(), text)
		}
	}
}
