package sqlite

import (
	"modernc.org/libc"
	lib "modernc.org/sqlite/lib"
)

// mainFile is a database file as the system has it, and one that a connection can
// bring to the disk by [syncPragma]. SQLite itself does so only at the end of a
// checkpoint that has copied everything, which is while claims wait: what the
// checkpoints before have written would all be written to the disk then.
//
// It lies in memory of SQLite's.
type mainFile struct {
	methods lib.Tsqlite3_io_methods // comes first: what SQLite knows of the file points here
	system  uintptr                 // the methods of the system's file
}

// syncPragma brings the database file to the disk.
const syncPragma = "caddy_tally_sync"

type fileControl = func(tls *libc.TLS, file uintptr, op int32, arg uintptr) int32

func (m *mainFile) init() {
	m.methods = *m.of()
	m.methods.FxFileControl = pointer[fileControl](mainControl)
}

// of returns the methods of the system's file.
func (m *mainFile) of() *lib.Tsqlite3_io_methods { return at[lib.Tsqlite3_io_methods](m.system) }

// mainControl answers syncPragma. SQLite asks for any PRAGMA here first; the
// second of the strings that arg points to is its name.
func mainControl(tls *libc.TLS, file uintptr, op int32, arg uintptr) int32 {
	m := at[mainFile](at[lib.Tsqlite3_file](file).FpMethods)
	if op == lib.SQLITE_FCNTL_PRAGMA && libc.GoString(at[[2]uintptr](arg)[1]) == syncPragma {
		return function[fileSync](m.of().FxSync)(tls, file, lib.SQLITE_SYNC_NORMAL)
	}
	return function[fileControl](m.of().FxFileControl)(tls, file, op, arg)
}
