package enforce

import (
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/caddy-tally/caddy-tally/internal/bodyfield"
)

// This file asks matchers about each value of a field, since programs may read any of them.

// Reads is what matchers read of requests that programs may read in several ways.
type Reads struct {
	Names []string       // placeholders of fields of bodies, header fields, cookies and parameters of queries
	Words []string       // what they may be compared with, longest first
	Find  *regexp.Regexp // finds one of Words, in any case
}

// The beginnings of placeholders of requests with several values.
const (
	cookieOfRequest = "http.request.cookie."
	parameter       = "http.request.uri.query."
)

// MayHaveSeveral reports whether a placeholder may have several values. Programs read one of them.
func MayHaveSeveral(name string) bool {
	isIn := func(family string) bool { return strings.HasPrefix(name, family) }
	return bodyfield.IsField(name) || slices.ContainsFunc([]string{headerField, cookieOfRequest, parameter}, isIn)
}

// mostReadings bounds the combinations of values of several fields.
const mostReadings = 64

// reading is one or more placeholders with several values.
type reading struct {
	names []string
	texts []string
}

// each calls ask while the request has one value of each field, for all combinations, until ask returns false. The
// result is false if there are too many. With priced, a field that can't be read may have each of the words, and a
// value another case.
func (e *Evaluation) each(reads *Reads, priced bool, ask func() (more bool)) bool {
	if len(reads.Names) == 0 {
		ask()
		return true
	}
	found, n := e.readings(reads, priced), 1
	for _, f := range found {
		if n *= len(f.texts); n > mostReadings {
			return false
		}
	}
	for _, f := range found {
		defer e.restore(f.names)()
	}
	for i, more := 0, true; i < n && more; i++ {
		nth := i
		for _, f := range found {
			for _, name := range f.names {
				e.set(name, f.texts[nth%len(f.texts)])
			}
			nth /= len(f.texts)
		}
		more = ask()
	}
	return true
}

// readings returns the placeholders that have several values, or may have.
func (e *Evaluation) readings(reads *Reads, priced bool) (found []reading) {
	isTyped := func(name string) bool {
		return bodyfield.IsField(name) && e.field(&e.body, name).Err != bodyfield.ErrOtherType
	}
	typed := priced && slices.ContainsFunc(reads.Names, isTyped) // a body is of one type, and has no fields of another
	var unknown reading
	for _, name := range reads.Names {
		texts, err := e.valuesOf(name)
		switch isKnown := err == nil || err == bodyfield.ErrOtherType && (typed || !priced); {
		case !isKnown && (priced || !bodyfield.IsField(name)): // otherwise the placeholder says so
			unknown.names, unknown.texts = append(unknown.names, name), append(unknown.texts, texts...)
		case isKnown:
			if len(texts) > 1 {
				texts = slices.Compact(slices.Sorted(slices.Values(texts)))
			}
			if priced && len(texts) <= mostReadings {
				texts = reads.spell(texts)
			}
			if len(texts) > 1 {
				found = append(found, reading{[]string{name}, texts})
			}
		}
	}
	if len(unknown.names) > 0 {
		unknown.texts = slices.Concat([]string{""}, reads.spell(unknown.texts), reads.Words)
		found = append(found, unknown)
	}
	return found
}

// valuesOf returns the values of a placeholder as programs may read it, and the one that Caddy reads. The error is why
// there may be others.
func (e *Evaluation) valuesOf(name string) (texts []string, err error) {
	if bodyfield.IsField(name) {
		v := e.field(&e.body, name)
		return v.Texts, v.Err
	}
	if field, isHeader := strings.CutPrefix(name, headerField); isHeader {
		if texts = e.Http.Header[http.CanonicalHeaderKey(field)]; len(texts) > 1 {
			texts = append([]string{strings.Join(texts, ",")}, texts...)
		}
		return texts, nil
	}
	if cookie, isCookie := strings.CutPrefix(name, cookieOfRequest); isCookie {
		for _, sent := range e.Http.Cookies() {
			if strings.EqualFold(sent.Name, cookie) {
				texts = append(texts, sent.Value)
			}
		}
		return texts, nil
	}
	if e.Http.URL.RawQuery == "" {
		return nil, nil
	}
	f, _ := bodyfield.NewField(bodyfield.Form + strings.TrimPrefix(name, parameter))
	v := bodyfield.Read([]bodyfield.Field{f}, bodyfield.Empty, nil, "", e.Http.URL.RawQuery)[0]
	one, _ := e.Repl.GetString(name)
	return append(v.Texts, one), v.Err
}

// maxSpelled is how long a value is that may be a word in another case.
const maxSpelled = 1 << 10

// spell returns values, and those that are words of the matchers in another case, or with white space around them, as
// these words.
func (r *Reads) spell(texts []string) (all []string) {
	for _, text := range texts {
		spelled := strings.TrimSpace(text)
		if r.Find != nil && len(spelled) <= maxSpelled {
			spelled = r.Find.ReplaceAllStringFunc(spelled, func(found string) string {
				return r.Words[slices.IndexFunc(r.Words,
					func(word string) bool { return strings.EqualFold(word, found) })]
			})
		}
		for _, one := range []string{text, spelled} {
			if !slices.Contains(all, one) {
				all = append(all, one)
			}
		}
	}
	return all
}

// set gives a placeholder, and the header field that it is, one value.
func (e *Evaluation) set(name, text string) {
	if field, isHeader := strings.CutPrefix(name, headerField); isHeader {
		e.Http.Header[http.CanonicalHeaderKey(field)] = []string{text}
	}
	e.Repl.Set(name, text)
}

// restore returns what gives placeholders back their values.
func (e *Evaluation) restore(names []string) func() {
	values, lines := make([]any, len(names)), make([][]string, len(names))
	for i, name := range names {
		values[i], _ = e.Repl.Get(name)
		lines[i] = e.Http.Header[http.CanonicalHeaderKey(strings.TrimPrefix(name, headerField))]
	}
	return func() {
		for i, name := range names {
			if field, isHeader := strings.CutPrefix(name, headerField); isHeader {
				e.Http.Header[http.CanonicalHeaderKey(field)] = lines[i]
			}
			if e.Repl.Delete(name); bodyfield.IsField(name) {
				e.Repl.Set(name, values[i])
			}
		}
	}
}
