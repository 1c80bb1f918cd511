package endpoint

import (
	"bytes"
	"fmt"
	"strings"
)

// condition is a condition on the parameters of a query.
type condition struct {
	key     Name
	value   string   // in the form of readValue
	any     bool     // matches every value
	pieces  []string // parts of a value between `*`
	written [2]string
}

func newCondition(key, value string) (condition, error) {
	c := condition{key: NewName(key), value: readValue(value), any: value == "*", written: [2]string{key, value}}
	switch {
	case c.key == "":
		return c, fmt.Errorf("a condition on the query has no name, got %q: expected one such as mode=heavy",
			key+"="+value)
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

// mayHold reports whether some program may find that the condition is met: by any of several
// parameters of a name, and by undecodable ones.
func (c *condition) mayHold(list []parameter) bool {
	for i := range list {
		if p := &list[i]; c.mayBeName(p) && c.mayBeValue(p) {
			return true
		}
	}
	return false
}

func (c *condition) mayBeName(p *parameter) bool {
	return p.name == anyText || equalFolded(string(c.key), p.name)
}

func (c *condition) mayBeValue(p *parameter) bool {
	switch {
	case c.any, p.value == anyText, c.isFolded(p.value):
		return true
	case !p.sent || isWord(p.value):
		return false
	}
	text := new(decoder).append(nil, p.value, &lowerParameter)
	return bytes.IndexByte(text, '%') >= 0 || c.isFolded(string(trimBlanks(text))) ||
		c.isFolded(string(trimBlanks(cutParameter(text))))
}

// isFolded reports whether a decoded value matches the condition, in either case.
func (c *condition) isFolded(value string) bool {
	if c.pieces == nil {
		return equalFolded(c.value, value)
	}
	p := pattern{pieces: c.pieces}
	return p.globs(&spelling{text: value, file: -1}, 0, false) || isFolder(c.pieces, value)
}

// isFolder reports whether a text is the folder whose content the pieces describe: /wp/v2 for
// /wp/v2/*.
func isFolder(pieces []string, text string) bool {
	folder, ok := strings.CutSuffix(pieces[0], "/")
	return ok && len(pieces) == 2 && pieces[1] == "" && equalFolded(folder, text)
}

// is reports whether all programs find that the condition is met: there is one parameter of the
// name, exactly as written.
func (c *condition) is(list []parameter) bool {
	held := false
	for i := range list {
		p := &list[i]
		if !c.mayBeName(p) {
			continue
		}
		key, value, _ := strings.Cut(p.pair, "=")
		if held || key != c.written[0] || !c.isValue(value) {
			return false
		}
		held = true
	}
	return held
}

// isValue reports whether a value is exactly as written. `*` stands for plain text, and without
// slashes unless the value ends in `/*`, as in paths.
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

func readValue(value string) string {
	return string(trimBlanks(new(decoder).append(nil, value, &lowerParameter)))
}
