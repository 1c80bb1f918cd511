package accesslog

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/klauspost/compress/zstd"
)

// maxLine is the longest accepted line, in bytes.
const maxLine = 1 << 20

// File is a log, compressed or not.
type File struct {
	path string

	from   io.Reader // the standard input; nil for a file
	opened *os.File
	ended  func()
	lines  *bufio.Reader
	read   int64  // bytes, as on disk
	text   int64  // bytes, decompressed; 0 if the log isn't compressed
	long   []byte // a line that is longer than the reader's buffer
	number int64  // of the last line
	wrapped
}

// standardInput is the name of the standard input.
const standardInput = "-"

// maxWindow bounds the decompressor's memory.
const maxWindow = 64 << 20

// open opens the log at its beginning. Errors in its content appear when its lines are read.
func (f *File) open() error {
	f.read, f.number, f.wrapped = 0, 0, wrapped{}
	in := f.from
	if in == nil {
		opened, err := os.Open(f.path)
		if err != nil {
			return err
		}
		f.opened, in = opened, opened
	}
	f.text = 0
	raw := bufio.NewReaderSize(&counted{in, &f.read}, 64<<10)
	magic, _ := raw.Peek(4)
	var text io.Reader = raw
	switch {
	case bytes.HasPrefix(magic, []byte{0x1f, 0x8b}):
		if unzipped, err := gzip.NewReader(raw); err != nil {
			text = broken{err}
		} else {
			text = &expanding{f, unzipped}
		}
	case bytes.Equal(magic, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		if unzipped, err := zstd.NewReader(raw, zstd.WithDecoderConcurrency(1),
			zstd.WithDecoderMaxWindow(maxWindow)); err != nil {
			text = broken{err}
		} else {
			text, f.ended = &expanding{f, unzipped}, unzipped.Close
		}
	}
	f.lines = bufio.NewReaderSize(text, 64<<10)
	return nil
}

func (f *File) close() {
	if f.ended != nil {
		f.ended()
	}
	if f.opened != nil {
		f.opened.Close() // it was only read
	}
	f.opened, f.lines, f.ended = nil, nil, nil
}

// errLong is the error of a line longer than [maxLine].
var errLong = errors.New("the line is longer than 1 MiB")

// line returns the next line, valid until the next call: of a log in a runtime's lines, that in them. After
// errLong and errLeftOut it continues with the following line. The last line need not end with a newline.
func (f *File) line() ([]byte, error) {
	for {
		line, err := f.own()
		if err != nil {
			return line, err
		}
		if text, complete, err := f.unwrap(line); complete {
			return text, err
		}
	}
}

// own returns the next line of the file itself.
func (f *File) own() ([]byte, error) {
	f.number++
	line, err := f.lines.ReadSlice('\n')
	if err == nil {
		return line, nil
	}
	f.long = append(f.long[:0], line...)
	for errors.Is(err, bufio.ErrBufferFull) {
		line, err = f.lines.ReadSlice('\n')
		if len(f.long) <= maxLine {
			f.long = append(f.long, line...)
		}
	}
	switch {
	case len(f.long) > maxLine && (err == nil || err == io.EOF):
		f.long = f.long[:maxQuoted]
		return f.long, errLong
	case err == io.EOF && len(f.long) > 0:
		return f.long, nil
	case errors.Is(err, io.ErrUnexpectedEOF):
		return nil, errCut
	case err == errExpands:
		return nil, err
	case err != nil && err != io.EOF:
		return nil, fmt.Errorf("the rest can't be read: %w", err)
	}
	return f.long, err
}

// errCut is the error of a truncated compressed log.
var errCut = errors.New("the compressed log is cut off: its rest is missing")

// A compressed log may expand to maxText bytes, and further up to maxRatio times its size on disk.
// Logs of real servers are compressed to a fortieth at best; a file that is made to keep its reader
// busy can be compressed to a thousandth and less.
const (
	maxText  = 16 << 20
	maxRatio = 250
)

// errExpands is the error of a compressed log that can't be a server's.
var errExpands = fmt.Errorf("the log decompresses to more than %d times its size, and its rest is left out: decompress it first if that is right", maxRatio)

// expanding is a log during decompression.
type expanding struct {
	file *File
	io.Reader
}

// Read implements io.Reader.
func (e *expanding) Read(p []byte) (int, error) {
	if e.file.text > maxText && e.file.text/maxRatio > e.file.read {
		return 0, errExpands
	}
	n, err := e.Reader.Read(p)
	e.file.text += int64(n)
	return n, err
}

// broken is an unreadable log.
type broken struct{ err error }

// Read implements io.Reader.
func (b broken) Read([]byte) (int, error) {
	if b.err == io.EOF {
		return 0, io.ErrUnexpectedEOF
	}
	return 0, b.err
}

// counted counts the bytes read.
type counted struct {
	io.Reader
	n *int64
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	*c.n += int64(n)
	return n, err
}
