package endpoint

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// IsCanonical reports whether all programs read the path the same way: it has no empty, dotted or
// padded segment, no `\` or `;`, and no encoded character that could stand for itself or that has a
// special meaning when decoded.
func (r *Request) IsCanonical() bool {
	if r.isPlain() {
		return true
	}
	if r.Odd || r.isLong() || hasSession(r.Path) || !strings.HasPrefix(r.Path, "/") || !utf8.ValidString(r.Path) {
		return false
	}
	before := '/'
	for i, c := range r.Path {
		switch {
		case c < utf8.RuneSelf && kinds[c] == odd && c != ' ', isBlank(c) && before == '/':
			return false
		case (c == '/' || c == '.') && (isBlank(before) || before == '.'):
			return false
		case c == '/' && before == '/' && i > 0:
			return false
		case 0xff01 <= c && c <= 0xff5e:
			return false
		}
		before = c
	}
	return !isBlank(before) && before != '.' && r.isEncodedAsNeeded()
}

// isEncodedAsNeeded reports whether the only percent-encoded characters are those that can't stand
// for themselves.
func (r *Request) isEncodedAsNeeded() bool {
	for rest := r.RawPath; rest != ""; {
		_, after, found := strings.Cut(rest, "%")
		if !found {
			return true
		}
		if len(after) < 2 || !isHex(after[0]) || !isHex(after[1]) {
			return false
		}
		c := unhex(after[0])<<4 | unhex(after[1])
		if c < utf8.RuneSelf && !strings.ContainsRune(" \"<>^`{|}[]", rune(c)) {
			return false
		}
		rest = after[2:]
	}
	return true
}

// mostCanonical is the most parameters of a canonical query.
const mostCanonical = 64

// HasCanonicalQuery reports whether all programs find the same parameters in the query: no repeated
// ones, and no ambiguous separators or encodings.
func (r *Request) HasCanonicalQuery() bool {
	var few [fewParameters]parameter
	params := r.parameters(few[:0])
	if params.mixed || params.unread || len(params.list) > mostCanonical {
		return false
	}
	for i := range params.list {
		p := &params.list[i]
		twice := func(other parameter) bool { return strings.EqualFold(other.name, p.name) }
		if p.name == anyText || p.value == anyText || p.sent && strings.Contains(decoded(p.value), "%") || slices.ContainsFunc(params.list[:i], twice) {
			return false
		}
	}
	return true
}
