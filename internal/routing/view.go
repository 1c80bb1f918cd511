package routing

import (
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/fileserver"
)

// View is what the routes of a server say.
type View struct {
	Server *caddyhttp.Server
	Places []*Place // the handlers, nested ones after those around them, in the order of execution
	Hosts  []string // in the matchers of routes
}

// Place is a handler among those around it.
type Place struct {
	Node
	Site     string // the hosts of the surrounding routes, or ""
	Hidden   string // an earlier handler that answers all requests, or ""
	InErrors bool   // it is in error routes
	Anywhere bool   // it is in a named route, which may be invoked anywhere

	// Own are the matchers of its route, if it is alone there, as those of a directive are.
	Own caddyhttp.MatcherSets

	before, after []Node
	answering     string // an earlier handler that answers some requests, or ""
}

// NewView returns the view of a server that is being provisioned, or is already.
func NewView(server *caddyhttp.Server) *View {
	v := &View{Server: server}
	main := newRoutes(server.Routes)
	v.addRoutes(Place{}, main)
	if server.Errors != nil {
		v.addRoutes(Place{before: handlersOf(main), InErrors: true}, newRoutes(server.Errors.Routes))
	}
	for _, name := range slices.Sorted(maps.Keys(server.NamedRoutes)) {
		v.addRoutes(Place{Anywhere: true}, newRoutes(caddyhttp.RouteList{*server.NamedRoutes[name]}))
	}
	return v
}

// addRoutes adds the handlers of routes that have the surroundings of p.
func (v *View) addRoutes(p Place, list []Route) {
	for i, r := range list {
		in := p
		if len(r.Hosts) > 0 {
			in.Site = strings.ToLower(strings.Join(slices.Sorted(slices.Values(r.Hosts)), " "))
			v.Hosts = append(v.Hosts, r.Hosts...)
		}
		for _, earlier := range list[:i] {
			in.passRoute(earlier, earlier.Group != "" && earlier.Group == r.Group)
		}
		for _, later := range list[i+1:] {
			if !r.Terminal && (later.Group == "" || later.Group != r.Group) {
				in.after = slices.Concat(in.after, later.Handlers)
			}
		}
		if in.Own = nil; len(r.Handlers) == 1 {
			in.Own = r.matchers
		}
		v.addHandlers(in, r.Handlers)
	}
}

// passRoute notes a route before the current one. Of routes that exclude each other only one runs.
func (p *Place) passRoute(r Route, excludes bool) {
	if p.Hidden == "" && !r.Matched {
		p.Hidden = r.Answers()
		if p.Hidden == "" && (excludes || r.Terminal) {
			p.Hidden = "a route without a matcher"
		}
	}
	if excludes || r.Terminal {
		return
	}
	p.before = slices.Concat(p.before, r.Handlers)
	for _, n := range r.Handlers {
		p.meet(n)
	}
}

func (p *Place) meet(n Node) {
	if p.answering == "" {
		p.answering = n.mayAnswer()
	}
}

func (v *View) addHandlers(p Place, handlers []Node) {
	for i, n := range handlers {
		in := p
		in.Node, in.after = n, slices.Concat(handlers[i+1:], p.after)
		v.addHandler(in)
		p.before = slices.Concat(p.before, handlers[i:i+1])
		p.meet(n)
		if p.Hidden == "" {
			p.Hidden = n.Answers()
		}
	}
}

func (v *View) addHandler(p Place) {
	v.Places = append(v.Places, &p)
	in, outer := p, p.Node
	outer.Lists = nil
	in.before = slices.Concat(in.before, []Node{outer})
	for _, list := range p.Lists {
		nested := in
		if list.ForErrors {
			nested.InErrors, nested.Hidden = true, ""
		}
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

// Leavings returns an earlier handler that answers some requests, if no later one answers any; or "".
func (p *Place) Leavings() string {
	if p.InErrors || p.Anywhere || p.Hidden != "" || slices.ContainsFunc(p.after, func(n Node) bool { return n.mayAnswer() != "" || n.Foreign }) {
		return ""
	}
	return p.answering
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
		if path, err := filepath.Abs(root); err == nil && !strings.Contains(root, "{") { // otherwise known only during a request
			folders = append(folders, path)
		}
	}
	return folders
}
