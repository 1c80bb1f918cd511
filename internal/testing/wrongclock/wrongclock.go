// Package wrongclock shifts the time of day of one process that a test starts, and of its children,
// with a library that is loaded before others (LD_PRELOAD). It doesn't affect programs that call
// the kernel directly, such as Go programs.
package wrongclock

import (
	_ "embed"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

//go:embed preload.c.txt
var source string

// Missing tells which packages New needs.
const Missing = "gcc is not installed (apt-get install gcc libc6-dev)"

// Clock is a clock that may be wrong.
type Clock struct{ library, shift string }

// New builds the library. It returns nil without a C compiler: see [Missing]. The clock is correct
// at first.
func New(t testing.TB) *Clock {
	t.Helper()
	compiler, err := exec.LookPath("gcc")
	if err != nil {
		return nil
	}
	folder, err := os.MkdirTemp("", "wrongclock-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(folder) })
	c := &Clock{library: filepath.Join(folder, "clock.so"), shift: filepath.Join(folder, "shift")}
	code := filepath.Join(folder, "clock.c")
	err = errors.Join(
		os.Chmod(folder, 0o755), // servers run as other users
		os.WriteFile(code, []byte(source), 0o600),
		os.WriteFile(c.shift, make([]byte, 8), 0o644))
	if err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(compiler, "-shared", "-fPIC", "-O1", "-o", c.library, code).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return c
}

// Env returns the environment of a process with this clock.
func (c *Clock) Env() []string {
	return []string{"LD_PRELOAD=" + c.library, "WRONGCLOCK=" + c.shift}
}

// Set shifts the clock, including that of running processes.
func (c *Clock) Set(by time.Duration) error {
	file, err := os.OpenFile(c.shift, os.O_WRONLY, 0)
	if err != nil {
		return fmt.Errorf("set a clock: %w", err)
	}
	_, err = file.WriteAt(binary.NativeEndian.AppendUint64(nil, uint64(by)), 0)
	return errors.Join(err, file.Close())
}
