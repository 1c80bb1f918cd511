package journal

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/cespare/xxhash/v2"

	"github.com/caddy-tally/caddy-tally/storage/sqlite/internal/sleeplock"
)

const (
	magic   = 0x74616c6c796a6e6c // "tallyjnl"
	version = 1

	headerSize = 4096
	recordSize = 64

	// Places in the header, in words of 8 bytes.
	headWords = 6  // the words of struct header and its checksum
	ownerAt   = 16 // alone on two cache lines, because processors fetch lines in pairs
	tableAt   = 32

	maxSegments = headerSize/8 - tableAt
	maxSize     = 1 << 30
)

// errReplaced says that the file was removed or replaced before it was locked.
var errReplaced = errors.New("replaced meanwhile")

// complete returns the options with their defaults, or an error.
func (o Options) complete() (Options, error) {
	o.Segments = cmp.Or(o.Segments, defaultSegments)
	o.Records = cmp.Or(o.Records, defaultRecords)
	if !possible(int64(o.Segments), int64(o.Records)) {
		return o,
			fmt.Errorf("journal %q: got %d segments of %d records; expected 1 to %d segments, and at most %d bytes",
				o.Path, o.Segments, o.Records, maxSegments, maxSize)
	}
	return o, nil
}

// possible reports whether a file may have these numbers of segments, and of records in each.
func possible(segments, records int64) bool {
	return segments >= 1 && segments <= maxSegments &&
		records >= 1 && records <= (maxSize-headerSize)/recordSize/segments
}

// header is the header of a file.
type header struct {
	segments, records uint32
	origin, id        int64 // the id is never 0
}

func (h header) size() int64 {
	return headerSize + int64(h.segments)*int64(h.records)*recordSize
}

func (h header) words() (w [headWords]uint64) {
	w[0] = magic
	w[1] = version<<32 | recordSize
	w[2] = uint64(h.segments)<<32 | uint64(h.records)
	w[3] = uint64(h.origin)
	w[4] = uint64(h.id)
	var b [8 * (headWords - 1)]byte
	for i := range headWords - 1 {
		binary.NativeEndian.PutUint64(b[8*i:], w[i])
	}
	w[5] = xxhash.Sum64(b[:])
	return w
}

// parseHeader parses words, and reports whether they are the header of a journal.
func parseHeader(w [headWords]uint64) (header, bool) {
	h := header{segments: uint32(w[2] >> 32), records: uint32(w[2]), origin: int64(w[3]), id: int64(w[4])}
	if h.id == 0 || !possible(int64(h.segments), int64(h.records)) || h.words() != w {
		return header{}, false
	}
	return h, true
}

// open opens the file, creates it if it doesn't exist, takes a presence lock, and revokes the owner. After
// errReplaced the caller must retry.
func open(ctx context.Context, o Options) (*Journal, error) {
	f, made, err := openFile(o.Path)
	if err != nil {
		return nil, err
	}
	j := &Journal{path: o.Path, origin: o.Origin, file: f, full: make(chan struct{}, 1), mu: sleeplock.New()}
	if err := j.join(ctx, o, made); err != nil {
		_ = f.Close() // ends the locks; err is the first error
		return nil, err
	}
	return j, nil
}

// join is the part of open after the file is open.
func (j *Journal) join(ctx context.Context, o Options, made bool) error {
	if err := checkFileSystem(j.file); err != nil { // first, because locks of other file systems may hang
		return j.failed(err, made)
	}
	if err := elect(ctx, j.file); err != nil {
		return j.failed(fmt.Errorf("waiting for other processes that open it: %w", err), false)
	}
	if err := samePlace(j.file, j.path); err != nil {
		return errReplaced
	}
	h, valid, err := readHeader(j.file)
	if err != nil {
		return j.failed(err, false)
	}
	if j.foreign = !valid || h.origin != o.Origin; !j.foreign {
		j.header = h
	}
	if !valid {
		h = header{segments: uint32(o.Segments), records: uint32(o.Records)}
	}
	if err := allocate(j.file, h.size()); err != nil {
		return j.failed(fmt.Errorf("allocating %d bytes on the disk: %w", h.size(), err), made)
	}
	j.shape = h
	err = j.measure()
	if err == nil {
		err = j.enter()
	}
	if err == nil {
		err = unlock(j.file, electionByte, 1)
	}
	return j.failed(err, false)
}

// measure notes the size of the file, which has its final one.
func (j *Journal) measure() error {
	info, err := j.file.Stat()
	if err == nil {
		j.size = info.Size()
	}
	return err
}

// failed adds the name of the file to an error, and removes the file if this call has created it. Processes that wait
// for the file's lock notice that, and create another one.
func (j *Journal) failed(err error, made bool) error {
	if err == nil {
		return nil
	}
	err = fmt.Errorf("journal %q: %w", j.path, err)
	if made {
		err = errors.Join(err, os.Remove(j.path))
	}
	return err
}

// readHeader reads the header, and reports whether it is that of a journal.
func readHeader(f *os.File) (header, bool, error) {
	var b [8 * headWords]byte
	if _, err := f.ReadAt(b[:], 0); errors.Is(err, io.EOF) {
		return header{}, false, nil // too short
	} else if err != nil {
		return header{}, false, err
	}
	var w [headWords]uint64
	for i := range w {
		w[i] = binary.NativeEndian.Uint64(b[8*i:])
	}
	h, valid := parseHeader(w)
	return h, valid, nil
}

// random returns a random number that is neither 0 nor revoked.
func random() uint64 {
	for {
		var b [8]byte
		_, _ = rand.Read(b[:]) // never fails
		if n := binary.NativeEndian.Uint64(b[:]); n > revoked {
			return n
		}
	}
}

// InPlace returns an error if the file at the path is no longer the open one, or if its size has changed.
func (j *Journal) InPlace() error {
	if err := samePlace(j.file, j.path); err != nil {
		return fmt.Errorf("journal %q: %w", j.path, err)
	}
	info, err := j.file.Stat()
	if err != nil {
		return fmt.Errorf("journal %q: %w", j.path, err)
	}
	if info.Size() != j.size {
		return fmt.Errorf("journal %q: its size is %d; expected %d, as when it was opened", j.path, info.Size(), j.size)
	}
	return nil
}

// samePlace returns an error if the file at path is not the open one.
func samePlace(f *os.File, path string) error {
	open, err := f.Stat()
	if err != nil {
		return err
	}
	there, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return errors.New("the file was removed while it is open")
	case err != nil:
		return err
	case !os.SameFile(open, there):
		return errors.New("the file was replaced while it is open")
	}
	return nil
}
