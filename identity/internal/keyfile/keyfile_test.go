package keyfile

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
)

func TestFileIsMadeOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new", "folder", "key")
	read := make([]string, 20)
	var wg sync.WaitGroup
	for i := range read {
		wg.Go(func() {
			if err := Make(path, fmt.Append(nil, "key ", i)); err != nil {
				t.Error(err)
			}
			content, err := os.ReadFile(path)
			if err != nil {
				t.Error(err)
			}
			read[i] = string(content)
		})
	}
	wg.Wait()
	for _, content := range read {
		if content == "" || content != read[0] {
			t.Fatalf("two that made the file at once read %q and %q", content, read[0])
		}
	}
	left, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(left) != 1 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestFileIsForItsOwner(t *testing.T) {
	for how, make := range map[string]func(string, []byte) error{"linked": Make, "in place": makeInPlace} {
		path := filepath.Join(t.TempDir(), "key")
		for range 2 {
			if err := make(path, []byte("key")); err != nil {
				t.Fatal(err)
			}
		}
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != 0o600 || info.Size() != 3 {
			t.Errorf("%s: mode %v and %d bytes, want 0600 and 3", how, info.Mode().Perm(), info.Size())
		}
	}
}

// Each try to make a file has a temporary file with another name. Nobody must take its error for a
// new one.
func TestErrorsOfTwoTriesAreTheSame(t *testing.T) {
	const folder = "/proc/self" // nobody can make a file there
	if runtime.GOOS != "linux" {
		t.Skip("needs a folder in which no file can be made")
	}
	path := filepath.Join(folder, "key")
	first, second := Make(path, nil), Make(path, nil)
	if first == nil || first.Error() != second.Error() || !strings.Contains(first.Error(), path+": ") {
		t.Errorf("the errors are %v and %v", first, second)
	}
}
