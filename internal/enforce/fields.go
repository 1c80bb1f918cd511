package enforce

import (
	"net/http"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"golang.org/x/text/unicode/norm"

	"github.com/caddy-tally/caddy-tally/internal/answer"
	"github.com/caddy-tally/caddy-tally/internal/bodyfield"
)

// This file decides by fields of bodies.

// The denials of bodies whose fields a zone needs.
var (
	tooLongBody   = answer.NewDenial(http.StatusRequestEntityTooLarge, bodyfield.ErrTooLong.Error())
	malformedBody = answer.NewDenial(http.StatusBadRequest, bodyfield.ErrMalformed.Error())
	otherBody     = answer.NewDenial(http.StatusUnsupportedMediaType, bodyfield.ErrOtherType.Error())
)

// readFields reads the handler's fields, and sets their placeholders until unpeek: to the value, or if that isn't
// certain, to what makes matchers return an error.
func (b *body) readFields(v *Verdict) error {
	r, h, text := v.Http, v.Handler, ""
	kind, err := bodyfield.TypeOf(r.Header)
	switch {
	case !hasBody(r) || r.ContentLength == 0:
		kind, err = bodyfield.Empty, nil
	case r.ContentLength > h.ReadsFields:
		err = bodyfield.ErrTooLong
	case kind != bodyfield.Other && err == nil:
		read, longer, failed := b.readAhead(v, h.ReadsFields)
		if failed != nil {
			return failed
		}
		if text, failed = read.Text(); failed != nil {
			return answer.ErrNoRoom
		}
		if longer {
			err = bodyfield.ErrTooLong
		} else if text == "" {
			kind = bodyfield.Empty
		}
	}
	b.fields = bodyfield.Read(h.Fields, kind, err, text, r.URL.RawQuery)
	for i, value := range b.fields {
		var set any
		if set, err = value.One(); err != nil && err != bodyfield.ErrOtherType {
			set = caddyhttp.RequestBodyLimitError{Err: err}
		}
		v.Repl.Set(h.Fields[i].Placeholder, set)
	}
	return nil
}

// field returns the value of a field.
func (v *Verdict) field(b *body, placeholder string) bodyfield.Value {
	i := slices.IndexFunc(v.Handler.Fields, func(f bodyfield.Field) bool { return f.Placeholder == placeholder })
	if i < 0 || i >= len(b.fields) {
		return bodyfield.Value{}
	}
	return b.fields[i]
}

// checkFields returns the reason if the zone needs fields that a body can't be read for, or nil.
func (z *Zone) checkFields(e *Evaluation) *answer.Denial {
	for _, name := range z.Fields {
		switch e.field(&e.body, name).Err {
		case bodyfield.ErrTooLong:
			return tooLongBody
		case bodyfield.ErrMalformed:
			return malformedBody
		}
	}
	hasType := func(name string) bool { return e.field(&e.body, name).Err != bodyfield.ErrOtherType }
	switch {
	case z.Fields == nil || len(z.KeyFields) == 0:
		return nil
	case !slices.ContainsFunc(z.KeyFields, hasType):
		return otherBody
	case z.readings(e) > bodyfield.MaxReadings:
		return malformedBody
	}
	return nil
}

// readings returns the number of keys that a request may have in the zone, as different programs read its
// body. It counts for each of them.
func (z *Zone) readings(e *Evaluation) int {
	n := 1
	for _, name := range z.KeyFields {
		n *= max(len(e.field(&e.body, name).Texts), 1)
	}
	return min(n, bodyfield.MaxReadings+1)
}

// maxFieldKey is how many bytes of a field's value tell it from others, about: accounts have shorter names.
const maxFieldKey = 1 << 10

// fieldKey returns a value of a field for a key: in one spelling, since databases compare without regard to
// case, accents and invisible characters, and numbers without regard to zeros before them.
func fieldKey(text string) string {
	var key []byte
	var scratch [64]byte // a character decomposes to 18 at most
	zero := ""
	for _, c := range text {
		if len(key) >= maxFieldKey {
			break
		}
		switch {
		case len(key) == 0 && c == '0':
			zero = "0"
		case len(key) == 0 && zero == "" && unicode.IsSpace(c):
		case c >= ' ' && c < 0x7f:
			key = append(key, byte(unicode.ToLower(c)))
		case isInvisible(c):
		default:
			for _, c := range string(norm.NFKD.AppendString(scratch[:0], string(c))) {
				if !isInvisible(c) {
					key = utf8.AppendRune(key, unicode.ToLower(c))
				}
			}
		}
	}
	folded := strings.TrimSpace(zero + string(key))
	if number := strings.TrimPrefix(folded, zero); number != "" && strings.Trim(number, "0123456789") == "" {
		return number
	}
	return folded
}

func isInvisible(c rune) bool { return unicode.In(c, unicode.Mn, unicode.Cc, unicode.Cf) }
