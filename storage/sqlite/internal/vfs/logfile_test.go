package vfs

import (
	"bytes"
	"slices"
	"testing"
	"unsafe"

	"modernc.org/libc"
	lib "modernc.org/sqlite/lib"
)

// written is what reaches the system's file in the tests of logFile, which is not
// a file; failing is the error that it returns.
var (
	written []section
	failing int32
)

type section struct {
	offset int64
	data   []byte
}

func writeSection(_ *libc.TLS, _, data uintptr, n int32, offset int64) int32 {
	written = append(written, section{offset, bytes.Clone(unsafe.Slice(at[byte](data), n))})
	return failing
}

func closeSection(*libc.TLS, uintptr) int32 { return lib.SQLITE_OK }

// testLog is a log file on top of nothing, and what SQLite would call it with.
type testLog struct {
	t    *testing.T
	tls  *libc.TLS
	file uintptr
}

func newTestLog(t *testing.T) *testLog {
	tls := libc.NewTLS()
	methods := lib.Xsqlite3_malloc(tls, int32(unsafe.Sizeof(lib.Tsqlite3_io_methods{})))
	*at[lib.Tsqlite3_io_methods](methods) = lib.Tsqlite3_io_methods{
		FxWrite: pointer[fileWrite](writeSection),
		FxClose: pointer[fileClose](closeSection),
	}
	file := lib.Xsqlite3_malloc(tls, 8+int32(unsafe.Sizeof(logFile{})))
	at[lib.Tsqlite3_file](file).FpMethods = file + 8
	at[logFile](file + 8).system = methods
	if rc := at[logFile](file+8).init(tls, file); rc != lib.SQLITE_OK {
		t.Fatalf("error %d", rc)
	}
	written, failing = nil, lib.SQLITE_OK
	t.Cleanup(func() {
		logClose(tls, file)
		lib.Xsqlite3_free(tls, file)
		lib.Xsqlite3_free(tls, methods)
		tls.Close()
	})
	return &testLog{t, tls, file}
}

// write writes n bytes of some content, and checks what comes of it and where
// the system's writes begin.
func (l *testLog) write(offset int64, data []byte, want int32, starts ...int64) {
	l.t.Helper()
	written = nil
	p := lib.Xsqlite3_malloc(l.tls, int32(len(data)))
	defer lib.Xsqlite3_free(l.tls, p)
	copy(unsafe.Slice(at[byte](p), len(data)), data)
	if rc := logWrite(l.tls, l.file, p, int32(len(data)), offset); rc != want {
		l.t.Errorf("write at %d: error %d, want %d", offset, rc, want)
	}
	var got []int64
	for _, w := range written {
		got = append(got, w.offset)
	}
	if !slices.Equal(got, starts) {
		l.t.Errorf("write at %d: the system wrote at %v, want %v", offset, got, starts)
	}
}

// header returns the header of a frame, which is a last one if commit is not 0.
func header(commit byte) []byte {
	h := make([]byte, FrameHeader)
	h[3], h[7] = 9, commit
	return h
}

// The frames of a transaction become one write, and nothing of it waits when the
// last one is written.
func TestLogFileGathers(t *testing.T) {
	l, page := newTestLog(t), bytes.Repeat([]byte{7}, 512)
	l.write(0, make([]byte, 32), lib.SQLITE_OK)
	l.write(32, header(0), lib.SQLITE_OK)
	l.write(56, page, lib.SQLITE_OK)
	l.write(568, header(5), lib.SQLITE_OK)
	l.write(592, page, lib.SQLITE_OK, 0)
	want := slices.Concat(make([]byte, 32), header(0), page, header(5), page)
	if len(written) != 1 || !bytes.Equal(written[0].data, want) {
		t.Errorf("got %v, want one write of %v", written, want)
	}
	l.write(1104, header(5), lib.SQLITE_OK)
	l.write(1128, page, lib.SQLITE_OK, 1104)

	// A page that is written again, and headers whose checksums are computed again, are not
	// where the last write ended.
	l.write(1640, header(0), lib.SQLITE_OK)
	l.write(1664, page, lib.SQLITE_OK)
	l.write(56, page, lib.SQLITE_OK, 1640, 56)
	l.write(2176, header(5), lib.SQLITE_OK, 2176)
	l.write(2200, page, lib.SQLITE_OK, 2200)
	l.write(32, header(0), lib.SQLITE_OK, 32)
	l.write(568, header(5), lib.SQLITE_OK, 568)
}

// More than the buffer holds takes more than one write.
func TestLogFileBuffer(t *testing.T) {
	l, page := newTestLog(t), bytes.Repeat([]byte{7}, 32<<10)
	for i := range int64(3) {
		l.write(i*(32<<10), page, lib.SQLITE_OK)
	}
	l.write(3*32<<10, page, lib.SQLITE_OK, 0)
	l.write(4*32<<10, bytes.Repeat(page, 4), lib.SQLITE_OK, 3*32<<10, 4*32<<10)
}

// An error of the write is the commit's.
func TestLogFileFails(t *testing.T) {
	l, page := newTestLog(t), make([]byte, 512)
	failing = lib.SQLITE_FULL
	l.write(0, header(0), lib.SQLITE_OK)
	l.write(24, page, lib.SQLITE_OK)
	l.write(536, header(5), lib.SQLITE_OK)
	l.write(560, page, lib.SQLITE_FULL, 0)
	failing = lib.SQLITE_OK
	l.write(0, header(5), lib.SQLITE_OK, 0)
	l.write(24, page, lib.SQLITE_OK, 24)
}
