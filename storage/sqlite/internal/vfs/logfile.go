package vfs

import (
	"unsafe"

	"modernc.org/libc"
	lib "modernc.org/sqlite/lib"
)

// logFile buffers the writes to a write-ahead log. A commit writes all changed pages, each after a header, one after
// the other, so that one system call can write all of them (decision 10).
//
// Invariant: the buffer only has frames of a transaction that is not committed. The header of a commit's last frame
// marks it (https://www.sqlite.org/fileformat2.html#walformat). The whole buffer is written with that frame, and SQLite
// publishes the commit only if that succeeds.
//
// A logFile is in memory of SQLite, and is used under the lock of its connection.
type logFile struct {
	methods lib.Tsqlite3_io_methods // comes first: SQLite's pointer to the file points here
	system  uintptr                 // the methods of the system's file

	buffer uintptr
	length int64 // bytes in the buffer
	end    int64 // the offset in the file after the last write, including the buffer
	commit bool  // the last write was the header of a last frame
}

const (
	// logBuffer is the size of a logFile's buffer, in bytes. SQLite's files write less than 128 KiB at a time.
	logBuffer = 127 << 10
	// FrameHeader is the size of the log's header of a page, in bytes.
	FrameHeader = 24
)

type (
	fileClose    = func(tls *libc.TLS, file uintptr) int32
	fileRead     = func(tls *libc.TLS, file, data uintptr, n int32, offset int64) int32
	fileWrite    = func(tls *libc.TLS, file, data uintptr, n int32, offset int64) int32
	fileTruncate = func(tls *libc.TLS, file uintptr, size int64) int32
	fileSync     = func(tls *libc.TLS, file uintptr, flags int32) int32
	fileSize     = func(tls *libc.TLS, file, size uintptr) int32
)

// init prepares l for an open file, and closes that if there is no memory for the buffer.
func (l *logFile) init(tls *libc.TLS, file uintptr) int32 {
	*l = logFile{methods: *l.of(), system: l.system, buffer: lib.Xsqlite3_malloc(tls, logBuffer)}
	l.methods.FxClose = pointer[fileClose](logClose)
	l.methods.FxRead = pointer[fileRead](logRead)
	l.methods.FxWrite = pointer[fileWrite](logWrite)
	l.methods.FxTruncate = pointer[fileTruncate](logTruncate)
	l.methods.FxSync = pointer[fileSync](logSync)
	l.methods.FxFileSize = pointer[fileSize](logSize)
	if l.buffer == 0 {
		logClose(tls, file)
		return lib.SQLITE_NOMEM
	}
	return lib.SQLITE_OK
}

// of returns the methods of the system's file.
func (l *logFile) of() *lib.Tsqlite3_io_methods { return at[lib.Tsqlite3_io_methods](l.system) }

func logFileOf(file uintptr) *logFile { return at[logFile](at[lib.Tsqlite3_file](file).FpMethods) }

func logWrite(tls *libc.TLS, file, data uintptr, n int32, offset int64) int32 {
	l := logFileOf(file)
	last := l.commit
	l.commit = n == FrameHeader && *at[[4]byte](data + 4) != [4]byte{}
	if offset != l.end || l.length+int64(n) > logBuffer {
		if rc := l.flush(tls, file); rc != lib.SQLITE_OK {
			return rc
		}
	}
	if offset != l.end || n > logBuffer {
		l.end = offset + int64(n)
		return function[fileWrite](l.of().FxWrite)(tls, file, data, n, offset)
	}
	copy(unsafe.Slice(at[byte](l.buffer+uintptr(l.length)), n), unsafe.Slice(at[byte](data), n))
	l.length += int64(n)
	l.end += int64(n)
	if last {
		return l.flush(tls, file)
	}
	return lib.SQLITE_OK
}

// flush writes the buffer. If that fails, the buffer is lost, and SQLite rolls back the transaction.
func (l *logFile) flush(tls *libc.TLS, file uintptr) int32 {
	n := l.length
	if n == 0 {
		return lib.SQLITE_OK
	}
	l.length = 0
	return function[fileWrite](l.of().FxWrite)(tls, file, l.buffer, int32(n), l.end-n)
}

func logRead(tls *libc.TLS, file, data uintptr, n int32, offset int64) int32 {
	l := logFileOf(file)
	if rc := l.flush(tls, file); rc != lib.SQLITE_OK {
		return rc
	}
	return function[fileRead](l.of().FxRead)(tls, file, data, n, offset)
}

func logTruncate(tls *libc.TLS, file uintptr, size int64) int32 {
	l := logFileOf(file)
	if rc := l.flush(tls, file); rc != lib.SQLITE_OK {
		return rc
	}
	return function[fileTruncate](l.of().FxTruncate)(tls, file, size)
}

func logSync(tls *libc.TLS, file uintptr, flags int32) int32 {
	l := logFileOf(file)
	if rc := l.flush(tls, file); rc != lib.SQLITE_OK {
		return rc
	}
	return function[fileSync](l.of().FxSync)(tls, file, flags)
}

func logSize(tls *libc.TLS, file, size uintptr) int32 {
	l := logFileOf(file)
	if rc := l.flush(tls, file); rc != lib.SQLITE_OK {
		return rc
	}
	return function[fileSize](l.of().FxFileSize)(tls, file, size)
}

// logClose closes the log. It drops the buffer, whose frames are not committed.
func logClose(tls *libc.TLS, file uintptr) int32 {
	l := logFileOf(file)
	lib.Xsqlite3_free(tls, l.buffer)
	return function[fileClose](l.of().FxClose)(tls, file)
}
