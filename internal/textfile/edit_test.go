package textfile

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
)

const testSize = 1 << 20

// childDoes is the variable with a child process's action on the file testFile in its working
// folder.
const childDoes, testFile = "TEXTFILE_TEST_DOES", "file"

func TestMain(m *testing.M) {
	switch os.Getenv(childDoes) {
	case "":
		os.Exit(m.Run())
	case "append":
		for i := range 15 {
			if err := appendLine(testFile, fmt.Sprintf("%d %d", os.Getpid(), i)); err != nil {
				fmt.Println(err)
				os.Exit(1)
			}
		}
	case "hang":
		Edit(testFile, testSize, func([]byte) ([]byte, error) {
			fmt.Println("editing")
			select {}
		})
	}
}

// child starts a process that edits the file of a folder.
func child(t *testing.T, folder, does string) (*exec.Cmd, *bufio.Reader) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command(self)
	c.Dir, c.Env = folder, append(os.Environ(), childDoes+"="+does)
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	return c, bufio.NewReader(out)
}

func appendLine(path, line string) error {
	return Edit(path, testSize, func(text []byte) ([]byte, error) {
		return append(text, line+"\n"...), nil
	})
}

func mustRead(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestEditMakesFileAndFolder(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new", "folder", "file")
	for range 2 {
		if err := appendLine(path, "line"); err != nil {
			t.Fatal(err)
		}
	}
	if got := mustRead(t, path); got != "line\nline\n" {
		t.Errorf("the file is %q", got)
	}
	if runtime.GOOS == "windows" {
		return
	}
	for _, made := range []struct {
		path string
		mode os.FileMode
	}{{path, 0o600}, {path + ".lock", 0o600}, {filepath.Dir(path), 0o700}} {
		if info, err := os.Stat(made.path); err != nil || info.Mode().Perm() != made.mode {
			t.Errorf("%s has mode %v, %v, want %v", made.path, info.Mode(), err, made.mode)
		}
	}
}

func TestEditFollowsLink(t *testing.T) {
	folder := t.TempDir()
	link, target := filepath.Join(folder, "link"), filepath.Join(folder, "target")
	if err := os.WriteFile(target, []byte("old\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("target", link); err != nil {
		t.Skip(err) // for example on Windows, without a privilege
	}
	if err := appendLine(link, "new"); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Lstat(link); err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link has become %v, %v", info.Mode(), err)
	}
	if got := mustRead(t, target); got != "old\nnew\n" {
		t.Errorf("the file is %q", got)
	}
}

func TestEditThatFailsChangesNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), testFile)
	if err := appendLine(path, "line"); err != nil {
		t.Fatal(err)
	}
	refused := errors.New("refused")
	if err := Edit(path, testSize, func([]byte) ([]byte, error) { return nil, refused }); !errors.Is(err, refused) {
		t.Errorf("error is %v", err)
	}
	if err := Edit(path, 9, func([]byte) ([]byte, error) { return []byte("0123456789"), nil }); err == nil || !strings.Contains(err.Error(), "would have 10 bytes") {
		t.Errorf("a file that is too long: %v", err)
	}
	if got := mustRead(t, path); got != "line\n" {
		t.Errorf("the file is %q", got)
	}
	before, _ := os.Stat(path)
	if err := Edit(path, testSize, func(text []byte) ([]byte, error) { return text, nil }); err != nil {
		t.Error(err)
	}
	if after, err := os.Stat(path); err != nil || !os.SameFile(before, after) {
		t.Errorf("a file that did not change was replaced: %v", err)
	}
	if _, err := os.Stat(path + ".new"); err == nil {
		t.Error("a file is left behind")
	}
}

func TestProcessesThatEditAtOnceLoseNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), testFile)
	first, _ := child(t, filepath.Dir(path), "append")
	second, _ := child(t, filepath.Dir(path), "append")
	var edits sync.WaitGroup
	for i := range 2 {
		edits.Go(func() {
			for j := range 5 {
				if err := appendLine(path, fmt.Sprintf("%d %d", i, j)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	edits.Wait()
	if err := errors.Join(first.Wait(), second.Wait()); err != nil {
		t.Fatal(err)
	}
	lines := make(map[string]bool)
	for line := range strings.Lines(mustRead(t, path)) {
		lines[line] = true
	}
	if len(lines) != 40 {
		t.Errorf("%d of 40 lines are there", len(lines))
	}
}

func TestEditAfterAnotherWasKilled(t *testing.T) {
	path := filepath.Join(t.TempDir(), testFile)
	if err := appendLine(path, "old"); err != nil {
		t.Fatal(err)
	}
	killed, out := child(t, filepath.Dir(path), "hang")
	if said, err := out.ReadString('\n'); said != "editing\n" {
		t.Fatalf("the child says %q, %v", said, err)
	}
	if _, err := os.Stat(path + ".new"); err != nil {
		t.Errorf("the child is not between making the new file and moving it: %v", err)
	}
	if err := killed.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	killed.Wait()
	if got := mustRead(t, path); got != "old\n" {
		t.Errorf("after the crash the file is %q", got)
	}
	if err := appendLine(path, "new"); err != nil {
		t.Fatal(err)
	}
	if got := mustRead(t, path); got != "old\nnew\n" {
		t.Errorf("the file is %q", got)
	}
	if _, err := os.Stat(path + ".new"); err == nil {
		t.Error("what the crash left behind is still there")
	}
}

// A reader finds a version of the file, never a part of one.
func TestReadersSeeWholeFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), testFile)
	write := func(n int) error {
		return Edit(path, testSize, func([]byte) ([]byte, error) {
			return []byte(strings.Repeat("x", n) + "."), nil
		})
	}
	if err := write(0); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	var readers sync.WaitGroup
	for range 4 {
		readers.Go(func() {
			for {
				text, err := os.ReadFile(path)
				if err != nil || !strings.HasSuffix(string(text), ".") {
					t.Errorf("read %d bytes, %v", len(text), err)
				}
				select {
				case <-done:
					return
				default:
				}
			}
		})
	}
	for i := range 50 {
		if err := write(i * 1000); err != nil {
			t.Error(err)
		}
	}
	close(done)
	readers.Wait()
}
