package settle

import (
	"bytes"
	"io"
	"mime"
	"net/http"
	"strings"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-tally/caddy-tally/internal/bodyfield"
)

// answerReader reads an answer for the fields that rules name, while it is sent: JSON, a JSON value on each line, or
// a stream of events with JSON as their data. Of several values in one field the last counts.
type answerReader struct {
	names   []string          // of the placeholder of each path
	values  map[string]string // by placeholder
	scanner *bodyfield.Scanner

	events bool   // it is a stream of events
	line   []byte // what is read of a line that may be data; at most as long as dataField
	part   linePart
	cr     bool // the last byte was a carriage return
}

type linePart int

const (
	atName linePart = iota
	inData
	inOther
)

const dataField = "data:"

// newAnswerReader returns a reader for an answer with a header, or nil if there is nothing to read.
func newAnswerReader(placeholders []string, header http.Header) *answerReader {
	kind, _, err := mime.ParseMediaType(header.Get("Content-Type"))
	a := &answerReader{values: make(map[string]string), events: kind == "text/event-stream"}
	if len(placeholders) == 0 || err != nil || !a.events && !strings.Contains(kind, "json") || header.Get("Content-Encoding") != "" {
		return nil
	}
	var paths [][]string
	for _, name := range placeholders {
		for _, path := range bodyfield.AnswerPaths(name) {
			a.names, paths = append(a.names, name), append(paths, path)
		}
	}
	a.scanner = bodyfield.NewScanner(paths, true, func(path int, text string) { a.values[a.names[path]] = text })
	return a
}

// Write implements io.Writer. It reads the next piece of the answer.
func (a *answerReader) Write(data []byte) (int, error) {
	n := len(data)
	if !a.events {
		a.scanner.Scan(data)
		return n, nil
	}
	for len(data) > 0 {
		if a.cr && data[0] == '\n' {
			a.cr, data = false, data[1:]
			continue
		}
		end := bytes.IndexAny(data, "\r\n")
		if a.cr = end >= 0 && data[end] == '\r'; end < 0 {
			a.readLine(data)
			break
		}
		a.readLine(data[:end])
		a.endLine()
		data = data[end+1:]
	}
	return n, nil
}

// readLine reads a piece of a line.
func (a *answerReader) readLine(data []byte) {
	if a.part == atName {
		name := min(len(dataField)-len(a.line), len(data))
		a.line, data = append(a.line, data[:name]...), data[name:]
		if a.part = inOther; strings.HasPrefix(dataField, string(a.line)) {
			if a.part = inData; len(a.line) < len(dataField) {
				a.part = atName
			}
		}
	}
	if a.part == inData {
		a.scanner.Scan(data)
	}
}

// endLine ends a line. An empty one ends the event.
func (a *answerReader) endLine() {
	if a.part == atName && len(a.line) == 0 {
		a.scanner.End()
	}
	a.part, a.line = atName, a.line[:0]
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
}

// Watch returns a body of an answer that Saw sees while it is read. A nil Pending reads nothing.
func (p *Pending) Watch(body io.Reader) io.Reader {
	if p == nil || p.reader == nil {
		return body
	}
	return io.TeeReader(body, p.reader)
}

// publish sets the placeholders of the answer.
func (a *answerReader) publish(repl *caddy.Replacer) {
	if a == nil {
		return
	}
	for name, value := range a.values {
		repl.Set(name, value)
	}
}
