package bodyfield

import (
	"net/url"
	"slices"
	"strings"

	"github.com/caddy-tally/caddy-tally/internal/endpoint"
)

// maxPairs bounds the fields of a form, as programs do: of more, some read the first ones only.
const maxPairs = 4096

// formName is the name of a form's field: `user`, or `user[email]`.
type formName struct {
	name  endpoint.Name
	inner []string // the names in brackets, in lower case
}

func newFormName(written string) *formName {
	parts := strings.FieldsFunc(strings.ToLower(written), func(r rune) bool { return r == '[' || r == ']' })
	return &formName{endpoint.NewName(written), parts[min(1, len(parts)):]}
}

// mayBe reports whether some program may read a name as this one.
func (n *formName) mayBe(sent, decoded string) bool {
	outer, _, isPath := strings.Cut(decoded, ".") // as some programs read user.email
	isMissing := func(part string) bool { return !strings.Contains(strings.ToLower(decoded), part) }
	return (n.name.MayBe(sent) || isPath && n.name.MayBe(outer)) && !slices.ContainsFunc(n.inner, isMissing)
}

// readForm adds the values of fields of some types in a form, or in a query. Some programs also split it at a
// semicolon, and some ignore a `=` before a name, or one that `]=` follows.
func (r *reading) readForm(text string, types ...Type) {
	if !r.readPairs(text, types) || strings.Contains(text, ";") &&
		!r.readPairs(strings.ReplaceAll(text, ";", "&"), types) {
		r.fail(ErrMalformed, types...)
	}
}

// readPairs reports whether a form can be read.
func (r *reading) readPairs(text string, types []Type) bool {
	if strings.Count(text, "&") > maxPairs {
		return false
	}
	for pair := range strings.SplitSeq(text, "&") {
		pair = strings.TrimLeft(pair, "=")
		sent, value, _ := strings.Cut(pair, "=")
		if !r.readPair(sent, value, types) {
			return false
		}
		if at := endpoint.BracketEquals(pair); at >= 0 && !r.readPair(pair[:at], pair[at+1:], types) {
			return false
		}
	}
	return true
}

// readPair reports whether a name and a value can be read.
func (r *reading) readPair(sent, value string, types []Type) bool {
	name, err := url.QueryUnescape(sent)
	if err != nil || !isText(name) {
		return false
	}
	for i, f := range r.fields {
		if !slices.Contains(types, f.Type) || !f.name.mayBe(sent, name) {
			continue
		}
		decoded, err := url.QueryUnescape(value)
		if err != nil {
			return false
		}
		r.add(i, decoded)
	}
	return true
}
