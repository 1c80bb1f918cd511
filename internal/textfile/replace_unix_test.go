//go:build unix

package textfile

import (
	"bufio"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

var (
	oneText   = strings.Repeat("one.example.com\n", 90)
	otherText = strings.Repeat("other.example.com\n", 120)
)

// The child of a test replaces a file again and again, or once with no room for more.
func init() {
	path, room := os.Getenv("TEXTFILE_REPLACE"), uint64(len(oneText))
	switch {
	case path == "":
		return
	case os.Getenv("TEXTFILE_FULL") != "":
		signal.Ignore(syscall.SIGXFSZ)
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: room, Max: room}); err != nil {
			panic(err)
		}
		fmt.Println(Replace(path, []byte(oneText), []byte(otherText)))
		os.Exit(0)
	default:
		for {
			found, _ := os.ReadFile(path)
			next := oneText
			if string(found) == next {
				next = otherText
			}
			if err := Replace(path, found, []byte(next)); err != nil {
				panic(err)
			}
			fmt.Println("replaced")
		}
	}
}

// replacing is a child that replaces a file.
func replacing(t *testing.T, path string, environment ...string) (*exec.Cmd, *bufio.Reader) {
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(append(os.Environ(), "TEXTFILE_REPLACE="+path), environment...)
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	return cmd, bufio.NewReader(out)
}

// fileOf returns a file with a text and a mode, and with another name if it shall have one.
func fileOf(t *testing.T, linked bool) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "Caddyfile")
	err := os.WriteFile(path, []byte(oneText), 0o640)
	if err == nil && linked {
		err = os.Link(path, path+"-link")
	}
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func textOf(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// A replaced file has its mode, and all its names have the new text.
func TestReplaceKeepsTheFile(t *testing.T) {
	for _, linked := range []bool{false, true} {
		path := fileOf(t, linked)
		for _, next := range []string{otherText, oneText} {
			if err := Replace(path, []byte(textOf(t, path)), []byte(next)); err != nil {
				t.Fatal(err)
			}
			if info, err := os.Stat(path); err != nil || info.Mode() != fs.FileMode(0o640) || textOf(t, path) != next {
				t.Errorf("linked %v: mode %v, error %v", linked, info.Mode(), err)
			}
			if linked && textOf(t, path+"-link") != next {
				t.Error("the other name has the old text")
			}
		}
		if err := Replace(path, []byte("changed"), nil); err == nil || textOf(t, path) != oneText {
			t.Errorf("a file that has changed: %v", err)
		}
		if files, _ := filepath.Glob(filepath.Join(filepath.Dir(path), ".*")); len(files) > 0 {
			t.Errorf("left are %v", files)
		}
	}
}

// Whenever a process is killed, the file has the old text or the new one, perhaps with empty lines.
func TestReplaceSurvivesKill(t *testing.T) {
	for _, linked := range []bool{false, true} {
		path := fileOf(t, linked)
		for range 8 {
			cmd, out := replacing(t, path)
			for range 1 + rand.IntN(20) {
				if _, err := out.ReadString('\n'); err != nil {
					t.Fatal(err)
				}
			}
			cmd.Process.Kill()
			cmd.Wait()
			if text := strings.TrimRight(textOf(t, path), "\n") + "\n"; text != oneText && text != otherText {
				t.Fatalf("linked %v: the file is %q", linked, text)
			}
		}
	}
}

// A full disk leaves the old text.
func TestReplaceOnAFullDisk(t *testing.T) {
	for _, linked := range []bool{false, true} {
		path := fileOf(t, linked)
		cmd, out := replacing(t, path, "TEXTFILE_FULL=1")
		said, _ := out.ReadString('\n')
		if err := cmd.Wait(); err != nil || !strings.Contains(said, "file too large") {
			t.Errorf("linked %v: %v, %s", linked, err, said)
		}
		if got := textOf(t, path); got != oneText {
			t.Errorf("linked %v: the file is %q", linked, got)
		}
	}
}
