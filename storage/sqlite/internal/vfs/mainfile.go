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
	rests   bool                    // writes rest
	written int32                   // pages since the last rest
}

// A checkpoint takes tens of milliseconds of a processor. Go interrupts a goroutine only every 10 ms, so
// requests would wait for it. After [RestPragma], writes to the file rest after work of less than 200 µs, for
// about as long as that takes.
const (
	restAfter = 32 // written pages
	restFor   = 300 * time.Microsecond
)

// RestPragma is the PRAGMA that makes a connection rest while it writes to the database file, if its value is 1,
// or not, if it is 0. It returns one row, the text 1.
const RestPragma = "caddy_tally_rest"

// SyncPragma is the PRAGMA that syncs the database file to the disk. It returns
// one row, the text 1, or the error of the sync. Without this file system SQLite ignores
// it, and returns no row.
const SyncPragma = "caddy_tally_sync"

type fileControl = func(tls *libc.TLS, file uintptr, op int32, arg uintptr) int32

func (m *mainFile) init() {
	m.methods = *m.of()
	m.rests, m.written = false, 0
	m.methods.FxFileControl = pointer[fileControl](mainControl)
	m.methods.FxWrite = pointer[fileWrite](mainWrite)
}

// of returns the methods of the system's file.
func (m *mainFile) of() *lib.Tsqlite3_io_methods { return at[lib.Tsqlite3_io_methods](m.system) }

// mainWrite writes as the system does, and rests if it is time.
func mainWrite(tls *libc.TLS, file, data uintptr, n int32, offset int64) int32 {
	m := at[mainFile](at[lib.Tsqlite3_file](file).FpMethods)
	if m.written++; m.rests && m.written >= restAfter {
		m.written = 0
		time.Sleep(restFor)
	}
	return function[fileWrite](m.of().FxWrite)(tls, file, data, n, offset)
}

// mainControl answers SyncPragma and RestPragma. SQLite asks for any PRAGMA here first
// (https://www.sqlite.org/c3ref/c_fcntl_begin_atomic_write.html#sqlitefcntlpragma);
// the second of the strings that arg points to is its name, the third its value.
func mainControl(tls *libc.TLS, file uintptr, op int32, arg uintptr) int32 {
	m := at[mainFile](at[lib.Tsqlite3_file](file).FpMethods)
	pragma := ""
	if op == lib.SQLITE_FCNTL_PRAGMA {
		pragma = libc.GoString(at[[3]uintptr](arg)[1])
	}
	switch pragma {
	case RestPragma:
		m.rests = libc.GoString(at[[3]uintptr](arg)[2]) == "1"
		return answer(tls, arg, '1')
	case SyncPragma:
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
