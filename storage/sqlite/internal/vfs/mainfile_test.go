package vfs

import (
	"context"
	"database/sql/driver"
	"fmt"
	"path/filepath"
	"reflect"
	"testing"
	"unsafe"

	"modernc.org/libc"
	"modernc.org/sqlite"
	lib "modernc.org/sqlite/lib"
)

// synced counts how often the system's file of a test was synced, which fails,
// and asked counts what a mainFile doesn't know.
var synced, asked int

func countSync(*libc.TLS, uintptr, int32) int32 {
	synced++
	return lib.SQLITE_IOERR_FSYNC
}

func countControl(*libc.TLS, uintptr, int32, uintptr) int32 {
	asked++
	return lib.SQLITE_NOTFOUND
}

// The pragma syncs the file and reports whether that failed. Others are the
// system's to answer.
func TestMainFileSyncs(t *testing.T) {
	tls := libc.NewTLS()
	defer tls.Close()
	methods := lib.Xsqlite3_malloc(tls, int32(unsafe.Sizeof(lib.Tsqlite3_io_methods{})))
	defer lib.Xsqlite3_free(tls, methods)
	*at[lib.Tsqlite3_io_methods](methods) = lib.Tsqlite3_io_methods{
		FxSync:        pointer[fileSync](countSync),
		FxFileControl: pointer[fileControl](countControl),
	}
	file := lib.Xsqlite3_malloc(tls, 8+int32(unsafe.Sizeof(mainFile{})))
	defer lib.Xsqlite3_free(tls, file)
	at[lib.Tsqlite3_file](file).FpMethods = file + 8
	at[mainFile](file + 8).system = methods
	at[mainFile](file + 8).init(0)

	synced, asked = 0, 0
	for _, c := range []struct {
		op            int32
		name          string
		want          int32
		synced, asked int
	}{
		{lib.SQLITE_FCNTL_PRAGMA, SyncPragma, lib.SQLITE_IOERR_FSYNC, 1, 0},
		{lib.SQLITE_FCNTL_PRAGMA, "page_size", lib.SQLITE_NOTFOUND, 1, 1},
		{lib.SQLITE_FCNTL_SIZE_HINT, SyncPragma, lib.SQLITE_NOTFOUND, 1, 2},
	} {
		name, err := libc.CString(c.name)
		if err != nil {
			t.Fatal(err)
		}
		arg := lib.Xsqlite3_malloc(tls, int32(unsafe.Sizeof([3]uintptr{})))
		*at[[3]uintptr](arg) = [3]uintptr{0, name, 0}
		if got := mainControl(tls, file, c.op, arg); got != c.want || synced != c.synced || asked != c.asked {
			t.Errorf("%d %s: got %d, %d times to the disk, %d to the system; want %d, %d, %d",
				c.op, c.name, got, synced, asked, c.want, c.synced, c.asked)
		}
		lib.Xsqlite3_free(tls, arg)
		libc.Xfree(tls, name)
	}
}

// SQLite returns the error of a sync as that of the PRAGMA.
func TestSyncFailsInSQLite(t *testing.T) {
	c := connect(t, filepath.Join(t.TempDir(), "tally.db"))
	f := mainFileOf(t, c)
	synced = 0
	system := *f.of()
	system.FxSync = pointer[fileSync](countSync)
	tls := libc.NewTLS()
	defer tls.Close()
	was, fake := f.system, lib.Xsqlite3_malloc(tls, int32(unsafe.Sizeof(system)))
	defer lib.Xsqlite3_free(tls, fake)
	*at[lib.Tsqlite3_io_methods](fake) = system
	f.system = fake
	_, err := c.(driver.ExecerContext).ExecContext(context.Background(), `PRAGMA `+SyncPragma, nil)
	f.system = was
	if err == nil || synced != 1 {
		t.Errorf("got error %v and %d times to the disk, want an error and 1", err, synced)
	}
}

// connect opens a database through the file system.
func connect(t *testing.T, path string) driver.Conn {
	t.Helper()
	if err := Register(); err != nil {
		t.Fatal(err)
	}
	connector, err := sqlite.NewConnector("file:" + filepath.ToSlash(path) + "?vfs=" + Name)
	if err != nil {
		t.Fatal(err)
	}
	c, err := connector.Connect(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// mainFileOf returns the database file of a connection. The driver doesn't tell,
// so this looks into it.
func mainFileOf(t *testing.T, c driver.Conn) *mainFile {
	t.Helper()
	db := uintptr(reflect.ValueOf(c).Elem().FieldByName("db").Uint())
	tls := libc.NewTLS()
	defer tls.Close()
	file := lib.Xsqlite3_malloc(tls, int32(unsafe.Sizeof(db)))
	defer lib.Xsqlite3_free(tls, file)
	if rc := lib.Xsqlite3_file_control(tls, db, 0, lib.SQLITE_FCNTL_FILE_POINTER, file); rc != lib.SQLITE_OK {
		t.Fatalf("error %d", rc)
	}
	return at[mainFile](at[lib.Tsqlite3_file](*at[uintptr](file)).FpMethods)
}

// A connection rests while it writes many pages, from when it is told to until it is told not to.
func TestWritesRest(t *testing.T) {
	c := connect(t, filepath.Join(t.TempDir(), "tally.db"))
	f := mainFileOf(t, c)
	exec := func(query string) {
		t.Helper()
		if _, err := c.(driver.ExecerContext).ExecContext(context.Background(), query, nil); err != nil {
			t.Fatal(err)
		}
	}
	exec(`CREATE TABLE pages (content BLOB)`)
	for _, rests := range []bool{false, true, false} {
		value := 0
		if rests {
			value = 1
		}
		exec(fmt.Sprintf(`PRAGMA %s = %d`, RestPragma, value))
		f.written = 0
		exec(`INSERT INTO pages SELECT randomblob(20000) FROM (VALUES (1), (2), (3), (4), (5), (6), (7), (8), (9), (10), (11), (12))`)
		if rested := f.written < restAfter; rested != rests {
			t.Errorf("%d pages since a rest, rests %v", f.written, rests)
		}
	}
}
