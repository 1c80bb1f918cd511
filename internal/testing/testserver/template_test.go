package testserver

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
)

// The first servers on a machine, which the tests of a package start concurrently, copied one
// template each to the same place at the same time, and failed.
func TestFirstServersMayStartAtOnce(t *testing.T) {
	cache := t.TempDir()
	t.Setenv("XDG_CACHE_HOME", cache)
	t.Setenv("HOME", cache)
	var built atomic.Int64
	build := func(data string) error {
		built.Add(1)
		return os.CopyFS(data, os.DirFS("."))
	}
	var group sync.WaitGroup
	for i := range 8 {
		group.Go(func() {
			copied := filepath.Join(cache, fmt.Sprint("copy", i))
			if err := copyOf(copied, build, os.Args[0]); err != nil {
				t.Error(err)
			}
			if files, err := filepath.Glob(filepath.Join(copied, "*.go")); len(files) == 0 {
				t.Errorf("a copy has no files, %v", err)
			}
			if _, err := os.Stat(filepath.Join(copied, "data")); err == nil {
				t.Error("a copy has another in it")
			}
		})
	}
	group.Wait()
	if n := built.Load(); n != 1 {
		t.Errorf("%d templates were built, want 1", n)
	}
}

// Several processes may build a template. The first one wins, and the others leave nothing behind.
func TestTemplateOfAnotherProcessIsUsed(t *testing.T) {
	cache := t.TempDir()
	template := filepath.Join(cache, "template")
	write := func(data, text string) error {
		if err := os.MkdirAll(data, 0o700); err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(data, "by"), []byte(text), 0o600)
	}
	err := buildTemplate(template, func(data string) error {
		if err := write(template, "another"); err != nil {
			return err
		}
		return write(data, "this")
	})
	if err != nil {
		t.Fatal(err)
	}
	if by, err := os.ReadFile(filepath.Join(template, "by")); string(by) != "another" {
		t.Errorf("the template is by %q, %v", by, err)
	}
	if left, _ := filepath.Glob(filepath.Join(cache, "*")); len(left) != 1 {
		t.Errorf("there are %v", left)
	}
}
