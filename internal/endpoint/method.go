package endpoint

import (
	"fmt"
	"slices"
	"strings"
)

// overrideKeys are parameters of the query that name the method for a backend that
// lets clients do so.
var overrideKeys = []string{"_method", "_httpmethod"}

// overrideFields are header fields that do, in small letters. Gateways take `_`
// for `-`.
var overrideFields = []string{"x-http-method-override", "x-http-method", "x-method-override"}

// IsMethod reports whether a word is written as a method: in capitals.
func IsMethod(word string) bool {
	for i := range len(word) {
		if c := word[i]; (c < 'A' || c > 'Z') && (i == 0 || c != '-' && c != '_') {
			return false
		}
	}
	return word != ""
}

func badMethod(got string) error {
	return fmt.Errorf("%q is not a method: expected one in capitals, such as POST", got)
}

// addMethod adds a method, and HEAD with GET, which a backend answers alike.
func (e *Endpoint) addMethod(method string) {
	if slices.Contains(e.methods, method) {
		return
	}
	e.methods = append(e.methods, method)
	for _, key := range overrideKeys {
		e.overrides = append(e.overrides, condition{key: Name(key), value: strings.ToLower(method)})
	}
	if method == "GET" {
		e.addMethod("HEAD")
	}
}

// coversMethod reports whether the request has one of the methods, or a backend
// that lets clients override the method may take it so.
func (e *Endpoint) coversMethod(r *Request) bool {
	if len(e.methods) == 0 || e.hasMethod(r.Method) {
		return true
	}
	for name, values := range r.Header {
		if !isOverride(name) {
			continue
		}
		for _, value := range values {
			if e.hasMethod(strings.TrimSpace(value)) {
				return true
			}
		}
	}
	for i := range e.overrides {
		if e.overrides[i].mayHold(r.Query) {
			return true
		}
	}
	return false
}

// hasMethod reports whether the endpoint has a method. Some programs take small
// letters for capitals.
func (e *Endpoint) hasMethod(method string) bool {
	return slices.ContainsFunc(e.methods, func(m string) bool { return m == method || strings.EqualFold(m, method) })
}

// isMethod reports whether the request has one of the methods, for every backend.
func (e *Endpoint) isMethod(r *Request) bool {
	return len(e.methods) == 0 || slices.Contains(e.methods, r.Method) && !r.OverridesMethod()
}

// OverridesMethod reports whether some backend may take the request for one with
// another method, which a header field or the query names.
func (r *Request) OverridesMethod() bool {
	for name := range r.Header {
		if isOverride(name) {
			return true
		}
	}
	for _, key := range overrideKeys {
		if (&condition{key: Name(key), any: true}).mayHold(r.Query) {
			return true
		}
	}
	return false
}

func isOverride(field string) bool {
	for _, name := range overrideFields {
		if len(name) == len(field) && sameField(name, field) {
			return true
		}
	}
	return false
}

func sameField(name, field string) bool {
	for i := range len(name) {
		if c := lower[field[i]]; c != name[i] && (c != '_' || name[i] != '-') {
			return false
		}
	}
	return true
}
