package routing

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/headers"
	maphandler "github.com/caddyserver/caddy/v2/modules/caddyhttp/map"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"
)

// Provided is the set of placeholders that some handlers may set in a request: names, without
// braces, and families of them that end with a dot.
type Provided struct {
	names    map[string]bool
	made     map[string][]string // texts of which values are made, by name
	mapped   map[string][]string // what map directives make of these
	Anything bool                // one of the handlers may set any placeholder
}

// Made returns the texts of which a placeholder's value may be made, if handlers set it. A text with the
// placeholder itself is what a handler leaves of an earlier value.
func (p *Provided) Made(name string) []string { return p.made[name] }

// Values returns the values that handlers give a placeholder, in which there may be placeholders.
func (p *Provided) Values(name string) []string { return slices.Concat(p.mapped[name], p.made[name]) }

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

// providedBy returns the placeholders that handlers set, including nested ones.
func providedBy(handlers []Node) Provided {
	p := Provided{names: make(map[string]bool), made: make(map[string][]string), mapped: make(map[string][]string)}
	each(handlers, func(n Node) bool {
		p.add(n)
		return true
	})
	return p
}

// add adds the placeholders of a handler.
func (p *Provided) add(n Node) {
	switch n.Name {
	case "authentication":
		p.names["http.auth."] = true
	case "reverse_proxy", "intercept":
		p.names["http."+n.Name+"."] = true
	}
	p.Anything = p.Anything || n.Foreign || n.Name == "invoke"
	switch handler := n.Module.(type) {
	case *caddyhttp.VarsMiddleware:
		for name, value := range *handler {
			p.set("http.vars."+name, fmt.Sprint(value))
		}
	case *maphandler.Handler:
		for i, destination := range handler.Destinations {
			name := strings.Trim(destination, "{}")
			p.set(name, handler.Source)
			for _, mapping := range handler.Mappings {
				if i < len(mapping.Outputs) && mapping.Outputs[i] != nil {
					p.mapped[name] = append(p.mapped[name], fmt.Sprint(mapping.Outputs[i]))
				}
			}
		}
	case *reverseproxy.Handler:
		if handler.Headers != nil && handler.Headers.Response != nil {
			p.addFields("http.response.header.", handler.Headers.Response.HeaderOps)
		}
	case *headers.Handler:
		p.addFields("http.request.header.", handler.Request)
		if handler.Response != nil {
			p.addFields("http.response.header.", handler.Response.HeaderOps)
		}
	}
}

// addFields adds the header fields that some operations write or remove.
func (p *Provided) addFields(family string, ops *headers.HeaderOps) {
	if ops == nil {
		return
	}
	set := func(field string, texts ...string) { p.set(family+http.CanonicalHeaderKey(field), texts...) }
	for field, values := range ops.Set {
		set(field, values...)
	}
	for field := range ops.Add {
		set(field, "{"+family+field+"}")
	}
	for field := range ops.Replace {
		set(field, "{"+family+field+"}")
	}
	for _, field := range ops.Delete {
		set(field)
	}
}

// set adds a placeholder whose value is made of texts.
func (p *Provided) set(name string, texts ...string) {
	p.names[name], p.made[name] = true, append(p.made[name], texts...)
}
