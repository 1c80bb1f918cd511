package vfs

import (
	"errors"
	"fmt"
	"sync"
	"unsafe"

	"modernc.org/libc"
	lib "modernc.org/sqlite/lib"
)

// Name is the name of the file system after [Register], for "vfs" in the URI of a database.
const Name = "caddy-tally"

// Register adds the file system to SQLite's list in this process. Further calls return the result of the first one.
func Register() error { return register() }

var register = sync.OnceValue(func() error {
	tls := libc.NewTLS()
	defer tls.Close()
	system := lib.Xsqlite3_vfs_find(tls, 0)
	if system == 0 {
		return errors.New("SQLite has no file system")
	}
	name, err := libc.CString(Name)
	if err != nil {
		return err
	}
	vfs := lib.Xsqlite3_malloc(tls, int32(unsafe.Sizeof(lib.Tsqlite3_vfs{})))
	if vfs == 0 {
		return errors.New("out of memory")
	}
	v := at[lib.Tsqlite3_vfs](vfs)
	*v = *at[lib.Tsqlite3_vfs](system)
	v.FpNext, v.FzName, v.FpAppData = 0, name, system
	v.FszOsFile = logFileOffset(v.FszOsFile) + int32(unsafe.Sizeof(logFile{}))
	v.FxOpen = pointer(open)
	if rc := lib.Xsqlite3_vfs_register(tls, vfs, 0); rc != lib.SQLITE_OK {
		return fmt.Errorf("SQLite does not take another file system: error %d", rc)
	}
	return nil
})

// open opens a file as the system does. There is room for a logFile or a mainFile after the system's structure.
func open(tls *libc.TLS, vfs, name, file uintptr, flags int32, outFlags uintptr) int32 {
	system := at[lib.Tsqlite3_vfs](vfs).FpAppData
	s := at[lib.Tsqlite3_vfs](system)
	openSystem := function[func(tls *libc.TLS, vfs, name, file uintptr, flags int32, outFlags uintptr) int32](s.FxOpen)
	if rc := openSystem(tls, system, name, file, flags, outFlags); rc != lib.SQLITE_OK {
		return rc
	}
	f := at[lib.Tsqlite3_file](file)
	l := file + uintptr(logFileOffset(s.FszOsFile))
	switch {
	case flags&lib.SQLITE_OPEN_WAL != 0:
		f.FpMethods, at[logFile](l).system = l, f.FpMethods
		return at[logFile](l).init(tls, file)
	case flags&lib.SQLITE_OPEN_MAIN_DB != 0:
		f.FpMethods, at[mainFile](l).system = l, f.FpMethods
		at[mainFile](l).init(name)
	}
	return lib.SQLITE_OK
}

// logFileOffset returns the offset of a logFile after the system's structure, which has a size.
func logFileOffset(size int32) int32 { return (size + 7) &^ 7 }

// at returns a Go pointer for a pointer of SQLite, to memory that Go doesn't manage.
func at[T any](p uintptr) *T { return *(**T)(unsafe.Pointer(&p)) }

// function returns the function of a function pointer of SQLite.
func function[F any](p uintptr) F { return *(*F)(unsafe.Pointer(&p)) }

// pointer returns a function pointer for SQLite. f must be a top-level function, which is never freed.
func pointer[F any](f F) uintptr { return *(*uintptr)(unsafe.Pointer(&f)) }
