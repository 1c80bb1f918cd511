package terminal

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Terminal is a pseudo terminal with a process in it, whose output is shown on an emulated one.
type Terminal struct {
	*Emulated

	cmd    *exec.Cmd
	master *os.File
	slave  *os.File
	before *unix.Termios
	ended  chan struct{} // closed when the process has ended, and err is set
	err    error

	mu      sync.Mutex
	written bytes.Buffer
}

// Start starts a process in a terminal of a size. It skips the test on a machine without pseudo terminals. The
// process is killed when the test ends.
func Start(t *testing.T, cmd *exec.Cmd, width, height int) *Terminal {
	t.Helper()
	term := &Terminal{Emulated: New(width, height), cmd: cmd, ended: make(chan struct{})}
	term.open(t, width, height)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = term.slave, term.slave, term.slave
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true, Pdeathsig: syscall.SIGKILL}
	if err := term.Emulated.Start(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go term.show()
	go io.Copy(term.master, term.Emulated) //nolint:errcheck // the terminal has been closed
	go func() {
		term.err = cmd.Wait()
		close(term.ended)
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // an error: it has ended
		<-term.ended
		_ = term.Emulated.Stop() // it never fails
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
		term.before, err = unix.IoctlGetTermios(int(term.slave.Fd()), unix.TCGETS)
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
		term.mu.Lock()
		term.written.Write(chunk[:n])
		term.mu.Unlock()
		if _, failed := term.Emulated.Write(chunk[:n]); err != nil || failed != nil {
			return
		}
	}
}

// Signal sends a signal to the process.
func (term *Terminal) Signal(signal os.Signal) { _ = term.cmd.Process.Signal(signal) } // an error: it has ended

// Resize gives the terminal another size.
func (term *Terminal) Resize(width, height int) {
	term.Emulated.Resize(width, height)
	_ = unix.IoctlSetWinsize(int(term.slave.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Col: uint16(width), Row: uint16(height)}) // an error: it stays as it was
}

// Written returns everything that the process has written.
func (term *Terminal) Written() string {
	term.mu.Lock()
	defer term.mu.Unlock()
	return term.written.String()
}

// WantRestored waits for the end of the process, and requires that the terminal is as it was before. It returns
// what the process ended with.
func (term *Terminal) WantRestored(t *testing.T) error {
	t.Helper()
	select {
	case <-term.ended:
	case <-time.After(patience):
		t.Fatalf("the process goes on; the terminal shows\n%s", term.Text())
	}
	const mark = "<the process has ended>" // comes after all that the process has written
	if _, err := term.slave.WriteString(mark); err != nil {
		t.Fatal(err)
	}
	term.AwaitThat(t, mark, func(string) bool { return strings.Contains(term.Written(), mark) })
	after, err := unix.IoctlGetTermios(int(term.slave.Fd()), unix.TCGETS)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(after, term.before) {
		t.Errorf("the terminal was %+v and is %+v", term.before, after)
	}
	return term.err
}
