package vfs

import "golang.org/x/sys/unix"

// touch sets the time of the last change of a file to now. Like all changes it waits while the file system is frozen.
// An error means nothing: SQLite finds what is wrong with the file. It opens no descriptor, because closing that would
// end SQLite's locks on the file.
func touch(path string) {
	times := []unix.Timespec{{Nsec: unix.UTIME_OMIT}, {Nsec: unix.UTIME_NOW}}
	_ = unix.UtimesNanoAt(unix.AT_FDCWD, path, times, unix.AT_SYMLINK_NOFOLLOW)
}
