//go:build unix

package main

import (
	"encoding/binary"
	"fmt"
	"os"
	"sync/atomic"
	"syscall"
	"unsafe"
)

// walIndex looks into the index of a write-ahead log, the file whose name ends in
// -shm, to see whether a checkpoint is running. It is the only way to know that
// from outside. https://sqlite.org/walformat.html#the_wal_index_file_format
//
// The file must stay open until SQLite has closed its database: closing it any
// earlier would drop SQLite's locks.
type walIndex struct {
	file *os.File
	mem  []byte
}

// Where the header has how many frames are in the database file, and how many
// will be when the checkpoint that runs is done.
const (
	walIndexSize      = 136
	backfillAt        = 96
	backfillAttempted = 128
)

func openWALIndex(path string) (*walIndex, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	mem, err := syscall.Mmap(int(file.Fd()), 0, walIndexSize, syscall.PROT_READ, syscall.MAP_SHARED)
	if err != nil {
		return nil, err
	}
	if version := binary.NativeEndian.Uint32(mem); version != 3007000 {
		return nil, fmt.Errorf("%s: unknown version %d of the index of the log", path, version)
	}
	return &walIndex{file, mem}, nil
}

func (w *walIndex) close() error {
	if err := syscall.Munmap(w.mem); err != nil {
		return err
	}
	return w.file.Close()
}

func (w *walIndex) read(at int) uint32 {
	return atomic.LoadUint32((*uint32)(unsafe.Pointer(&w.mem[at])))
}

// mark implements decisions.mark: a checkpoint was running at the beginning or the
// end, or began and ended meanwhile.
func (w *walIndex) mark() func() bool {
	done, running := w.state()
	return func() bool {
		now, still := w.state()
		return running || still || now != done
	}
}

// state returns how many frames have been copied, and whether more are about to
// be.
func (w *walIndex) state() (done uint32, running bool) {
	done = w.read(backfillAt)
	return done, w.read(backfillAttempted) > done
}
