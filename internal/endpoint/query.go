package endpoint

import (
	"fmt"
	"strings"
)

// condition is what must hold of the parameters of a query.
type condition struct {
	key     Name
	value   string   // as readValue gives it
	any     bool     // of whatever value
	pieces  []string // of a value with `*` in it, split there
	written [2]string
}

func newCondition(key, value string) (condition, error) {
	c := condition{key: NewName(key), value: readValue(value), any: value == "*", written: [2]string{key, value}}
	switch {
	case c.key == "":
		return c, fmt.Errorf("a condition on the query has no name, got %q: expected one such as mode=heavy", key+"="+value)
	case value == "":
		return c, fmt.Errorf("the parameter %q has no value: expected %s=heavy, or %s=* for any value", key, key, key)
	case c.value != "*" && strings.Contains(c.value, "*") && strings.ContainsAny(c.value, `[]?\%`):
		return c, fmt.Errorf("the value of %q has one of [ ] ? \\ %% beside *, got %q: expected * and plain text, such as %[1]s=/v2/search*", key, value)
	case strings.ContainsAny(key+value, "&;"):
		return c, fmt.Errorf("the parameter %q has & or ; in it, which set parameters apart", key)
	}
	if strings.Contains(c.value, "*") {
		c.pieces = strings.Split(c.value, "*")
	}
	return c, nil
}

func holdAll(conditions []condition, query string) bool {
	for i := range conditions {
		if !conditions[i].mayHold(query) {
			return false
		}
	}
	return true
}

// mayHold reports whether some program may find the condition to hold: for any of
// several parameters of a name, and for what can't be decoded.
func (c *condition) mayHold(query string) bool {
	return c.mayHoldIn(query, "&;") || strings.IndexByte(query, '?') >= 0 && c.mayHoldIn(query, "&;?")
}

func (c *condition) mayHoldIn(query, separators string) bool {
	for query != "" {
		var pair string
		pair, query = nextPair(query, separators)
		key, value, _ := strings.Cut(pair, "=")
		if c.mayBeKey(key) && (c.any || c.mayBeValue(value)) {
			return true
		}
	}
	return false
}

// nextPair splits a query at one of the separators. Some programs also start again at
// a question mark.
func nextPair(query, separators string) (pair, rest string) {
	if end := strings.IndexAny(query, separators); end >= 0 {
		return query[:end], query[end+1:]
	}
	return query, ""
}

func (c *condition) mayBeKey(key string) bool {
	return c.key.MayBe(key) || !isWord(key) && strings.Contains(decodeParameter(key), "%")
}

// Name is the name of a parameter of a query or of a cookie, as programs read it.
type Name string

// NewName returns the name that is written so.
func NewName(written string) Name { return Name(keyOf(decodeParameter(written))) }

// MayBe reports whether some program may take what a client has sent for the name:
// decoded, in either case, as a list, or with what PHP makes of `.`, `[` and blanks.
func (n Name) MayBe(sent string) bool {
	switch {
	case equalFolded(string(n), sent):
		return true
	case isWord(sent):
		return false
	}
	text := decodeParameter(sent)
	return keyOf(text) == string(n) || mangled(text) == string(n)
}

func (c *condition) mayBeValue(value string) bool {
	switch {
	case c.isFolded(value):
		return true
	case isWord(value):
		return false
	}
	text := decodeParameter(value)
	return strings.Contains(text, "%") || c.isFolded(trimBlanks(text)) || c.isFolded(trimBlanks(cutParameter(text)))
}

// isFolded reports whether a decoded value is that of the condition, in either case.
func (c *condition) isFolded(value string) bool {
	if c.pieces == nil {
		return equalFolded(c.value, value)
	}
	return inOrder(c.pieces, value) || isFolder(c.pieces, value)
}

// inOrder reports whether a text is some pieces, with any text between them.
func inOrder(pieces []string, text string) bool {
	last := len(pieces) - 1
	if !hasFoldedPrefix(text, pieces[0]) {
		return false
	}
	text = text[len(pieces[0]):]
	for _, piece := range pieces[1:last] {
		i := indexFolded(text, piece)
		if i < 0 {
			return false
		}
		text = text[i+len(piece):]
	}
	return len(text) >= len(pieces[last]) && equalFolded(pieces[last], text[len(text)-len(pieces[last]):])
}

// isFolder reports whether a text is the folder of which the pieces are all that is
// below it: /wp/v2 of /wp/v2/*.
func isFolder(pieces []string, text string) bool {
	folder, ok := strings.CutSuffix(pieces[0], "/")
	return ok && len(pieces) == 2 && pieces[1] == "" && equalFolded(folder, text)
}

// is reports whether the condition holds for all programs: there is one parameter
// of the name, exactly as written.
func (c *condition) is(query string) bool {
	held := false
	if strings.ContainsAny(query, ";?#") {
		return false
	}
	for query != "" {
		var pair string
		pair, query = nextPair(query, "&")
		key, value, _ := strings.Cut(pair, "=")
		if !c.mayBeKey(key) {
			continue
		}
		if held || key != c.written[0] || !c.isValue(value) {
			return false
		}
		held = true
	}
	return held
}

// isValue reports whether a value is exactly as it is written. What `*` stands for
// is plain, and without slashes unless the value ends in `/*`, as in paths.
func (c *condition) isValue(value string) bool {
	if c.any || c.pieces == nil {
		return c.any || value == c.written[1]
	}
	if r := (Request{Path: "/" + strings.TrimPrefix(value, "/")}); !r.isPlain() {
		return false
	}
	p := pattern{written: c.written[1], below: strings.HasSuffix(c.written[1], "/*") && len(c.pieces) == 2}
	return p.is(value)
}

// isWord reports whether a text means itself to all programs, but for its case.
func isWord(text string) bool {
	for i := range len(text) {
		c := lower[text[i]]
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '_' && c != '-' {
			return false
		}
	}
	return true
}

// decodeParameter decodes a name or a value. A plus, encoded or not, is a blank: some
// programs decode twice, and who writes a plus in a config may mean either.
func decodeParameter(text string) string {
	return strings.ReplaceAll(fold(text), "+", " ")
}

// keyOf returns the name that a decoded key stands for: mode of mode[], mode[0]
// and [mode].
func keyOf(text string) string {
	text = strings.TrimLeft(cutParameter(text), " []")
	if end := strings.IndexAny(text, "[]"); end > 0 {
		text = text[:end]
	}
	return mangled(text)
}

// mangled returns a decoded key as PHP makes a name of it.
func mangled(text string) string {
	return strings.NewReplacer(".", "_", " ", "_", "[", "_").Replace(trimBlanks(cutParameter(text)))
}

func readValue(value string) string { return trimBlanks(decodeParameter(value)) }

// cutParameter removes what programs don't see that keep text in C strings, or take
// what follows `#` for a fragment.
func cutParameter(text string) string {
	if end := strings.IndexAny(text, "\x00#"); end >= 0 {
		text = text[:end]
	}
	return text
}
