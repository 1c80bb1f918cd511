package accesslog

import (
	"cmp"
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
	// maxHeld is how many records are held so that they come in the order of their arrival.
	maxHeld = 4096
	// holdFor is how long before the time of the last line a request may have arrived to come
	// in its order, in nanoseconds. Servers write the line when the request ends.
	holdFor = int64(60e9)
	// maxQuoted is how many bytes of a line are quoted.
	maxQuoted = 160
	// maxBad is how many lines are quoted that can't be read.
	maxBad = 5
	// maxPeek is in how many lines the first time of a log is looked for.
	maxPeek = 1000
	// maxIdle is how many lines in a row may give no record: a file with more of them is no log of
	// requests.
	maxIdle = 1_000_000
)

// errIdle says that a file is no log of requests.
var errIdle = fmt.Errorf("%d lines in a row are no requests, and the rest of the file is left out", maxIdle)

// Merger reads logs into records in the order of their arrival. Logs that follow one another,
// as rotated ones do, are read one after the other, and logs of the same time side by side.
type Merger struct {
	parser *Parser
	later  []*source // that begin later, by their first time
	active []*source
	held   recordHeap
	free   []*Record // for reuse
	last   *Record   // that Next has returned
	number int64     // of records that were read
	size   int64     // bytes of all logs; 0 if that isn't known
	latest int64     // the arrival of the record that Next has returned
	closed int64     // bytes of logs that are read

	Counts
}

// Counts says what was read.
type Counts struct {
	Lines   int64     `json:"lines"`
	Records int64     `json:"requests"`
	Others  int64     `json:"other_lines"`      // that are not about requests
	Bad     int64     `json:"unreadable_lines"` // that can't be read
	Late    int64     `json:"late"`             // records that came too late for their order
	Quoted  []BadLine `json:"unreadable,omitempty"`
}

// BadLine is a line that can't be read.
type BadLine struct {
	File  string `json:"file"`
	Line  int64  `json:"line"`
	Text  string `json:"text"` // its beginning, with what isn't printable escaped as in Go
	Error string `json:"error"`
}

// source is a log that is read.
type source struct {
	*File
	first  int64 // the time of its first line
	logged int64 // the time of the last line that was read
	line   int64 // its number
	idle   int64 // lines in a row that gave no record
}

// NewMerger returns a merger of the logs at some paths, or of the standard input for "-". It
// looks for the first time in each file. What can be read only once, such as a named pipe, is
// not opened before its first line is due.
func NewMerger(parser *Parser, paths []string, stdin io.Reader) (*Merger, error) {
	m := &Merger{parser: parser}
	var files []os.FileInfo
	once := false
	for _, path := range paths {
		s := &source{File: &File{path: path}}
		if path == Standard && slices.ContainsFunc(m.later, func(other *source) bool { return other.path == Standard }) {
			return nil, errors.New("got - twice: the standard input can be read once")
		}
		m.later = append(m.later, s)
		if path == Standard {
			s.from, once = stdin, true
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
			once = true
			continue
		}
		m.size += info.Size()
		if err := m.look(s); err != nil {
			return nil, err
		}
	}
	if once {
		m.size = 0
	}
	slices.SortStableFunc(m.later, func(a, b *source) int { return cmp.Compare(a.first, b.first) })
	return m, nil
}

// stat returns what a path is, unless that can't be a log.
func stat(path string) (os.FileInfo, error) {
	info, err := os.Stat(path)
	if err == nil && info.IsDir() {
		err = fmt.Errorf("%s is a folder: expected a log, such as %s", path, filepath.Join(path, "access.log"))
	}
	return info, err
}

// look looks for the first time in a log. One without any is read first.
func (m *Merger) look(s *source) error {
	defer s.close()
	if err := s.open(); err != nil {
		return err
	}
	r := new(Record)
	for range maxPeek {
		line, err := s.File.line()
		if err != nil && err != errLong {
			return nil // which is counted when it is read again
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
	m.last = m.held.pop()
	if m.last.Arrived < m.latest {
		m.Late++
	}
	m.latest = max(m.latest, m.last.Arrived)
	return m.last, nil
}

// mayWait reports whether more is to be read before the first record that is held is returned.
func (m *Merger) mayWait() bool {
	if len(m.held) == 0 {
		return true
	}
	if len(m.held) == maxHeld || len(m.active) == 0 && len(m.later) == 0 {
		return false
	}
	read := int64(math.MaxInt64) // nothing is logged before it any more
	for _, s := range m.active {
		read = min(read, s.logged)
	}
	return m.held[0].Arrived > read-holdFor
}

// readOne reads a line of the log that is behind the others. The error is io.EOF if there is
// none any more.
func (m *Merger) readOne() error {
	s, err := m.source()
	if err != nil {
		return err
	}
	line, err := s.next()
	if err != nil && err != errLong {
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
	m.number++
	m.held.push(numbered{r, m.number})
	return nil
}

// end ends a log, at its end or because no more of it can be read.
func (m *Merger) end(s *source, err error) {
	if err != io.EOF {
		m.refuse(s, nil, err)
	}
	m.closed += s.read
	s.close()
	m.active = slices.DeleteFunc(m.active, func(other *source) bool { return other == s })
}

// Progress returns how many bytes of the logs were read, and how many there are, as they are on
// disk; 0 if that isn't known.
func (m *Merger) Progress() (read, size int64) {
	read = m.closed
	for _, s := range m.active {
		read += s.read
	}
	return read, m.size
}

// next reads a line, and keeps account of how much was read.
func (s *source) next() ([]byte, error) {
	line, err := s.File.line()
	if err != io.EOF {
		s.line++
	}
	return line, err
}

// source returns the active log that is behind the others, and opens the next one if that is
// its turn.
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

// record returns a record to be filled.
func (m *Merger) record() *Record {
	if n := len(m.free); n > 0 {
		r := m.free[n-1]
		m.free = m.free[:n-1]
		return r
	}
	return new(Record)
}

// refuse counts a line that gives no record.
func (m *Merger) refuse(s *source, line []byte, err error) {
	if err == errOther || err == errFormat && len(line) > 0 && (line[0] == '\n' || line[0] == '\r') {
		m.Others++
		return
	}
	m.Bad++
	if len(m.Quoted) < maxBad {
		text := strconv.QuoteToASCII(string(line[:min(len(line), maxQuoted)]))
		m.Quoted = append(m.Quoted, BadLine{File: s.path, Line: s.line, Text: text[1 : len(text)-1], Error: err.Error()})
	}
}

// Close closes all logs.
func (m *Merger) Close() {
	for _, s := range m.active {
		s.close()
	}
	m.active, m.later = nil, nil
}
