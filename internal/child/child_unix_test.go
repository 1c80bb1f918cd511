//go:build unix

package child

import (
	"bufio"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// A process that a test started, and what that started, ended with neither a SIGKILL nor a SIGINT of
// the test; its folder stayed as well.
func TestChildrenEndWithAProcessThatIsKilled(t *testing.T) {
	if folder := os.Getenv("CHILD_FOLDER"); folder != "" {
		beParent(t, folder)
	}
	for _, signal := range []syscall.Signal{syscall.SIGKILL, syscall.SIGINT} {
		t.Run(signal.String(), func(t *testing.T) {
			folder := filepath.Join(t.TempDir(), "with spaces  and *")
			parent := exec.Command(os.Args[0], "-test.run", "^TestChildrenEndWithAProcessThatIsKilled$")
			parent.Env = append(os.Environ(), "CHILD_FOLDER="+folder)
			out, err := parent.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := parent.Start(); err != nil {
				t.Fatal(err)
			}
			said := bufio.NewReader(out)
			if _, err := said.ReadString('\n'); err != nil {
				t.Fatal(err)
			}
			if err := parent.Process.Signal(signal); err != nil {
				t.Fatal(err)
			}
			_, _ = io.Copy(io.Discard, said) // until all have ended that could write
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

// beParent starts a process that starts another, says so, and waits to be killed.
func beParent(t *testing.T, folder string) {
	ended := exec.Command("true")
	cmd := exec.Command("sh", "-c", "sleep 600 & echo started; wait")
	cmd.Stdout = os.Stdout
	err := errors.Join(os.MkdirAll(folder, 0o700), RemoveFolder(folder), Start(ended), Wait(ended), Start(cmd))
	if err != nil {
		t.Fatal(err)
	}
	_ = Wait(cmd)
}
