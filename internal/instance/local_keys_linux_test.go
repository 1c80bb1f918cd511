package instance

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/caddy-tally/caddy-tally/internal/testing/proof"
)

// rotatingJob is the variable that makes the test binary a process that begins at a place, and ends. Its
// arguments are the place and the lines of its secret.
const rotatingJob = "INSTANCE_TEST_ROTATING"

func TestMain(m *testing.M) {
	if os.Getenv(rotatingJob) == "" {
		os.Exit(m.Run())
	}
	inst, err := place(os.Args[1]).open(os.Args[2:]...)
	if err == nil {
		err = inst.Destruct()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// A process is killed before each of its calls of the system on the file of the key, in each step of a
// rotation, between the rename and the fsync of the folder too. The next process has the same key, and nothing
// to tell of: a crash has lost nothing.
func TestKeyOfNamesSurvivesKills(t *testing.T) {
	if _, err := exec.LookPath("strace"); err != nil {
		t.Skip("strace is not installed (apt-get install strace)")
	}
	every := 3 // of the calls, unless this goes deeper
	if proof.IsOn() {
		every = 1
	}
	killed := 0
	for step, lines := range [][]string{{"a"}, {"a", "b"}, {"b", "a"}, {"b"}} {
		for call := 1 + step%every; ; call += every {
			p := place(t.TempDir())
			var key []byte
			if step > 0 {
				former := [][]string{{"a"}, {"a", "b"}, {"b", "a"}}[step-1]
				for _, lines := range [][]string{{"a"}, former} {
					inst := p.begin(t, lines...)
					key = keyIn(inst)
					end(t, inst)
				}
			}
			isKilled := killedAt(t, p, call, lines)
			inst := p.begin(t, lines...)
			if d := inst.describe(); d.Degraded || d.Names != nil || key != nil && !bytes.Equal(keyIn(inst), key) {
				t.Errorf("step %v, killed at call %d: health is %+v, %+v; the same key: %t", lines, call, d, d.Names, bytes.Equal(keyIn(inst), key))
			}
			end(t, inst)
			if !isKilled {
				break
			}
			killed++
		}
	}
	if killed < 2 { // of 5 to 10: strace counts the calls of each thread apart
		t.Errorf("%d processes were killed: the calls to be killed at are not those of the program", killed)
	}
}

// killedAt runs a process that is killed before its n-th call on the file of the key. It reports whether there
// was such a call.
func killedAt(t *testing.T, p place, n int, lines []string) bool {
	t.Helper()
	calls := "openat,write,fchmod,fsync,rename,renameat,unlink,unlinkat"
	cmd := exec.Command("strace", append([]string{"-f", "-qq", "-o", "/dev/null", "-P", p.names(), "-P", p.names() + ".new", "-P", string(p),
		"-e", "trace=" + calls, "-e", fmt.Sprintf("inject=%s:signal=KILL:when=%d", calls, n), os.Args[0], string(p)}, lines...)...)
	cmd.Env = append(os.Environ(), rotatingJob+"=1")
	var said strings.Builder
	cmd.Stderr = &said
	err := cmd.Run()
	exit, ok := errors.AsType[*exec.ExitError](err)
	switch {
	case err == nil:
		return false
	case strings.Contains(said.String(), "not permitted"):
		t.Skip("strace may not be used:", said.String())
	case !ok || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL:
		t.Fatalf("%v: %s", err, said.String())
	}
	return true
}
