//go:build unix

package epoch

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// A pipe in the place of a key is an error, and doesn't block.
func TestPipesAreNotWaitedFor(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tally.epochs")
	f := In(path)
	today := at(t, f, t0, 1)
	pipe := filepath.Join(path, fileName(today.Epoch, 1))
	if err := os.Remove(pipe); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	if pair, err := In(path).At(t0, 1); err == nil {
		t.Errorf("got keys %+v from a pipe", pair)
	}
	if err := f.Sweep(t0.Add(9 * day)); err != nil {
		t.Error(err)
	}
	if left := files(t, path); len(left) > 0 {
		t.Errorf("got files %q", left)
	}
}
