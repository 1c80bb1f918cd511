package journal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// Nothing of the file is mapped into memory. A store into a mapped page waits for the file system inside of a page
// fault, which Go can't tell from computing: while one lasts, the garbage collector waits, and with it the whole
// process. A system call that hangs holds nothing but its thread and the locks of its caller.

// words are the words of a record.
type words [recordSize / 8]uint64

// read fills b from the file. An error breaks the journal.
func (j *Journal) read(b []byte, offset int64) error {
	_, err := j.file.ReadAt(b, offset)
	if errors.Is(err, io.EOF) {
		err = errTruncated
	}
	return j.tried("read", err)
}

// write writes b to the file. An error breaks the journal.
func (j *Journal) write(b []byte, offset int64) error {
	_, err := j.file.WriteAt(b, offset)
	return j.tried("written", err)
}

func (j *Journal) tried(what string, err error) error {
	if err == nil {
		return nil
	}
	return j.breakWith(fmt.Errorf("its file can't be %s: %w", what, err))
}

var errTruncated = errors.New("it was truncated")

// readWords returns words of the header.
func (j *Journal) readWords(at, n int) ([]uint64, error) {
	b := make([]byte, 8*n)
	if err := j.read(b, int64(8*at)); err != nil {
		return nil, err
	}
	words := make([]uint64, n)
	for i := range words {
		words[i] = binary.NativeEndian.Uint64(b[8*i:])
	}
	return words, nil
}

// writeWords writes words of the header with one system call.
func (j *Journal) writeWords(at int, words ...uint64) error {
	b := make([]byte, 0, 8*len(words))
	for _, word := range words {
		b = binary.NativeEndian.AppendUint64(b, word)
	}
	return j.write(b, int64(8*at))
}

// readTable returns the generations of the segments, by slot; 0 where the contents are foreign or an entry is invalid.
func (j *Journal) readTable() ([]uint32, error) {
	generations := make([]uint32, j.shape.segments)
	n := min(j.header.segments, j.shape.segments)
	if n == 0 {
		return generations, nil
	}
	entries, err := j.readWords(tableAt, int(n))
	if err != nil {
		return nil, err
	}
	for slot, entry := range entries {
		generations[slot] = decodeEntry(j.header.id, slot, entry)
	}
	return generations, nil
}

// writeEntry writes a segment's entry in the table.
func (j *Journal) writeEntry(s *Segment) error {
	return j.writeWords(tableAt+s.slot, encodeEntry(s.id, s.slot, s.generation))
}

// remake begins new contents by writing a header with a new ID, under which the old table and records have wrong
// checksums. If the process dies meanwhile, the contents are no journal.
func (j *Journal) remake() (header, error) {
	h := header{segments: j.shape.segments, records: j.shape.records, origin: j.origin, id: int64(random())}
	words := h.words()
	return h, j.writeWords(0, words[:]...)
}

// append adds the bytes of the words to b.
func (w *words) append(b []byte) []byte {
	for _, word := range w {
		b = binary.NativeEndian.AppendUint64(b, word)
	}
	return b
}

// wordsOf returns the words with these bytes.
func wordsOf(b []byte) (w words) {
	for i := range w {
		w[i] = binary.NativeEndian.Uint64(b[8*i:])
	}
	return w
}
