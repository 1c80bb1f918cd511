package endpoint

import (
	"fmt"
	"net/textproto"
	"slices"
	"strings"
)

// overrideFields are header fields with the method for backends that let clients override it, in
// the form of [net/http.Header]. Gateways read `_` as `-`.
var overrideFields = func() (fields []string) {
	for _, name := range []string{"X-HTTP-Method-Override", "X-HTTP-Method", "X-Method-Override"} {
		words := strings.Split(name, "-")
		for marks := range 1 << (len(words) - 1) {
			spelled := words[0]
			for i, word := range words[1:] {
				spelled += string("-_"[marks>>i&1]) + word
			}
			fields = append(fields, textproto.CanonicalMIMEHeaderKey(spelled))
		}
	}
	return fields
}()

// isOverride reports whether the parameter overrides the method.
func (p *parameter) isOverride() bool {
	return p.name == anyText || equalFolded("_method", p.name) || equalFolded("_httpmethod", p.name)
}

// Bounds on the header fields of a name that override the method: their number and their length.
// More or longer fields may name any method.
const (
	mostOverrides   = 4
	longestOverride = 100
)

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

// addMethod adds a method. GET includes HEAD, which a backend answers alike.
func (e *Endpoint) addMethod(method string) {
	if slices.Contains(e.methods, method) {
		return
	}
	e.methods = append(e.methods, method)
	if method == "GET" {
		e.addMethod("HEAD")
	}
}

// coversMethod reports whether the request has one of the methods, or a backend that lets clients
// override the method may read it so.
func (e *Endpoint) coversMethod(r *Request) bool {
	if len(e.methods) == 0 || e.hasMethod(r.Method) || r.Tunnel && e.hasMethod("GET") {
		return true
	}
	for _, name := range overrideFields {
		if values := r.Header[name]; len(values) > mostOverrides || slices.ContainsFunc(values, e.hasMethodIn) {
			return true
		}
	}
	var few [fewParameters]parameter
	params := r.parameters(few[:0])
	for i := range params.list {
		if p := &params.list[i]; p.isOverride() && e.mayBeMethod(p) {
			return true
		}
	}
	return params.unread
}

// hasMethodIn reports whether a header field names one of the methods. Some programs use the first
// of a list, others may use another.
func (e *Endpoint) hasMethodIn(field string) bool {
	if len(field) > longestOverride {
		return true
	}
	for method := range strings.SplitSeq(field, ",") {
		if e.hasMethod(strings.TrimSpace(method)) {
			return true
		}
	}
	return false
}

func (e *Endpoint) mayBeMethod(p *parameter) bool {
	return slices.ContainsFunc(e.methods, func(m string) bool {
		return (&condition{value: strings.ToLower(m)}).mayBeValue(p)
	})
}

// hasMethod reports whether the endpoint has a method. Some programs ignore its case.
func (e *Endpoint) hasMethod(method string) bool {
	return slices.ContainsFunc(e.methods, func(m string) bool { return m == method || strings.EqualFold(m, method) })
}

// isMethod reports whether the request has one of the methods, for every backend.
func (e *Endpoint) isMethod(r *Request) bool {
	return len(e.methods) == 0 || slices.Contains(e.methods, r.Method) && !r.OverridesMethod()
}

// OverridesMethod reports whether some backend may read the request as one with another method: the
// method in a header field or the query, or the method that a proxy sends for a tunnel.
func (r *Request) OverridesMethod() bool {
	if r.Tunnel {
		return true
	}
	for _, name := range overrideFields {
		if _, found := r.Header[name]; found {
			return true
		}
	}
	var few [fewParameters]parameter
	params := r.parameters(few[:0])
	for i := range params.list {
		if params.list[i].isOverride() {
			return true
		}
	}
	return params.unread
}
