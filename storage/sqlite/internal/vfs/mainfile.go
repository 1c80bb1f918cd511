package vfs

import (
	"time"

	"modernc.org/libc"
	lib "modernc.org/sqlite/lib"
)

// mainFile is a database file of the system that a connection can also sync with [SyncPragma]. SQLite itself syncs it
// only at the end of a complete checkpoint, while claims wait, when all pages of earlier checkpoints would have to be
// written to the disk.
//
// A mainFile also waits for a disk that hangs where that costs nobody anything. SQLite maps its index (-shm) into
// memory, and stores into it. On a file system that is frozen, such a store waits inside of a page fault, which Go
// can't tell from computing: the garbage collector would wait for it, and with it the whole process. Each of these
// stores follows either a write to the log, which hangs as a system call, or an exclusive lock on a part of the index;
// and after that lock shmLock makes a system call that hangs in the same way. A file system that is being frozen
// refuses page faults milliseconds after it refuses system calls, so what passes here has stored before that, if the
// system runs the thread.
//
// A mainFile is in memory of SQLite.
type mainFile struct {
	methods lib.Tsqlite3_io_methods // comes first: SQLite's pointer to the file points here
	system  uintptr                 // the methods of the system's file
	rests   bool                    // writes rest now and then
	written int32                   // pages since the last rest
	name    uintptr                 // the path, in memory of SQLite for as long as the file is open
}

// A checkpoint takes tens of milliseconds of a processor. Go preempts a goroutine only every 10 ms, so requests would
// wait for it. After [RestPragma], writes to the file rest after less than 200 µs of work, for about as long.
const (
	restAfter = 32 // written pages
	restFor   = 300 * time.Microsecond
)

// RestPragma is the PRAGMA that makes a connection rest now and then while it writes to the database file: the value 1
// switches that on, 0 off. It returns one row, the text 1.
const RestPragma = "caddy_tally_rest"

// SyncPragma is the PRAGMA that syncs the database file to the disk. It returns one row, the text 1, or the error of
// the sync. Without this file system SQLite ignores it, and returns no row.
const SyncPragma = "caddy_tally_sync"

type fileControl = func(tls *libc.TLS, file uintptr, op int32, arg uintptr) int32

func (m *mainFile) init(name uintptr) {
	m.methods = *m.of()
	m.rests, m.written, m.name = false, 0, name
	if m.methods.FiVersion >= 2 && m.methods.FxShmLock != 0 {
		m.methods.FxShmLock = pointer[shmLock](mainShmLock)
	}
	m.methods.FxFileControl = pointer[fileControl](mainControl)
	m.methods.FxWrite = pointer[fileWrite](mainWrite)
}

// of returns the methods of the system's file.
func (m *mainFile) of() *lib.Tsqlite3_io_methods { return at[lib.Tsqlite3_io_methods](m.system) }

// mainWrite writes as the system does, and rests after restAfter pages.
func mainWrite(tls *libc.TLS, file, data uintptr, n int32, offset int64) int32 {
	m := at[mainFile](at[lib.Tsqlite3_file](file).FpMethods)
	if m.written++; m.rests && m.written >= restAfter {
		m.written = 0
		time.Sleep(restFor)
	}
	return function[fileWrite](m.of().FxWrite)(tls, file, data, n, offset)
}

const exclusively = lib.SQLITE_SHM_LOCK | lib.SQLITE_SHM_EXCLUSIVE

type shmLock = func(tls *libc.TLS, file uintptr, offset, n, flags int32) int32

// mainShmLock locks a part of the index as the system does, and then waits until the file system takes changes.
func mainShmLock(tls *libc.TLS, file uintptr, offset, n, flags int32) int32 {
	m := at[mainFile](at[lib.Tsqlite3_file](file).FpMethods)
	rc := function[shmLock](m.of().FxShmLock)(tls, file, offset, n, flags)
	if rc == lib.SQLITE_OK && flags&exclusively == exclusively {
		touch(libc.GoString(m.name) + "-shm")
	}
	return rc
}

// mainControl runs SyncPragma and RestPragma. SQLite first passes each PRAGMA to it
// (https://www.sqlite.org/c3ref/c_fcntl_begin_atomic_write.html#sqlitefcntlpragma): of the strings that arg points to,
// the second is the name and the third the value.
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

// answer sets the result of a PRAGMA to a text of one character, in the first of the strings that arg points to. SQLite
// frees it.
func answer(tls *libc.TLS, arg uintptr, c byte) int32 {
	text := lib.Xsqlite3_malloc(tls, 2)
	if text == 0 {
		return lib.SQLITE_NOMEM
	}
	*at[[2]byte](text) = [2]byte{c, 0}
	at[[2]uintptr](arg)[0] = text
	return lib.SQLITE_OK
}
