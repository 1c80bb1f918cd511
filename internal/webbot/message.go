package webbot

import (
	"net/textproto"
	"slices"
	"strings"

	"github.com/dunglas/httpsfv"
)

// Message is what a signature may cover of a request, as the client sent it.
type Message struct {
	Method    string
	Scheme    string              // "http" or "https"
	Authority string              // the host, with a port if the client sent one
	Target    string              // as in the request line, such as "/path?query"
	Header    map[string][]string // by canonical names
}

// base returns the text that is signed (RFC 9421, section 2.5); ok is false if this package doesn't
// know a component, the request doesn't have it, or it is too long.
func (m *Message) base(input httpsfv.InnerList) (base string, ok bool) {
	var b strings.Builder
	var seen []string
	for _, item := range input.Items {
		id, err := httpsfv.Marshal(item)
		value, ok := m.component(item)
		if err != nil || !ok || len(value) > maxValue || strings.ContainsAny(value, "\r\n") ||
			slices.Contains(seen, id) {
			return "", false
		}
		seen = append(seen, id)
		b.WriteString(id + ": " + value + "\n")
	}
	params, err := httpsfv.Marshal(input)
	return b.String() + `"@signature-params": ` + params, err == nil
}

// component returns the value of a component.
func (m *Message) component(item httpsfv.Item) (value string, ok bool) {
	name, _ := item.Value.(string)
	switch params := item.Params.Names(); {
	case len(params) == 0 && strings.HasPrefix(name, "@"):
		value = m.derived(name)
		return value, value != ""
	case len(params) == 0:
		return m.field(name)
	case len(params) == 1 && params[0] == "key":
		return m.fieldMember(name, item.Params)
	}
	return "", false
}

// derived returns a component that is no header field (RFC 9421, section 2.2), or "".
func (m *Message) derived(name string) string {
	switch name {
	case "@method":
		return m.Method
	case "@scheme":
		return m.Scheme
	case "@authority":
		return m.authority()
	}
	if !strings.HasPrefix(m.Target, "/") { // an absolute URI, an authority, or *
		return ""
	}
	path, query, _ := strings.Cut(m.Target, "?")
	switch name {
	case "@path":
		return path
	case "@query":
		return "?" + query
	case "@target-uri":
		return m.Scheme + "://" + m.authority() + m.Target
	}
	return ""
}

// authority returns the host in lower case, without a default port.
func (m *Message) authority() string {
	port := ":80"
	if m.Scheme == "https" {
		port = ":443"
	}
	return strings.TrimSuffix(strings.ToLower(m.Authority), port)
}

// field returns a header field, with its lines joined; ok is false if there is none, or it is too
// long.
func (m *Message) field(name string) (value string, ok bool) {
	lines := m.Header[textproto.CanonicalMIMEHeaderKey(name)]
	size := 0
	for _, line := range lines {
		size += len(line)
	}
	if len(lines) == 0 || size > maxValue || len(lines) > maxValue || name != strings.ToLower(name) {
		return "", false
	}
	trimmed := make([]string, len(lines))
	for i, line := range lines {
		trimmed[i] = strings.Trim(line, " \t")
	}
	return strings.Join(trimmed, ", "), true
}

// fieldMember returns a member of a header field that is a dictionary (RFC 9421, section 2.1.2).
func (m *Message) fieldMember(name string, params *httpsfv.Params) (value string, ok bool) {
	key, _ := params.Get("key")
	label, _ := key.(string)
	d := m.dictionary(name)
	if d == nil {
		return "", false
	}
	found, ok := d.Get(label)
	if !ok {
		return "", false
	}
	value, err := httpsfv.Marshal(found)
	return value, err == nil
}

// dictionary returns a header field as a dictionary (RFC 9651), or nil.
func (m *Message) dictionary(name string) *httpsfv.Dictionary {
	value, ok := m.field(name)
	if !ok {
		return nil
	}
	d, err := httpsfv.UnmarshalDictionary([]string{value})
	if err != nil {
		return nil
	}
	return d
}
