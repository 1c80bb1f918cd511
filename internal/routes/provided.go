package routes

import (
	"net/http"
	"strings"
)

// Provided is the set of placeholders that some handlers may set in a request: names, without
// braces, and families of them that end with a dot.
type Provided struct {
	names    map[string]bool
	Anything bool // one of the handlers may set any placeholder
}

// Has reports whether the handlers are known to set a placeholder.
func (p *Provided) Has(name string) bool {
	if p.names[name] {
		return true
	}
	for i := range name {
		if name[i] == '.' && p.names[name[:i+1]] {
			return true
		}
	}
	return false
}

// ProvidedBy returns the placeholders that handlers set, including nested ones.
func ProvidedBy(handlers []Node) Provided {
	s := Provided{names: make(map[string]bool)}
	each(handlers, func(n Node) bool {
		s.add(n.Name, n.Fields)
		s.Anything = s.Anything || n.Foreign
		return true
	})
	return s
}

// add adds the placeholders of a named handler.
func (p *Provided) add(name string, fields map[string]any) {
	switch name {
	case "authentication":
		p.names["http.auth."] = true
	case "reverse_proxy", "intercept":
		p.names["http."+name+"."] = true
	case "vars":
		for key := range fields {
			p.names["http.vars."+key] = true
		}
	case "map":
		destinations, _ := fields["destinations"].([]any)
		for _, destination := range destinations {
			if text, ok := destination.(string); ok {
				p.names[strings.Trim(text, "{}")] = true
			}
		}
	case "headers":
		p.addFields("http.request.header.", fields["request"])
		p.addFields("http.response.header.", fields["response"])
	case "invoke":
		p.Anything = true
	}
}

// addFields adds the header fields that some operations of the headers handler write or remove.
func (p *Provided) addFields(family string, operations any) {
	all, _ := operations.(map[string]any)
	for _, operation := range []string{"set", "add", "replace"} {
		fields, _ := all[operation].(map[string]any)
		for field := range fields {
			p.names[family+http.CanonicalHeaderKey(field)] = true
		}
	}
	removed, _ := all["delete"].([]any)
	for _, field := range removed {
		if text, ok := field.(string); ok {
			p.names[family+http.CanonicalHeaderKey(text)] = true
		}
	}
}
