//go:build unix

package child

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// A process started by a test, and its children, survived a SIGKILL and a SIGINT of the test; its
// folder stayed as well. A stopped process in a group of its own survived when the others ended.
func TestChildrenEndWithAProcessThatIsKilled(t *testing.T) {
	if os.Getenv("CHILD_APART") != "" {
		beApart(t)
	}
	if folder := os.Getenv("CHILD_FOLDER"); folder != "" {
		beParent(t, folder)
	}
	for _, signal := range []syscall.Signal{syscall.SIGKILL, syscall.SIGINT} {
		t.Run(signal.String(), func(t *testing.T) {
			folder := filepath.Join(t.TempDir(), "with spaces  and *")
			parent := again("CHILD_FOLDER=" + folder)
			out, err := parent.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := parent.Start(); err != nil {
				t.Fatal(err)
			}
			said := bufio.NewReader(out)
			for range 2 { // processes have started
				if _, err := said.ReadString('\n'); err != nil {
					t.Fatal(err)
				}
			}
			if err := parent.Process.Signal(signal); err != nil {
				t.Fatal(err)
			}
			_, _ = io.Copy(io.Discard, said) // until all possible writers have ended
			_ = parent.Wait()                // an error: it was killed
			for deadline := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
				_, err := os.Stat(folder)
				if errors.Is(err, os.ErrNotExist) {
					return
				}
				if time.Now().After(deadline) {
					t.Fatal("the folder is still there")
				}
			}
		})
	}
}

// beParent starts processes that start others, which print a line, and waits to be killed.
func beParent(t *testing.T, folder string) {
	ended := exec.Command("true")
	family, apart := exec.Command("sh", "-c", "sleep 600 & echo started; wait"), again("CHILD_APART=1")
	family.Stdout, apart.Stdout = os.Stdout, os.Stdout
	err := errors.Join(os.MkdirAll(folder, 0o700), RemoveFolder(folder), Start(ended), Wait(ended), Start(family), Start(apart))
	if err != nil {
		t.Fatal(err)
	}
	_ = Wait(family)
}

// beApart starts a process in a group of its own, stops it, and waits to be killed.
func beApart(t *testing.T) {
	stopped := exec.Command("sleep", "600")
	stopped.Stdout, stopped.SysProcAttr = os.Stdout, &syscall.SysProcAttr{Setpgid: true}
	if err := stopped.Start(); err != nil {
		t.Fatal(err)
	}
	if err := stopped.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	fmt.Println("started")
	_ = stopped.Wait()
}

// again returns a process that runs the test with an additional environment variable.
func again(env string) *exec.Cmd {
	cmd := exec.Command(os.Args[0], "-test.run", "^TestChildrenEndWithAProcessThatIsKilled$")
	cmd.Env = append(os.Environ(), env)
	return cmd
}
