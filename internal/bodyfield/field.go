package bodyfield

import (
	"encoding/json"
	"errors"
	"mime"
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"
)

// The placeholders of fields.
const (
	Form   = "http.rate_limit.form."
	JSON   = "http.rate_limit.json."
	Answer = "http.rate_limit.answer."
)

// Field is a field of requests' bodies, named by a placeholder.
type Field struct {
	Placeholder string    // without braces
	Type        Type      // of the bodies that have it
	name        *formName // in forms and queries
	path        []string  // in JSON; nil for forms
}

// NewField returns the field that a placeholder names. The result is false if it names none.
func NewField(placeholder string) (f Field, ok bool) {
	f.Placeholder, f.Type = placeholder, typeOfField(placeholder)
	if f.Type == IsForm {
		f.name = newFormName(strings.TrimPrefix(placeholder, Form))
		return f, f.name.name != ""
	}
	path := strings.TrimPrefix(placeholder, JSON)
	f.name, f.path = newFormName(strings.ReplaceAll(path, ".", "[")), newPath(path)
	return f, f.Type == IsJSON && f.path != nil
}

// newPath returns the names of a path such as `user.email`, or nil if one is missing.
func newPath(text string) []string {
	if names := strings.Split(text, "."); !slices.Contains(names, "") {
		return names
	}
	return nil
}

// AnswerPaths returns the paths at which a placeholder of an answer is found: `usage.total`, or alternatives such as
// `usage.total|response.usage.total`. One that misses a name is nil.
func AnswerPaths(placeholder string) (paths [][]string) {
	for path := range strings.SplitSeq(strings.TrimPrefix(placeholder, Answer), "|") {
		paths = append(paths, newPath(path))
	}
	return paths
}

// IsField reports whether a placeholder is meant for a field of requests' bodies.
func IsField(placeholder string) bool { return typeOfField(placeholder) != Other }

// typeOfField returns the type of the bodies that have a field, or Other for another placeholder.
func typeOfField(placeholder string) Type {
	switch {
	case strings.HasPrefix(placeholder, Form):
		return IsForm
	case strings.HasPrefix(placeholder, JSON):
		return IsJSON
	}
	return Other
}

// MaxReadings is how many values a field may have at most. A body with more is malformed.
const MaxReadings = 8

// The errors about a body.
var (
	ErrTooLong   = errors.New("the body is too long to find its fields")
	ErrMalformed = errors.New("the fields of the body can't be read with certainty")
	ErrOtherType = errors.New("the body is of a type without these fields")
)

// Value is what may be in a field.
type Value struct {
	Texts []string // different ones, as different programs may read it
	Err   error    // why it isn't known; or nil. With ErrOtherType, texts are those of the query
}

// One returns the value that all programs read, or "" if there is none. The error is why there may be another.
func (v Value) One() (string, error) {
	if len(v.Texts) > 1 {
		return "", ErrMalformed
	}
	return v.Text(0), v.Err
}

// Text returns the nth of the values, or "" if there is none.
func (v Value) Text(nth int) string {
	if nth >= len(v.Texts) {
		return ""
	}
	return v.Texts[nth]
}

func (v Value) isKnown() bool { return v.Err == nil || v.Err == ErrOtherType }

func (v *Value) fail(err error) { v.Err, v.Texts = err, nil }

// Type is the type of a body.
type Type int

// The types of bodies.
const (
	Other Type = iota
	Empty
	IsForm
	IsJSON
)

var types = map[string]Type{"application/x-www-form-urlencoded": IsForm, "application/json": IsJSON}

// TypeOf returns the type of a request's body by its header. The error is ErrMalformed if programs may
// decode such a body in different ways.
func TypeOf(h http.Header) (kind Type, err error) {
	for _, text := range h["Content-Type"] {
		end := strings.IndexAny(text+";", ";, \t")
		if known := types[strings.ToLower(text[:end])]; known != Other {
			kind = known
			_, params, invalid := mime.ParseMediaType(text)
			if charset, isSet := params["charset"]; invalid != nil || isSet && !strings.EqualFold(charset, "utf-8") ||
				mayNameAType(kind, text[end:]) {
				err = ErrMalformed
			}
		}
	}
	if kind != Other && (len(h["Content-Type"]) > 1 || IsEncoded(h)) {
		err = ErrMalformed
	}
	return kind, err
}

// IsEncoded reports whether a header says that its body is compressed, or encoded in another way.
func IsEncoded(h http.Header) bool {
	isCoding := func(text string) bool { return text != "" && !strings.EqualFold(text, "identity") }
	return slices.ContainsFunc(h["Content-Encoding"], isCoding)
}

// mayNameAType reports whether some program may take parameters after a type for another one, as Laravel does for
// `x="/json"`. URLs are common beside JSON: `profile="https://…"`.
func mayNameAType(kind Type, params string) bool {
	hasType := func(param string) bool {
		isURL := kind == IsJSON && strings.Contains(param, "://") &&
			!strings.Contains(strings.ToLower(param), "urlencoded")
		return strings.ContainsAny(param, "/+") && !isURL
	}
	return slices.ContainsFunc(strings.Split(params, ";"), hasType)
}

// reading is a body that is being read.
type reading struct {
	fields []Field
	values []Value
}

// Read returns the values of fields in a body. Those in the query are among them, since programs may prefer them.
// If err isn't nil, it is why nothing is known of a body of this type.
func Read(fields []Field, kind Type, err error, body, query string) []Value {
	r := &reading{fields, make([]Value, len(fields))}
	for i, f := range fields {
		if kind != Empty && kind != f.Type {
			r.values[i].Err = ErrOtherType
		}
	}
	switch {
	case err != nil:
		r.fail(err, kind)
	case kind == IsJSON:
		r.readJSON([]byte(body))
	case kind == IsForm:
		r.readForm(body, IsForm)
	}
	r.readForm(query, IsForm, IsJSON)
	return r.values
}

// readJSON adds the values of fields in JSON. Those in an array or an object count each, since programs may
// take one of them. The ends of a path count at the top level, too: Rails wraps a body in a name of its own.
func (r *reading) readJSON(body []byte) {
	var paths [][]string
	var fields []int
	for i, f := range r.fields {
		for path := f.path; len(path) > 0; path = path[1:] {
			paths, fields = append(paths, path), append(fields, i)
		}
	}
	s := NewScanner(paths, false, func(path int, text string) { r.add(fields[path], text) })
	s.maxToken = len(body)
	if !utf8.Valid(body) || !json.Valid(body) || !s.Scan(body) || !s.End() {
		r.fail(ErrMalformed, IsJSON)
	}
}

// add adds a value.
func (r *reading) add(field int, text string) {
	v := &r.values[field]
	switch {
	case !v.isKnown() || slices.Contains(v.Texts, text):
	case !isText(text) || len(v.Texts) == MaxReadings:
		v.fail(ErrMalformed)
	default:
		v.Texts = append(v.Texts, text)
	}
}

// fail notes why no field of some types is known.
func (r *reading) fail(err error, types ...Type) {
	for i := range r.values {
		if v := &r.values[i]; v.isKnown() && slices.Contains(types, r.fields[i].Type) {
			v.fail(err)
		}
	}
}

// isText reports whether programs read a text alike: some end it at a NUL, or at bytes that aren't UTF-8.
func isText(text string) bool { return utf8.ValidString(text) && strings.IndexByte(text, 0) < 0 }
