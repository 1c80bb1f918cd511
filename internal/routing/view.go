package routing

import (
	"cmp"
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
	Own []Requests

	before, after []Node
	answering     string       // an earlier handler that answers some requests, or ""
	Around        [][]Requests // of the surrounding routes
	taken         []taken      // by earlier routes
	later         []Route
	rewritten     bool // around and taken are of other paths than those that this handler sees
}

// taken are requests that go to another route.
type taken struct {
	by    string // the handler that answers them, or ""
	meant bool   // as with two `handle`, of which only one runs, or a directive with a matcher in a route block
	Requests
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
		if hosts := hostsOf(r.Requests); len(hosts) > 0 {
			in.Site = strings.ToLower(strings.Join(slices.Sorted(slices.Values(hosts)), " "))
			v.Hosts = append(v.Hosts, hosts...)
		}
		for _, earlier := range list[:i] {
			in.passRoute(earlier, earlier.Group != "" && earlier.Group == r.Group)
		}
		for _, later := range list[i+1:] {
			if !r.Terminal && (later.Group == "" || later.Group != r.Group) {
				in.after, in.later = slices.Concat(in.after, later.Handlers), slices.Concat(in.later, []Route{later})
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

// passRoute notes a route before the current one. Of routes that exclude each other only one runs.
func (p *Place) passRoute(r Route, excludes bool) {
	by := r.answers(false)
	if p.Hidden == "" && r.Requests == nil {
		p.Hidden = by
		if p.Hidden == "" && (excludes || r.Terminal) {
			p.Hidden = "a route without a matcher"
		}
	}
	if by != "" || (excludes || r.Terminal) && len(r.Handlers) > 0 {
		for _, requests := range r.Requests {
			p.taken = slices.Concat(p.taken, []taken{{by, excludes || r.Handlers[0].Name != "subroute", requests}})
		}
	} else {
		p.rewritten = p.rewritten || r.rewrites()
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
		p.answering = n.answers(true)
	}
}

func (v *View) addHandlers(p Place, handlers []Node) {
	for i, n := range handlers {
		in := p
		in.Node, in.after = n, slices.Concat(handlers[i+1:], p.after)
		v.addHandler(in)
		p.before = slices.Concat(p.before, handlers[i:i+1])
		p.rewritten = p.rewritten || Route{Handlers: handlers[i : i+1]}.rewrites()
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
	return p.Anywhere || !each(p.after, func(n Node) bool { return n.Name != "reverse_proxy" && n.Name != "invoke" && !n.Foreign })
}

// Leavings returns an earlier handler that answers some requests, if no later one answers any; or "".
func (p *Place) Leavings() string {
	if p.InErrors || p.Anywhere || p.Hidden != "" || slices.ContainsFunc(p.after, func(n Node) bool { return n.answers(true) != "" || n.Foreign }) {
		return ""
	}
	return p.answering
}

// Misses reports whether the place never sees some requests: those that only the matchers around it
// exclude, those that an earlier handler answers, or those that no later handler answers.
func (p *Place) Misses(r Requests) (why string) {
	if p.rewritten || p.Anywhere || p.InErrors {
		return ""
	}
	for _, around := range p.Around {
		if !slices.ContainsFunc(around, func(a Requests) bool { return !a.Excludes(r) }) {
			return "the route around it doesn't match them"
		}
	}
	for _, t := range p.taken {
		if r.IsWithin(t.Requests) && t.by != "" {
			return t.by + " before it answers them"
		}
	}
	return ""
}

// Unanswered reports whether the later handlers answer other requests, but none of r.
func (p *Place) Unanswered(r Requests) bool {
	reads := r.Methods == nil || slices.Contains(r.Methods, "GET") || slices.Contains(r.Methods, "HEAD")
	answered := false
	for _, later := range p.later {
		by := later.answers(true)
		if by == "" && later.rewrites() {
			return false
		}
		if answered = answered || by != ""; by == "" || !reads && by == "file_server" {
			continue
		}
		if later.Requests == nil || slices.ContainsFunc(later.Requests, func(a Requests) bool { return !a.Excludes(r) }) {
			return false
		}
	}
	return answered && !p.rewritten && !p.Anywhere && !p.InErrors && !slices.ContainsFunc(p.after, func(n Node) bool { return n.Foreign })
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

// Passed returns an earlier proxy that answers some requests, and a path of them, if this handler
// sees others; or "".
func (p *Place) Passed() (by, path string) {
	for _, t := range p.taken {
		if t.by == "reverse_proxy" && len(t.Paths) > 0 && !t.meant {
			return t.by, t.Paths[0]
		}
	}
	return "", ""
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
