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

	events bool // it is a stream of events
	read   int  // how many bytes of dataField a line begins with; -1 if it begins with something else
	cr     bool // the last byte was a carriage return
}

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
		end := bytes.IndexAny(data, "\r\n")
		if end < 0 {
			a.cr = false
			a.readLine(data)
			break
		}
		a.readLine(data[:end])
		if end > 0 || data[0] == '\r' || !a.cr {
			a.endLine()
		}
		a.cr = data[end] == '\r'
		data = data[end+1:]
	}
	return n, nil
}

// readLine reads a piece of a line.
func (a *answerReader) readLine(data []byte) {
	for ; len(data) > 0 && a.read >= 0 && a.read < len(dataField); data = data[1:] {
		if a.read++; data[0] != dataField[a.read-1] {
			a.read = -1
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
