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
	form        *formName // or nil
	path        []string  // in JSON
}

// NewField returns the field that a placeholder names. The result is false if it names none.
func NewField(placeholder string) (f Field, ok bool) {
	f.Placeholder = placeholder
	if name, isForm := strings.CutPrefix(placeholder, Form); isForm {
		f.form = newFormName(name)
		return f, f.form.name != ""
	}
	path, isJSON := strings.CutPrefix(placeholder, JSON)
	f.path = newPath(path)
	return f, isJSON && f.path != nil
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
func IsField(placeholder string) bool {
	return strings.HasPrefix(placeholder, Form) || strings.HasPrefix(placeholder, JSON)
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
	Err   error    // why it isn't known; or nil
}

// One returns the value that all programs read, or "" if there is none. The error is why there may be another.
func (v Value) One() (string, error) {
	if v.Err == nil && len(v.Texts) > 1 {
		return "", ErrMalformed
	}
	return v.Text(0), v.Err
}

// Text returns the nth of the values, or "" if there is none.
func (v Value) Text(nth int) string {
	if v.Err != nil || nth >= len(v.Texts) {
		return ""
	}
	return v.Texts[nth]
}

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
			if charset, isSet := params["charset"]; invalid != nil || isSet && !strings.EqualFold(charset, "utf-8") {
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

// reading is a body that is being read.
type reading struct {
	fields []Field
	values []Value
}

// Read returns the values of fields in a body. Those in the query are among those of a form, and of an empty
// body, since programs may prefer them. If err isn't nil, it is why nothing is known of a body of this type.
func Read(fields []Field, kind Type, err error, body, query string) []Value {
	r := &reading{fields, make([]Value, len(fields))}
	for i, f := range fields {
		if kind == Other || kind == IsForm && f.form == nil || kind == IsJSON && f.form != nil {
			r.values[i].Err = ErrOtherType
		}
	}
	switch {
	case err != nil:
		r.fail(err)
	case kind == IsJSON:
		r.readJSON([]byte(body))
	case kind != Other:
		r.readForm(body)
		r.readForm(query)
	}
	return r.values
}

// readJSON adds the values of fields in JSON. Those in an array or an object count each, since programs may
// take one of them.
func (r *reading) readJSON(body []byte) {
	paths := make([][]string, len(r.fields)) // none for those of forms, and nothing is found there
	for i, f := range r.fields {
		paths[i] = f.path
	}
	s := NewScanner(paths, false, r.add)
	if !utf8.Valid(body) || !json.Valid(body) || !s.Scan(body) || !s.End() {
		r.fail(ErrMalformed)
	}
}

// add adds a value.
func (r *reading) add(field int, text string) {
	v := &r.values[field]
	switch {
	case v.Err != nil || slices.Contains(v.Texts, text):
	case !isText(text) || len(v.Texts) == MaxReadings:
		v.Err = ErrMalformed
	default:
		v.Texts = append(v.Texts, text)
	}
}

// fail notes why no field is known.
func (r *reading) fail(err error) {
	for i := range r.values {
		if r.values[i].Err == nil {
			r.values[i].Err = err
		}
	}
}

// isText reports whether programs read a text alike: some end it at a NUL, or at bytes that aren't UTF-8.
func isText(text string) bool { return utf8.ValidString(text) && strings.IndexByte(text, 0) < 0 }
