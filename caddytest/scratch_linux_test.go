package caddytest

import (
	"os"
	"syscall"

	"github.com/caddy-tally/caddy-tally/internal/testing/proof"
)

// A folder in memory takes a seventh off the time of all tests, which make and remove ten thousand files.
func init() {
	const memory, room, noExec = "/dev/shm", 2 << 30, 8
	var fs syscall.Statfs_t
	if os.Getenv("TMPDIR") == "" && !proof.IsOn() && syscall.Statfs(memory, &fs) == nil &&
		uint64(fs.Bsize)*fs.Bavail >= room && fs.Flags&noExec == 0 {
		scratchParent = memory
	}
}
