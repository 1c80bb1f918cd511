package enforce

import (
	"net/http"
	"slices"

	"github.com/caddy-tally/caddy-tally/internal/answer"
	"github.com/caddy-tally/caddy-tally/internal/bodyfield"
	"github.com/caddy-tally/caddy-tally/internal/collation"
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
	b.kind, b.fields = kind, bodyfield.Read(h.Fields, kind, err, text, r.URL.RawQuery)
	b.keys = make([][]string, len(b.fields))
	for i, value := range b.fields {
		var set any
		if set, err = value.One(); err != nil && err != bodyfield.ErrOtherType {
			set = doubt{b, err}
		}
		v.Repl.Set(h.Fields[i].Placeholder, set)
	}
	return nil
}

// field returns the value of a field.
func (v *Verdict) field(b *body, placeholder string) bodyfield.Value {
	if i := v.indexOf(placeholder); i >= 0 && i < len(b.fields) {
		return b.fields[i]
	}
	return bodyfield.Value{}
}

func (v *Verdict) indexOf(placeholder string) int {
	return slices.IndexFunc(v.Handler.Fields, func(f bodyfield.Field) bool { return f.Placeholder == placeholder })
}

// maxFieldKey is how many bytes of a field's value tell it from others, about: accounts have shorter names.
const maxFieldKey = 1 << 10

// fieldKeys returns the keys of a field's values, as databases compare them, if bodies of a type have the field.
func (v *Verdict) fieldKeys(b *body, placeholder string, kind bodyfield.Type) []string {
	i := v.indexOf(placeholder)
	if i < 0 || i >= len(b.fields) || v.Handler.Fields[i].Type != kind {
		return nil
	}
	if b.keys[i] == nil {
		for _, text := range b.fields[i].Texts {
			for _, key := range collation.Keys(text, maxFieldKey) {
				if !slices.Contains(b.keys[i], key) {
					b.keys[i] = append(b.keys[i], key)
				}
			}
		}
	}
	return b.keys[i]
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
	hasOther := func(names []string) bool {
		return len(names) > 0 && !slices.ContainsFunc(names,
			func(name string) bool { return e.field(&e.body, name).Err != bodyfield.ErrOtherType })
	}
	hasSeveral := func(name string) bool { return len(e.field(&e.body, name).Texts) > 1 }
	switch {
	case z.Fields == nil:
		return nil
	case hasOther(z.KeyFields) || hasOther(z.TierFields):
		return otherBody
	case z.readings(e) > bodyfield.MaxReadings || slices.ContainsFunc(z.TierFields, hasSeveral):
		return malformedBody
	}
	return nil
}

// readings returns the number of keys that a request may have in the zone, as different programs read it. It
// counts for each of them.
func (z *Zone) readings(e *Evaluation) int {
	n := z.readingsAs(bodyfield.IsForm, e) + z.readingsAs(bodyfield.IsJSON, e)
	return min(max(n, 1), bodyfield.MaxReadings+1)
}

// readingsAs returns the number of keys that programs may read which take the request for one with such a body. It is
// 0 if they find no field. A query is read by either.
func (z *Zone) readingsAs(kind bodyfield.Type, e *Evaluation) int {
	if sent := e.body.kind; sent != kind && (sent == bodyfield.IsForm || sent == bodyfield.IsJSON) {
		return 0
	}
	n, found := 1, false
	for _, name := range z.KeyFields {
		if keys := e.fieldKeys(&e.body, name, kind); len(keys) > 0 {
			n, found = n*len(keys), true
		}
	}
	if !found {
		return 0
	}
	return n
}
