package settle

import (
	"bytes"
	"io"
	"net/http"
	"strings"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-tally/caddy-tally/internal/bodyfield"
)

// answerReader reads an answer for the fields that rules name, while it is sent: JSON, a JSON value on each line, or
// a stream of events with JSON as their data. Of several units in one field the most count, since a use never falls.
type answerReader struct {
	names   []string         // of the placeholder of each path
	units   map[string]int64 // by placeholder
	scanner *bodyfield.Scanner
	marked  int // how many bytes of byteOrderMark the answer begins with; all of them if it begins with something else

	lines bool // each line is a value
	begun bool // something else than white space has come

	events bool // it is a stream of events
	read   int  // how many bytes of dataField a line begins with; -1 if it begins with something else
	cr     bool // the last byte was a carriage return
}

const (
	dataField     = "data:"
	byteOrderMark = "\ufeff"
)

// newAnswerReader returns a reader for an answer with a header, or nil if there is nothing to read.
func newAnswerReader(placeholders []string, header http.Header) *answerReader {
	kind, _, _ := strings.Cut(strings.ToLower(header.Get("Content-Type")), ";")
	a := &answerReader{units: make(map[string]int64), events: strings.TrimSpace(kind) == "text/event-stream"}
	if len(placeholders) == 0 || !a.events && !strings.Contains(kind, "json") || bodyfield.IsEncoded(header) {
		return nil
	}
	a.lines = strings.Contains(kind, "ndjson") || strings.Contains(kind, "jsonl")
	var paths [][]string
	for _, name := range placeholders {
		for _, path := range bodyfield.AnswerPaths(name) {
			a.names, paths = append(a.names, name), append(paths, path)
		}
	}
	a.scanner = bodyfield.NewScanner(paths, true, a.note)
	return a
}

// note notes a value. What is no number of units, such as null, is none.
func (a *answerReader) note(path int, text string) {
	if units, ok := ParseUnits(text); ok {
		a.units[a.names[path]] = max(a.units[a.names[path]], units)
	}
}

// Write implements io.Writer. It reads the next piece of the answer.
func (a *answerReader) Write(data []byte) (int, error) {
	n := len(data)
	for ; len(data) > 0 && a.marked < len(byteOrderMark); a.marked++ {
		if data[0] != byteOrderMark[a.marked] {
			a.marked = len(byteOrderMark)
			break
		}
		data = data[1:]
	}
	if a.events {
		a.readEvents(data)
	} else {
		a.readLines(data)
	}
	return n, nil
}

// readLines reads the next piece of JSON, or of lines with a value on each: after such a line the next one is read,
// even if it is broken.
func (a *answerReader) readLines(data []byte) {
	for line := range bytes.Lines(data) {
		line, ends := bytes.CutSuffix(line, []byte("\n"))
		a.scanner.Scan(line)
		a.begun = a.begun || len(bytes.TrimSpace(line)) > 0
		if !ends {
			return
		}
		if a.lines = a.lines || a.begun && a.scanner.IsComplete(); a.lines {
			a.scanner.End()
		} else {
			a.scanner.Scan([]byte("\n"))
		}
	}
}

// readEvents reads the next piece of a stream of events.
func (a *answerReader) readEvents(data []byte) {
	for len(data) > 0 {
		end := bytes.IndexAny(data, "\r\n")
		if end < 0 {
			a.cr = false
			a.readLine(data)
			return
		}
		a.readLine(data[:end])
		if end > 0 || data[0] == '\r' || !a.cr {
			a.endLine()
		}
		a.cr = data[end] == '\r'
		data = data[end+1:]
	}
}

// readLine reads a piece of a line.
func (a *answerReader) readLine(data []byte) {
	for ; len(data) > 0 && a.read >= 0 && a.read < len(dataField); data = data[1:] {
		if a.read++; data[0] != dataField[a.read-1] {
			a.read = -1
		} else if a.read == len(dataField) {
			a.scanner.Scan([]byte("\n")) // between it and an earlier line of data
		}
	}
	if a.read == len(dataField) {
		a.scanner.Scan(data)
	}
}

// endLine ends a line. An empty one ends the event.
func (a *answerReader) endLine() {
	if a.read == 0 {
		a.scanner.End()
	}
	a.read = 0
}

// answerFields returns the placeholders of the answer that rules of the debits have.
func (p *Pending) answerFields() (names []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, d := range p.debits {
		if rule := d.terms().Settle; rule != nil {
			names = append(names, rule.Answer...)
		}
	}
	return names
}

// Saw reads the next piece of an answer's body for what it says of the use. A nil Pending reads nothing.
func (p *Pending) Saw(data []byte) {
	if p != nil && p.reader != nil {
		_, _ = p.reader.Write(data) // returns no error
	}
	if p != nil && p.web != nil {
		_, _ = p.web.Write(data)
	}
}

// Watch returns a body of an answer that Saw sees while it is read. A nil Pending reads nothing.
func (p *Pending) Watch(body io.Reader) io.Reader {
	if p != nil && p.reader != nil {
		body = io.TeeReader(body, p.reader)
	}
	if p != nil && p.web != nil {
		body = io.TeeReader(body, p.web)
	}
	return body
}

// publish sets the placeholders of the answer.
func (a *answerReader) publish(repl *caddy.Replacer) {
	if a == nil {
		return
	}
	for name, units := range a.units {
		repl.Set(name, units)
	}
}
