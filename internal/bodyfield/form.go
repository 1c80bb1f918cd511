package bodyfield

import (
	"net/url"
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

func newFormName(written string) formName {
	parts := strings.FieldsFunc(strings.ToLower(written), isBracket)
	return formName{endpoint.NewName(written), parts[min(1, len(parts)):]}
}

func isBracket(r rune) bool { return r == '[' || r == ']' }

// mayBe reports whether some program may read a name as this one.
func (n formName) mayBe(sent, decoded string) bool {
	outer, _, _ := strings.Cut(decoded, ".") // as some programs read user.email
	if !n.name.MayBe(sent) && !n.name.MayBe(outer) {
		return false
	}
	for _, part := range n.inner {
		if !strings.Contains(strings.ToLower(decoded), part) {
			return false
		}
	}
	return true
}

// readForm adds the values of fields in a form, or in a query. Some programs also split it at a semicolon,
// and some ignore a `=` before a name.
func (r *reading) readForm(text string) {
	r.readPairs(text)
	if strings.Contains(text, ";") {
		r.readPairs(strings.ReplaceAll(text, ";", "&"))
	}
}

func (r *reading) readPairs(text string) {
	if strings.Count(text, "&") > maxPairs {
		r.fail(ErrMalformed)
		return
	}
	for pair := range strings.SplitSeq(text, "&") {
		sent, value, _ := strings.Cut(strings.TrimLeft(pair, "="), "=")
		name, err := url.QueryUnescape(sent)
		if err != nil || !isText(name) {
			r.fail(ErrMalformed)
			return
		}
		for i, f := range r.fields {
			if f.form == nil || !f.form.mayBe(sent, name) {
				continue
			}
			decoded, err := url.QueryUnescape(value)
			if err != nil {
				r.fail(ErrMalformed)
				return
			}
			r.add(i, decoded)
		}
	}
}
