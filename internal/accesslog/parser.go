package accesslog

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// The reasons for a line without a record.
var (
	errFormat    = errors.New("the format of the line is not recognized")
	errNoTime    = errors.New("the line has no time")
	errNoRequest = errors.New("the line has no method or no path")
	errOther     = errors.New("the line is not about a request")
)

// Parser reads the lines of logs. It is for one goroutine.
type Parser struct {
	formats []format // the format of the last line first
}

// format reads a line into an empty record. It returns errFormat for a line of another format.
type format interface {
	parse(line []byte, r *Record) error
}

// NewParser returns a parser of a format: caddy, traefik, the name of one of the presets, or a string
// as in nginx's log_format. For an empty name, each line is tried with all known formats.
func NewParser(name string) (*Parser, error) {
	p := new(Parser)
	switch {
	case strings.Contains(name, "$"):
		f, err := compileFormat(name)
		if err != nil {
			return nil, err
		}
		p.formats = []format{f}
	case name == "":
		p.formats = []format{new(caddyJSON), new(traefikJSON)}
		p.add(guessed...)
	case name == "caddy":
		p.formats = []format{new(caddyJSON)}
	case name == "traefik":
		p.formats = []format{new(traefikJSON)}
		p.add("traefik")
	case presets[name] != "":
		p.add(name)
	default:
		return nil, fmt.Errorf("format: got %q: expected caddy, %s, or a string such as %s", name,
			strings.Join(slices.Sorted(maps.Keys(presets)), ", "), presets["combined"])
	}
	return p, nil
}

// add adds presets.
func (p *Parser) add(names ...string) {
	for _, name := range names {
		f, err := compileFormat(presets[name])
		if err != nil {
			panic(err) // a preset is invalid, which tests detect
		}
		p.formats = append(p.formats, f)
	}
}

// parse reads a line into a record.
func (p *Parser) parse(line []byte, r *Record) error {
	if line = bytes.TrimRight(line, "\r\n"); len(line) == 0 {
		return errFormat
	}
	for i, f := range p.formats {
		r.reset()
		err := f.parse(line, r)
		if err == errFormat {
			continue
		}
		if err == nil && i > 0 {
			copy(p.formats[1:i+1], p.formats[:i])
			p.formats[0] = f
		}
		return err
	}
	return errFormat
}
