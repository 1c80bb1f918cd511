//go:build unix

package apikeys

import (
	"io/fs"
	"os"
	"syscall"
)

// keepOwner gives a file to the owner of another, so that a command run by root
// doesn't leave Caddy a file that it can't read.
func keepOwner(f *os.File, like fs.FileInfo) error {
	is, err := f.Stat()
	if err != nil {
		return err
	}
	now, ok := is.Sys().(*syscall.Stat_t)
	want, known := like.Sys().(*syscall.Stat_t)
	if !ok || !known || now.Uid == want.Uid && now.Gid == want.Gid {
		return nil
	}
	return f.Chown(int(want.Uid), int(want.Gid))
}
