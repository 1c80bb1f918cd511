package vfs

import (
	"time"

	"modernc.org/libc"
	lib "modernc.org/sqlite/lib"
)

// mainFile is a database file as the system has it, and one that a connection can
// bring to the disk by [SyncPragma]. SQLite itself does so only at the end of a
// checkpoint that has copied everything, which is while claims wait: what the
// checkpoints before have written would all be written to the disk then.
//
// It lies in memory of SQLite's.
type mainFile struct {
	methods lib.Tsqlite3_io_methods // comes first: SQLite's pointer to the file points here
	system  uintptr                 // the methods of the system's file
	written int32                   // pages since the last rest
}

// A checkpoint takes tens of milliseconds of a processor. Go interrupts a goroutine only every 10 ms, so
// requests would wait for it. One of a patient connection rests after work of less than 200 µs, for about as
// long as that takes.
const (
	restAfter = 32 // written pages
	restFor   = 300 * time.Microsecond
)

// SyncPragma is the PRAGMA that syncs the database file to the disk. It returns
// one row, the text 1, or the error of the sync. Without this file system SQLite ignores
// it, and returns no row.
const SyncPragma = "caddy_tally_sync"

type fileControl = func(tls *libc.TLS, file uintptr, op int32, arg uintptr) int32

func (m *mainFile) init() {
	m.methods = *m.of()
	m.methods.FxFileControl = pointer[fileControl](mainControl)
}

// of returns the methods of the system's file.
func (m *mainFile) of() *lib.Tsqlite3_io_methods { return at[lib.Tsqlite3_io_methods](m.system) }

// writePatiently writes as the system does, and rests if it is time.
func writePatiently(tls *libc.TLS, file, data uintptr, n int32, offset int64) int32 {
	m := at[mainFile](at[lib.Tsqlite3_file](file).FpMethods)
	if m.written++; m.written >= restAfter {
		m.written = 0
		time.Sleep(restFor)
	}
	return function[fileWrite](m.of().FxWrite)(tls, file, data, n, offset)
}

// mainControl answers SyncPragma. SQLite asks for any PRAGMA here first
// (https://www.sqlite.org/c3ref/c_fcntl_begin_atomic_write.html#sqlitefcntlpragma);
// the second of the strings that arg points to is its name.
func mainControl(tls *libc.TLS, file uintptr, op int32, arg uintptr) int32 {
	m := at[mainFile](at[lib.Tsqlite3_file](file).FpMethods)
	if op == lib.SQLITE_FCNTL_PRAGMA && libc.GoString(at[[2]uintptr](arg)[1]) == SyncPragma {
		if rc := function[fileSync](m.of().FxSync)(tls, file, lib.SQLITE_SYNC_NORMAL); rc != lib.SQLITE_OK {
			return rc
		}
		return answer(tls, arg, '1')
	}
	return function[fileControl](m.of().FxFileControl)(tls, file, op, arg)
}

// answer makes a text of one character the result of a PRAGMA: the first of the
// strings that arg points to, which SQLite frees.
func answer(tls *libc.TLS, arg uintptr, c byte) int32 {
	text := lib.Xsqlite3_malloc(tls, 2)
	if text == 0 {
		return lib.SQLITE_NOMEM
	}
	*at[[2]byte](text) = [2]byte{c, 0}
	at[[2]uintptr](arg)[0] = text
	return lib.SQLITE_OK
}
