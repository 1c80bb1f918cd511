//go:build unix

package accesslog

import (
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
)

// A named pipe is opened once, and read concurrently with files.
func TestPipe(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Skip(err)
	}
	log, written := zipped(t, lineAt(1, 0)+lineAt(3, 0)), make(chan error, 1)
	go func() { written <- os.WriteFile(pipe, log, 0o600) }()
	got, counts := read(t, nil, writeLog(t, []byte(lineAt(0, 0)+lineAt(2, 0))), pipe)
	if err := <-written; err != nil || !slices.Equal(got, []string{"/0", "/1", "/2", "/3"}) || counts.Bad != 0 {
		t.Errorf("got %v, %+v, %v", got, counts, err)
	}
}
