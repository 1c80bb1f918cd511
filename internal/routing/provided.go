package routing

import (
	"net/http"
	"strings"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/headers"
	maphandler "github.com/caddyserver/caddy/v2/modules/caddyhttp/map"
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

// providedBy returns the placeholders that handlers set, including nested ones.
func providedBy(handlers []Node) Provided {
	p := Provided{names: make(map[string]bool)}
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
		for name := range *handler {
			p.names["http.vars."+name] = true
		}
	case *maphandler.Handler:
		for _, destination := range handler.Destinations {
			p.names[strings.Trim(destination, "{}")] = true
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
	add := func(field string) { p.names[family+http.CanonicalHeaderKey(field)] = true }
	for field := range ops.Set {
		add(field)
	}
	for field := range ops.Add {
		add(field)
	}
	for field := range ops.Replace {
		add(field)
	}
	for _, field := range ops.Delete {
		add(field)
	}
}
