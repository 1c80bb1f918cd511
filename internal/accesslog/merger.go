package accesslog

import (
	"cmp"
	"container/heap"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
)

const (
	// maxHeld bounds how many records are held to return them in the order of their arrival.
	maxHeld = 4096
	// holdFor is the longest time between the arrival of a request and the last line read, in
	// nanoseconds, for which the order is kept. Servers write the line when the request ends.
	holdFor = int64(60e9)
	// maxQuoted is the most bytes of a quoted line.
	maxQuoted = 160
	// maxBad is the most quoted unreadable lines.
	maxBad = 5
	// maxPeek is the number of lines in which the first time of a log is searched.
	maxPeek = 1000
	// maxIdle is the number of consecutive lines without a record after which a file isn't
	// considered a log of requests.
	maxIdle = 1_000_000
)

// errIdle is the error of a file that isn't a log of requests.
var errIdle = fmt.Errorf("%d lines in a row are no requests, and the rest of the file is left out", maxIdle)

// Merger reads logs into records in the order of their arrival. It reads consecutive logs, such as
// rotated ones, one after another, and logs of the same time concurrently.
type Merger struct {
	parser *Parser
	later  []*source // logs that begin later, by their first time
	active []*source
	held   recordHeap
	free   []*Record // for reuse
	last   *Record   // returned by Next
	latest int64     // arrival of the record that Next returned

	Counts
}

// Counts are the numbers of lines and records.
type Counts struct {
	Lines   int64     `json:"lines"`
	Records int64     `json:"requests"`
	Others  int64     `json:"other_lines"`      // that are not about requests
	Bad     int64     `json:"unreadable_lines"` // that can't be read
	Late    int64     `json:"late"`             // records that came too late for their order
	Quoted  []BadLine `json:"unreadable,omitempty"`
}

// BadLine is an unreadable line.
type BadLine struct {
	File  string `json:"file"`
	Line  int64  `json:"line"`
	Text  string `json:"text"` // its beginning, with what isn't printable escaped as in Go
	Error string `json:"error"`
}

// source is a log with its state of reading.
type source struct {
	*File
	first  int64 // time of the first line
	logged int64 // time of the last line read
	idle   int64 // consecutive lines without a record
}

// NewMerger returns a merger of the logs at some paths, or of the standard input for "-". It
// searches the first time in each file. A source that can be read only once, such as a named pipe,
// is not opened before its first line is due.
func NewMerger(parser *Parser, paths []string, stdin io.Reader) (*Merger, error) {
	m := &Merger{parser: parser}
	var files []os.FileInfo
	for _, path := range paths {
		s := &source{File: &File{path: path}}
		if path == standardInput &&
			slices.ContainsFunc(m.later, func(other *source) bool { return other.path == standardInput }) {
			return nil, errors.New("got - twice: the standard input can be read once")
		}
		m.later = append(m.later, s)
		if path == standardInput {
			s.from = stdin
			continue
		}
		info, err := stat(path)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(files, func(other os.FileInfo) bool { return os.SameFile(info, other) }) {
			return nil, fmt.Errorf("got %s twice: expected each log once, because its requests would count twice", path)
		}
		if files = append(files, info); !info.Mode().IsRegular() {
			continue
		}
		if err := m.look(s); err != nil {
			return nil, err
		}
	}
	slices.SortStableFunc(m.later, func(a, b *source) int { return cmp.Compare(a.first, b.first) })
	return m, nil
}

// stat returns a path's info, or an error if it can't be a log.
func stat(path string) (os.FileInfo, error) {
	info, err := os.Stat(path)
	if err == nil && info.IsDir() {
		err = fmt.Errorf("%s is a folder: expected a log, such as %s", path, filepath.Join(path, "access.log"))
	}
	return info, err
}

// look searches the first time in a log. A log without any time is read first.
func (m *Merger) look(s *source) error {
	defer s.close()
	if err := s.open(); err != nil {
		return err
	}
	r := new(Record)
	for range maxPeek {
		line, err := s.File.line()
		if err != nil && err != errLong && err != errLeftOut {
			return nil // the second reading counts the error
		}
		if err == nil && m.parser.parse(line, r) == nil {
			s.first = r.Logged
			return nil
		}
	}
	return nil
}

// Next returns the next record, which is valid until the next call. The error is io.EOF at the
// end.
func (m *Merger) Next() (*Record, error) {
	if m.last != nil {
		m.free = append(m.free, m.last)
		m.last = nil
	}
	for m.mayWait() {
		err := m.readOne()
		if err == io.EOF && len(m.held) > 0 {
			break
		}
		if err != nil {
			return nil, err
		}
	}
	m.last = heap.Pop(&m.held).(*Record)
	if m.last.Arrived < m.latest {
		m.Late++
	}
	m.latest = max(m.latest, m.last.Arrived)
	return m.last, nil
}

// mayWait reports whether to read more before returning the first held record.
func (m *Merger) mayWait() bool {
	if len(m.held) == 0 {
		return true
	}
	if len(m.held) == maxHeld || len(m.active) == 0 && len(m.later) == 0 {
		return false
	}
	read := int64(math.MaxInt64) // nothing earlier is logged any more
	for _, s := range m.active {
		read = min(read, s.logged)
	}
	return m.held[0].Arrived > read-holdFor
}

// readOne reads a line of the log that is furthest behind. The error is io.EOF if there is no more.
func (m *Merger) readOne() error {
	s, err := m.source()
	if err != nil {
		return err
	}
	line, err := s.File.line()
	if err != nil && err != errLong && err != errLeftOut {
		m.end(s, err)
		return nil
	}
	m.Lines++
	r := m.record()
	if err == nil {
		err = m.parser.parse(line, r)
	}
	if err != nil {
		m.free = append(m.free, r)
		m.refuse(s, line, err)
		if s.idle++; s.idle == maxIdle {
			m.end(s, errIdle)
		}
		return nil
	}
	s.idle = 0
	m.Records++
	s.logged = max(s.logged, r.Logged)
	r.number = m.Records
	heap.Push(&m.held, r)
	return nil
}

// end ends a log, because it is complete or unreadable.
func (m *Merger) end(s *source, err error) {
	if err != io.EOF {
		m.refuse(s, nil, err)
	}
	s.close()
	m.active = slices.DeleteFunc(m.active, func(other *source) bool { return other == s })
}

// source returns the active log that is furthest behind. It opens the next log if that is due.
func (m *Merger) source() (*source, error) {
	var behind *source
	for _, s := range m.active {
		if behind == nil || s.logged < behind.logged {
			behind = s
		}
	}
	if len(m.later) > 0 && (behind == nil || m.later[0].first <= behind.logged) {
		behind, m.later = m.later[0], m.later[1:]
		behind.logged = behind.first
		if err := behind.open(); err != nil {
			return nil, err
		}
		m.active = append(m.active, behind)
	}
	if behind == nil {
		return nil, io.EOF
	}
	return behind, nil
}

// record returns an empty record.
func (m *Merger) record() *Record {
	if n := len(m.free); n > 0 {
		r := m.free[n-1]
		m.free = m.free[:n-1]
		return r
	}
	return new(Record)
}

// refuse counts a line without a record.
func (m *Merger) refuse(s *source, line []byte, err error) {
	if err == errOther || err == errFormat && len(line) > 0 && (line[0] == '\n' || line[0] == '\r') {
		m.Others++
		return
	}
	m.Bad++
	if len(m.Quoted) < maxBad {
		text := strconv.QuoteToASCII(string(line[:min(len(line), maxQuoted)]))
		m.Quoted = append(m.Quoted,
			BadLine{File: s.path, Line: s.number, Text: text[1 : len(text)-1], Error: err.Error()})
	}
}

// Close closes all logs.
func (m *Merger) Close() {
	for _, s := range m.active {
		s.close()
	}
	m.active, m.later = nil, nil
}
