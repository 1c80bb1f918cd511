package bodyfield

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
)

// The bounds on what a scanner remembers.
const (
	maxDepth = 512      // of objects and arrays, as for PHP
	maxToken = 64 << 10 // bytes of a name or a value; longer ones are ignored
)

// Scanner finds the values at paths in JSON values that come in pieces, one value after the other. Its memory
// is bounded by their depth. It ignores arrays: their elements are at the path of the array.
// It finds what a decoder finds in valid JSON, and doesn't check that it is valid.
type Scanner struct {
	paths   [][]string
	exact   bool // a value inside of one at a path isn't found
	found   func(path int, text string)
	open    []byte // the brackets that are open
	objects int    // that are open
	matched []int  // per path: how many of its names are those of the open objects, from the outside
	isName  bool   // the next string is a name
	wanted  bool   // the next value is at a path
	state   state
	token   []byte // of an unfinished string or literal
	keeps   bool   // the token is needed
	escaped bool   // the token has a backslash
	broken  bool
}

type state byte

const (
	between state = iota
	inString
	inEscape
	inLiteral
)

// NewScanner returns a scanner that calls found for each scalar value at one of the paths: also for those
// inside of an object at a path, unless exact is set. There is nothing at an empty path. The text is that of a string, or the JSON of another
// value: nothing for null, and numbers in one spelling.
func NewScanner(paths [][]string, exact bool, found func(path int, text string)) *Scanner {
	return &Scanner{paths: paths, exact: exact, found: found, matched: make([]int, len(paths))}
}

// Scan reads the next piece. The result is false if that isn't JSON, or too deep, now or before.
func (s *Scanner) Scan(data []byte) bool {
	for i := 0; i < len(data) && !s.broken; {
		switch s.state {
		case between:
			s.begin(data[i])
			i++
		case inString:
			end := i
			for end < len(data) && data[end] != '"' && data[end] != '\\' {
				end++
			}
			s.keep(data[i:end])
			if i = end; i == len(data) {
				break
			}
			if s.state = between; data[i] == '\\' {
				s.keep(data[i : i+1])
				s.state, s.escaped = inEscape, true
			} else {
				s.endString()
			}
			i++
		case inEscape:
			s.keep(data[i : i+1])
			s.state = inString
			i++
		case inLiteral:
			if isDelimiter(data[i]) {
				s.endLiteral()
				continue
			}
			s.keep(data[i : i+1])
			i++
		}
	}
	return !s.broken
}

// End ends a value that is complete, and prepares for another one. The result is false if there was none.
func (s *Scanner) End() bool {
	if s.state == inLiteral {
		s.endLiteral()
	}
	complete := !s.broken && s.state == between && len(s.open) == 0
	s.open, s.objects, s.isName, s.wanted, s.state, s.broken = s.open[:0], 0, false, false, between, false
	clear(s.matched)
	return complete
}

func isDelimiter(c byte) bool {
	return c <= ' ' || c == ',' || c == ':' || c == '"' || c == '{' || c == '}' || c == '[' || c == ']'
}

// begin reads a byte outside of strings and literals.
func (s *Scanner) begin(c byte) {
	switch c {
	case ' ', '\t', '\r', '\n', ':':
	case '{', '[':
		if s.broken = s.isName || len(s.open) == maxDepth; s.broken {
			return
		}
		s.open = append(s.open, c)
		if c == '{' {
			s.objects++
			s.isName = true
		}
	case '}', ']':
		if s.broken = len(s.open) == 0 || s.open[len(s.open)-1] != c-2; s.broken {
			return
		}
		if s.open = s.open[:len(s.open)-1]; c == '}' {
			s.objects--
			s.forget(s.objects)
		}
		s.isName = false
	case ',':
		s.isName = len(s.open) > 0 && s.open[len(s.open)-1] == '{'
	case '"':
		s.state, s.token, s.escaped = inString, s.token[:0], false
		s.keeps = s.wanted
		if s.isName {
			s.forget(s.objects - 1)
			s.keeps = slices.ContainsFunc(s.matched, func(n int) bool { return n == s.objects-1 })
		}
	default:
		s.broken = s.isName
		s.state, s.token, s.keeps = inLiteral, append(s.token[:0], c), s.wanted
	}
}

// keep adds to the token, if that is needed.
func (s *Scanner) keep(data []byte) {
	if s.keeps = s.keeps && len(s.token)+len(data) <= maxToken; s.keeps {
		s.token = append(s.token, data...)
	}
}

func (s *Scanner) endString() {
	if s.keeps {
		text := s.text()
		if s.isName {
			s.enter(text)
		} else {
			s.report(text)
		}
	}
	s.isName = false
}

// text returns the token, which is a string.
func (s *Scanner) text() (text string) {
	if !s.escaped {
		return string(s.token)
	}
	quoted := append(append([]byte{'"'}, s.token...), '"')
	s.broken = json.Unmarshal(quoted, &text) != nil
	return text
}

func (s *Scanner) endLiteral() {
	s.state = between
	if !s.keeps {
		return
	}
	text := string(s.token)
	if n, err := strconv.ParseFloat(text, 64); err == nil {
		text = strconv.FormatFloat(n+0, 'f', -1, 64) // 0 for -0
	}
	s.report(strings.TrimPrefix(text, "null"))
}

// forget forgets the names inside of the outermost n objects.
func (s *Scanner) forget(n int) {
	s.wanted = false
	for i := range s.matched {
		s.matched[i] = min(s.matched[i], n)
		s.wanted = s.wanted || s.isWanted(i)
	}
}

// enter notes the name of the innermost object's next value.
func (s *Scanner) enter(name string) {
	for i, path := range s.paths {
		if s.matched[i] == s.objects-1 && s.objects <= len(path) && strings.EqualFold(path[s.objects-1], name) {
			s.matched[i] = s.objects
			s.wanted = s.wanted || s.isWanted(i)
		}
	}
}

// isWanted reports whether the next value is at a path.
func (s *Scanner) isWanted(i int) bool {
	n := len(s.paths[i])
	return n > 0 && s.matched[i] == n && (!s.exact || s.objects == n)
}

func (s *Scanner) report(text string) {
	for i := range s.paths {
		if s.isWanted(i) {
			s.found(i, text)
		}
	}
}
