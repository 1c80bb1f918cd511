package bodyfield

import (
	"encoding/json"
	"errors"
	"strconv"
	"strings"
)

// The bounds on what a scanner remembers.
const (
	maxDepth = 512      // of objects and arrays, as for PHP
	maxToken = 64 << 10 // bytes of a name or a value in an answer; longer ones are ignored
)

// Scanner finds the values at paths in JSON values that come in pieces, one value after the other. Its memory
// is bounded by their depth. It ignores arrays: their elements are at the path of the array.
// It finds what a decoder finds in valid JSON, and doesn't check that it is valid.
type Scanner struct {
	paths    [][]string
	exact    bool // a value inside of one at a path isn't found
	maxToken int
	found    func(path int, text string)
	open     []byte   // the brackets that are open
	names    []string // per open object: where the value is, as a path has it; "" if none has it
	isName   bool     // the next string is a name
	state    state
	token    []byte // of an unfinished string or literal, if that is needed
	keeps    bool   // the token is needed

	escaped, escapes bool // the token has a backslash; the last byte was one
	broken           bool
}

type state byte

const (
	between state = iota
	inString
	inLiteral
)

// NewScanner returns a scanner that calls found for each scalar value at one of the paths: also for those
// inside of an object at a path, unless exact is set. There is nothing at an empty path. The text is that of a string,
// or the JSON of another value: nothing for null, and numbers in one spelling.
func NewScanner(paths [][]string, exact bool, found func(path int, text string)) *Scanner {
	return &Scanner{paths: paths, exact: exact, maxToken: maxToken, found: found}
}

// Scan reads the next piece. The result is false if that isn't JSON, or too deep, now or before.
func (s *Scanner) Scan(data []byte) bool {
	for len(data) > 0 && !s.broken {
		end := 0
		switch s.state {
		case between:
			s.begin(data[0])
			data = data[1:]
			continue
		case inString:
			escapes := s.escapes
			for ; end < len(data) && (escapes || data[end] != '"'); end++ {
				if escapes = !escapes && data[end] == '\\'; escapes {
					s.escaped = true
				}
			}
			s.escapes = escapes
		case inLiteral:
			for end < len(data) && !isDelimiter(data[end]) {
				end++
			}
		}
		s.keep(data[:end])
		if data = data[end:]; len(data) > 0 {
			if s.state == inString {
				data = data[1:]
			}
			s.endToken()
		}
	}
	return !s.broken
}

// IsComplete reports whether all values have ended, except for a literal outside of objects and arrays.
func (s *Scanner) IsComplete() bool { return !s.broken && s.state == between && len(s.open) == 0 }

// End ends a value, and prepares for another one. The result is false if it wasn't complete.
func (s *Scanner) End() bool {
	if s.state == inLiteral && len(s.open) == 0 { // others are cut off
		s.endToken()
	}
	complete := s.IsComplete()
	s.open, s.names, s.isName, s.escapes, s.state, s.broken = s.open[:0], s.names[:0], false, false, between, false
	return complete
}

func isDelimiter(c byte) bool {
	return c <= ' ' || c == ',' || c == ':' || c == '"' || c == '{' || c == '}' || c == '[' || c == ']'
}

// begin reads a byte outside of strings and literals.
func (s *Scanner) begin(c byte) {
	last := len(s.open) - 1
	switch c {
	case ' ', '\t', '\r', '\n', ':':
	case '{', '[':
		s.broken = s.isName || len(s.open) == maxDepth
		s.open = append(s.open, c)
		if s.isName = c == '{'; s.isName {
			s.names = append(s.names, "")
		}
	case '}', ']':
		if s.broken = last < 0 || s.open[last] != c-2; s.broken {
			return
		}
		if s.open = s.open[:last]; c == '}' {
			s.names = s.names[:len(s.names)-1]
		}
		s.isName = false
	case ',':
		s.isName = last >= 0 && s.open[last] == '{'
	default:
		s.broken = s.isName && c != '"'
		s.keeps = s.isName
		for _, path := range s.paths {
			s.keeps = s.keeps || s.isAt(path)
		}
		if s.state, s.token, s.escaped = inString, s.token[:0], false; c != '"' {
			s.state = inLiteral
			s.keep([]byte{c})
		}
	}
}

// keep adds to the token, if that is needed.
func (s *Scanner) keep(data []byte) {
	if s.keeps = s.keeps && len(s.token)+len(data) <= s.maxToken; s.keeps {
		s.token = append(s.token, data...)
	}
}

// endToken notes a name, or reports a value.
func (s *Scanner) endToken() {
	isString, isName := s.state == inString, s.isName
	s.state, s.isName = between, false
	if isName {
		s.names[len(s.names)-1] = ""
	}
	if !s.keeps {
		return
	}
	text := string(s.token)
	switch {
	case s.escaped:
		s.broken = json.Unmarshal([]byte(`"`+text+`"`), &text) != nil
	case isString:
	case text == "null":
		text = ""
	default:
		digits := strings.TrimPrefix(text, "-")
		// not as a float64 without its last digits
		if isWhole := digits != "0" && strings.Trim(digits, "0123456789") == ""; isWhole {
			break
		}
		if n, err := strconv.ParseFloat(text, 64); err == nil || errors.Is(err, strconv.ErrRange) { // also infinity
			text = strconv.FormatFloat(n+0, 'f', -1, 64) // 0 for -0
		}
	}
	for i, path := range s.paths {
		if n := len(s.names) - 1; isName && n < len(path) && strings.EqualFold(path[n], text) {
			s.names[n] = path[n]
			return
		}
		if !isName && s.isAt(path) {
			s.found(i, text)
		}
	}
}

// isAt reports whether the next value is at a path.
func (s *Scanner) isAt(path []string) bool {
	n := len(path)
	if n == 0 || len(s.names) < n || len(s.names) > n && s.exact {
		return false
	}
	for i, name := range s.names[:n] {
		if name != path[i] && !strings.EqualFold(name, path[i]) {
			return false
		}
	}
	return true
}
