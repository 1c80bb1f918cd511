package routing

import (
	"bytes"
	"cmp"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/fileserver"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/headers"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"
)

// View is what the routes of a server say.
type View struct {
	Server *caddyhttp.Server
	Places []*Place // the handlers, nested ones after those around them, in the order of execution
	Hosts  []string // in the matchers of routes

	main  []Route
	named map[string][]Route
}

// Place is a handler among those around it.
type Place struct {
	Node
	Site     string // the hosts of the surrounding routes, or ""
	InErrors bool   // it is in error routes
	Anywhere bool   // it is in a named route, which may be invoked anywhere

	// Own are the matchers of its route, if it is alone there, as those of a directive are.
	Own []Requests

	view          *View
	before, after []Node
	Around        [][]Requests    // of the surrounding routes
	around        map[*Route]bool // these, once a witness was sent
}

// NewView returns the view of a server that is being provisioned, or is already.
func NewView(server *caddyhttp.Server) *View {
	v := &View{Server: server, main: newRoutes(server.Routes), named: make(map[string][]Route)}
	v.addRoutes(Place{view: v}, v.main)
	if server.Errors != nil {
		v.addRoutes(Place{view: v, before: handlersOf(v.main), InErrors: true}, newRoutes(server.Errors.Routes))
	}
	for _, name := range slices.Sorted(maps.Keys(server.NamedRoutes)) {
		v.named[name] = newRoutes(caddyhttp.RouteList{*server.NamedRoutes[name]})
		v.addRoutes(Place{view: v, Anywhere: true}, v.named[name])
	}
	return v
}

// addRoutes adds the handlers of routes that have the surroundings of p.
func (v *View) addRoutes(p Place, list []Route) {
	for i, r := range list {
		in := p
		if hosts := hostsOf(r.Requests); len(hosts) > 0 {
			in.Site = strings.ToLower(strings.Join(slices.Sorted(slices.Values(hosts)), " "))
			v.Hosts = append(v.Hosts, hosts...)
		}
		alternative := func(other Route) bool { return r.Group != "" && other.Group == r.Group }
		for _, earlier := range list[:i] {
			if !alternative(earlier) && !earlier.Terminal {
				in.before = slices.Concat(in.before, earlier.Handlers)
			}
		}
		for _, later := range list[i+1:] {
			if !r.Terminal && !alternative(later) {
				in.after = slices.Concat(in.after, later.Handlers)
			}
		}
		if in.Own = nil; len(r.Handlers) == 1 {
			in.Own = r.Requests
		}
		if r.Requests != nil {
			in.Around = slices.Concat(in.Around, [][]Requests{r.Requests})
		}
		v.addHandlers(in, r.Handlers)
	}
}

func (v *View) addHandlers(p Place, handlers []Node) {
	for i, n := range handlers {
		in := p
		in.Node, in.after = n, slices.Concat(handlers[i+1:], p.after)
		v.addHandler(in)
		p.before = slices.Concat(p.before, handlers[i:i+1])
	}
}

func (v *View) addHandler(p Place) {
	v.Places = append(v.Places, &p)
	in, outer := p, p.Node
	outer.Lists = nil
	in.before = slices.Concat(in.before, []Node{outer})
	for _, list := range p.Lists {
		nested := in
		nested.InErrors = nested.InErrors || list.ForErrors
		v.addRoutes(nested, list.Routes)
		in.before = slices.Concat(in.before, handlersOf(list.Routes))
	}
}

// Before returns what earlier handlers set.
func (p *Place) Before() Provided {
	provided := providedBy(p.before)
	provided.Anything = provided.Anything || p.Anywhere
	return provided
}

// After returns what later handlers set.
func (p *Place) After() Provided { return providedBy(p.after) }

// Serves returns a later handler that may answer, with pages if it can, or "".
func (p *Place) Serves() (by string) {
	for _, later := range p.after {
		if by = cmp.Or(later.answers(true), by); by == "reverse_proxy" || by == "file_server" {
			break
		}
	}
	return by
}

// Proxies reports whether a later handler may be a proxy, or one that isn't known.
func (p *Place) Proxies() bool {
	return p.Anywhere ||
		!each(p.after, func(n Node) bool { return n.Name != "reverse_proxy" && n.Name != "invoke" && !n.Foreign })
}

// RunsPHP reports whether a later proxy runs the scripts of a site.
func (p *Place) RunsPHP() bool {
	return p.asks(func(h *reverseproxy.Handler) bool { return bytes.Contains(h.TransportRaw, []byte("fastcgi")) })
}

// Asks reports whether a later proxy asks another server whether a request may pass, as forward_auth does.
func (p *Place) Asks() bool {
	return p.asks(func(h *reverseproxy.Handler) bool { return len(h.HandleResponse) > 0 && h.Rewrite != nil })
}

// asks reports whether a later proxy is one of a kind.
func (p *Place) asks(isOne func(*reverseproxy.Handler) bool) bool {
	return !each(p.after, func(n Node) bool {
		h, ok := n.Module.(*reverseproxy.Handler)
		return !ok || !isOne(h)
	})
}

// KnowsLater reports whether a later handler beside the place or around it authenticates users, and sets a placeholder.
func (p *Place) KnowsLater(name string) bool {
	return slices.ContainsFunc(p.after, func(n Node) bool {
		provided := providedBy([]Node{n})
		return (n.Name == "authentication" || n.Name == "reverse_proxy") && provided.Has(name)
	})
}

// Within returns a path of the requests that the matchers around the place admit, without a wildcard
// at its end; "" if they admit all paths.
func (p *Place) Within() string {
	for _, around := range slices.Backward(p.Around) {
		if len(around) > 0 && len(around[0].Paths) > 0 {
			return strings.TrimSuffix(around[0].Paths[0], "*")
		}
	}
	return ""
}

// ReadsEarly returns a placeholder with a prefix that a field of the answer reads before the place sets it, or "".
func (p *Place) ReadsEarly(prefix string) (name string) {
	each(p.before, func(n Node) bool {
		h, ok := n.Module.(*headers.Handler)
		if !ok || h.Response == nil || h.Response.HeaderOps == nil || h.Response.Deferred || h.Response.Require != nil {
			return true
		}
		for _, values := range h.Response.Set {
			for _, read := range PlaceholderNames(strings.Join(values, " ")) {
				if strings.HasPrefix(read, prefix) {
					name = read
				}
			}
		}
		return name == ""
	})
	return name
}

// Relayed returns the matchers of answers that later proxies replace by those of another upstream.
func (p *Place) Relayed() (responses []*caddyhttp.ResponseMatcher) {
	for _, later := range p.after {
		responses = append(responses, later.relayed()...)
	}
	return responses
}

// ServedFolders returns the absolute paths of the folders that the server's file servers serve,
// according to its config.
func (v *View) ServedFolders() (folders []string) {
	var roots, inherited []string // explicit roots of file servers, and roots for the others
	inherits := false
	for _, p := range v.Places {
		switch handler := p.Module.(type) {
		case *caddyhttp.VarsMiddleware:
			if root, _ := (*handler)["root"].(string); root != "" {
				inherited = append(inherited, root)
			}
		case *fileserver.FileServer:
			if handler.Root == "" || handler.Root == "{http.vars.root}" {
				inherits = true
			} else {
				roots = append(roots, handler.Root)
			}
		}
	}
	if inherits && len(inherited) == 0 {
		inherited = []string{"."} // the file server's default
	}
	if inherits {
		roots = append(roots, inherited...)
	}
	for _, root := range roots {
		root = caddy.NewReplacer().ReplaceKnown(root, "")
		// otherwise known only during a request
		if path, err := filepath.Abs(root); err == nil && !strings.Contains(root, "{") {
			folders = append(folders, path)
		}
	}
	return folders
}
