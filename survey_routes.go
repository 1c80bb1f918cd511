package tally

import (
	"bytes"
	"encoding/json"
	"maps"
	"net/http"
	"reflect"
	"slices"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/caddyauth"

	"github.com/caddy-tally/caddy-tally/internal/placeholder"
)

// Caddy provisions handlers in the order in which they run. When the first of ours is
// provisioned, those before it are modules, and it, those after it and all that it lies in are
// JSON still. Here both become one kind of data.

// route is a route of the config.
type route struct {
	hosts    []string // that its matchers name
	matched  bool     // it has matchers
	group    string   // only one route of a group runs
	terminal bool     // no route after it runs
	handlers []node
}

// node is a handler of the config.
type node struct {
	name      string
	fields    map[string]any // its config; nil if it is loaded already and nobody asks
	providers []string       // of authentication
	lists     []routeList    // its own routes, those for errors last
	foreign   bool           // it is neither Caddy's nor ours
}

// routeList is a list of routes in a handler.
type routeList struct {
	routes    []route
	forErrors bool
	responses *caddyhttp.ResponseMatcher // of an upstream, which they replace; nil for others
}

func routesOf(list caddyhttp.RouteList) (routes []route) {
	for _, from := range list {
		r := route{group: from.Group, terminal: from.Terminal, matched: len(from.MatcherSets)+len(from.MatcherSetsRaw) > 0, hosts: hostsOf(&from)}
		for _, raw := range from.HandlersRaw {
			r.handlers = append(r.handlers, newNode(raw))
		}
		for _, handler := range from.Handlers {
			r.handlers = append(r.handlers, loadedNode(handler))
		}
		routes = append(routes, r)
	}
	return routes
}

// hostsOf returns the hosts that the matchers of a route name.
func hostsOf(r *caddyhttp.Route) (hosts []string) {
	for _, set := range r.MatcherSets {
		for _, matcher := range set {
			if names, ok := matcher.(*caddyhttp.MatchHost); ok {
				hosts = append(hosts, *names...)
			}
		}
	}
	for _, set := range r.MatcherSetsRaw {
		var names []string
		if json.Unmarshal(set["host"], &names) == nil {
			hosts = append(hosts, names...)
		}
	}
	return hosts
}

// newNode returns the node of a handler's JSON. What is wrong with it is said when it is loaded.
func newNode(raw json.RawMessage) (n node) {
	_ = json.Unmarshal(raw, &n.fields)
	n.name, _ = n.fields["handler"].(string)
	providers, _ := n.fields["providers"].(map[string]any)
	if n.name == "authentication" {
		n.providers = slices.Sorted(maps.Keys(providers))
	}
	info, err := caddy.GetModule("http.handlers." + n.name)
	if err != nil {
		return n
	}
	module := info.New()
	n.foreign = isForeign(module)
	if json.Unmarshal(raw, module) == nil {
		n.lists = nestedLists(module)
	}
	return n
}

// loadedNode returns the node of a handler that is loaded already, which none of ours is.
func loadedNode(handler caddyhttp.MiddlewareHandler) node {
	n := node{foreign: isForeign(handler), lists: nestedLists(handler)}
	if module, ok := handler.(caddy.Module); ok {
		n.name = module.CaddyModule().ID.Name()
	}
	if auth, ok := handler.(*caddyauth.Authentication); ok {
		n.providers = slices.Sorted(maps.Keys(auth.Providers))
	}
	if slices.Contains([]string{"vars", "map", "headers", "static_response", "file_server"}, n.name) {
		if raw, err := json.Marshal(handler); err == nil {
			_ = json.Unmarshal(raw, &n.fields) // what is no object has no fields
		}
	}
	return n
}

// sameJSON reports whether two modules have the same config.
func sameJSON(a, b any) bool {
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	return errX == nil && errY == nil && bytes.Equal(x, y)
}

// isForeign reports whether a handler is neither Caddy's nor ours, so that it isn't known what
// it does.
func isForeign(handler any) bool {
	pkg := placeholder.PackageOf(handler)
	return !placeholder.IsCaddy(pkg) && !placeholder.IsOurs(pkg)
}

// nestedLists returns the routes of a handler's own, those for errors last.
func nestedLists(handler any) (lists []routeList) {
	v := reflect.Indirect(reflect.ValueOf(handler))
	if v.Kind() != reflect.Struct {
		return nil
	}
	for i := range v.NumField() {
		if !v.Type().Field(i).IsExported() {
			continue
		}
		switch field := v.Field(i).Interface().(type) {
		case caddyhttp.RouteList:
			lists = append(lists, routeList{routes: routesOf(field)})
		case *caddyhttp.HTTPErrorConfig:
			if field != nil {
				lists = append(lists, routeList{routes: routesOf(field.Routes), forErrors: true})
			}
		case []caddyhttp.ResponseHandler:
			for _, handler := range field {
				responses := handler.Match
				if responses == nil {
					responses = new(caddyhttp.ResponseMatcher)
				}
				lists = append(lists, routeList{routes: routesOf(handler.Routes), responses: responses})
			}
		}
	}
	return lists
}

func handlersOf(routes []route) (handlers []node) {
	for _, r := range routes {
		handlers = append(handlers, r.handlers...)
	}
	return handlers
}

// isOurs reports whether it is a handler that is checked.
func (n node) isOurs() bool { return n.name == handlerName || n.name == dashboardName }

// answers returns the name of a handler in n that answers all requests which come to it, or "".
func (n node) answers() string {
	switch n.name {
	case "static_response":
		if status, _ := n.fields["status_code"].(float64); status == http.StatusEarlyHints {
			return ""
		}
		return "respond"
	case "file_server":
		if passes, _ := n.fields["pass_thru"].(bool); passes {
			return ""
		}
		return n.name
	case "reverse_proxy":
		if len(n.lists) > 0 { // as of forward_auth
			return ""
		}
		return n.name
	case "error", dashboardName:
		return n.name
	case "subroute":
		for _, list := range n.lists {
			for _, r := range list.routes {
				if by := r.answers(); by != "" && !r.matched && !list.forErrors {
					return by
				}
			}
		}
	}
	return ""
}

// answers returns the name of a handler that answers all requests which the route matches, or "".
func (r route) answers() string {
	for _, n := range r.handlers {
		if by := n.answers(); by != "" {
			return by
		}
	}
	return ""
}

// mayAnswer returns the name of a handler in n that answers some requests, or "".
func (n node) mayAnswer() string {
	if by := n.answers(); by != "" {
		return by
	}
	for _, list := range n.lists {
		for _, inner := range handlersOf(list.routes) {
			if by := inner.mayAnswer(); by != "" && !list.forErrors {
				return by
			}
		}
	}
	return ""
}

// proxies reports whether the handler is a proxy, or has one in its routes.
func (n node) proxies() bool {
	return n.name == "reverse_proxy" || slices.ContainsFunc(n.lists, func(list routeList) bool {
		return slices.ContainsFunc(handlersOf(list.routes), node.proxies)
	})
}

// relayed returns the matchers of an upstream's responses in whose place a proxy asks another one.
func (n node) relayed() (responses []*caddyhttp.ResponseMatcher) {
	for _, list := range n.lists {
		inner := handlersOf(list.routes)
		if list.responses != nil && slices.ContainsFunc(inner, node.proxies) {
			responses = append(responses, list.responses)
		}
		for _, handler := range inner {
			responses = append(responses, handler.relayed()...)
		}
	}
	return responses
}
