package routing

import (
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-tally/caddy-tally/internal/matcher"
)

// ServersOn returns the servers that listen on a port, and the others, both in the order of their names.
func ServersOn(port string, servers map[string]*caddyhttp.Server) (listening, others []*caddyhttp.Server) {
	for _, name := range slices.Sorted(maps.Keys(servers)) {
		server := servers[name]
		if slices.ContainsFunc(server.Listen,
			func(address string) bool { return strings.HasSuffix(address, ":"+port) }) {
			listening = append(listening, server)
		} else {
			others = append(others, server)
		}
	}
	return listening, others
}

// Visit is called with each handler that a request reaches, and the request as it is there. It
// reports whether the request continues.
type Visit func(caddyhttp.MiddlewareHandler, *http.Request) (goesOn bool)

// Follow follows a request through a server's routes without serving it, and visits the handlers that
// it reaches. Matchers run as for any request. Of the handlers only those run that change nothing but
// the request: vars, map, rewrite. Authentication counts as passed. The way ends at a handler that
// answers, such as a file server, a proxy, a redirect. Its RemoteAddr, Host, URL and TLS must be set
// as in a received request. It returns the name of the handler that would answer it, or "" if it
// reached the end or visit ended it, and an error if a matcher fails.
func Follow(server *caddyhttp.Server, r *http.Request, visit Visit) (answers string, err error) {
	return FollowPrepared(server, Prepare(server, r), visit)
}

// Prepare returns the request as a server passes it to its routes.
func Prepare(server *caddyhttp.Server, r *http.Request) *http.Request {
	if r.RequestURI == "" {
		r.RequestURI = r.URL.RequestURI()
	}
	r = caddyhttp.PrepareRequest(r, caddy.NewReplacer(), new(nobody), server)
	matcher.SetForecast(r)
	return r
}

// FollowPrepared is Follow for a request from [Prepare], or one derived from it.
func FollowPrepared(server *caddyhttp.Server, prepared *http.Request, visit Visit) (answers string, err error) {
	f := &follower{server: server, visit: visit, request: prepared, response: new(nobody)}
	_, err = f.routes(server.Routes)
	return f.answers, err
}

// nobody is a writer that discards the response.
type nobody struct{ header http.Header }

// Header implements http.ResponseWriter.
func (n *nobody) Header() http.Header {
	if n.header == nil {
		n.header = make(http.Header)
	}
	return n.header
}

// Write implements http.ResponseWriter.
func (n *nobody) Write(data []byte) (int, error) { return len(data), nil }

// WriteHeader implements http.ResponseWriter.
func (n *nobody) WriteHeader(int) {}

// follower is a request that is being followed.
type follower struct {
	server   *caddyhttp.Server
	visit    Visit
	request  *http.Request
	response http.ResponseWriter // discards the response
	groups   map[string]bool     // with a matched route
	depth    int                 // nesting of routes
	answers  string
}

// maxDepth bounds the nesting of routes: a named route may invoke itself.
const maxDepth = 64

// routes follows routes, and reports whether the request continues after them.
func (f *follower) routes(routes caddyhttp.RouteList) (goesOn bool, err error) {
	if f.depth++; f.depth > maxDepth {
		return false, nil
	}
	defer func() { f.depth-- }()
	for i := range routes {
		route := &routes[i]
		if route.Group != "" && f.groups[route.Group] {
			continue
		}
		if matches, err := route.MatcherSets.AnyMatchWithError(f.request); err != nil || !matches {
			if err != nil {
				return false, err
			}
			continue
		}
		if route.Group != "" {
			if f.groups == nil {
				f.groups = make(map[string]bool)
			}
			f.groups[route.Group] = true
		}
		for _, handler := range route.Handlers {
			if goesOn, err := f.handler(handler); err != nil || !goesOn {
				return false, err
			}
		}
		if route.Terminal {
			return false, nil
		}
	}
	return true, nil
}

// handler follows one handler, and reports whether the request continues after it.
func (f *follower) handler(handler caddyhttp.MiddlewareHandler) (goesOn bool, err error) {
	switch handler := handler.(type) {
	case *caddyhttp.Subroute:
		return f.routes(handler.Routes)
	case *caddyhttp.Invoke:
		if route := f.server.NamedRoutes[handler.Name]; route != nil {
			return f.routes(caddyhttp.RouteList{*route})
		}
		return false, nil
	}
	name := nameOf(handler)
	switch {
	case name == "vars" || name == "map" || name == "rewrite":
		err := handler.ServeHTTP(f.response, f.request,
			caddyhttp.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) error {
				f.request, goesOn = r, true
				return nil
			}))
		return goesOn, err
	case answersAll(name, handler) || name == "acme_server":
		f.answers = name
		return false, nil
	}
	return f.visit(handler, f.request), nil
}
