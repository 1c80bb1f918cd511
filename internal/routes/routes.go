// Package routes describes the handlers of a server as data: their routes, the requests they
// answer, and the placeholders and header fields they set.
//
// Caddy provisions handlers in the order of execution. When the first of our handlers is
// provisioned, the earlier ones are modules, while our own, the later ones and the surrounding ones
// are still JSON. Here both become one kind of data.
package routes

import (
	"bytes"
	"cmp"
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

// Route is a route of the config.
type Route struct {
	Hosts    []string // in its matchers
	Matched  bool     // it has matchers
	Group    string   // only one route of a group runs
	Terminal bool     // no route after it runs
	Handlers []Node
}

// Node is a handler of the config.
type Node struct {
	Name      string
	Fields    map[string]any // its config; nil if it is loaded already and not needed
	Providers []string       // of authentication
	Lists     []List         // its own routes, error routes last
	Foreign   bool           // it is neither Caddy's nor ours
}

// List is a list of routes in a handler.
type List struct {
	Routes    []Route
	ForErrors bool
	Responses *caddyhttp.ResponseMatcher // of an upstream, which the routes replace; nil for others
}

// Of returns the routes of a list. Their handlers are modules or JSON.
func Of(list caddyhttp.RouteList) (routes []Route) {
	for _, from := range list {
		r := Route{Group: from.Group, Terminal: from.Terminal, Matched: len(from.MatcherSets)+len(from.MatcherSetsRaw) > 0, Hosts: Hosts(&from)}
		for _, raw := range from.HandlersRaw {
			r.Handlers = append(r.Handlers, newNode(raw))
		}
		for _, handler := range from.Handlers {
			r.Handlers = append(r.Handlers, loadedNode(handler))
		}
		routes = append(routes, r)
	}
	return routes
}

// Hosts returns the hosts in the matchers of a route.
func Hosts(r *caddyhttp.Route) (hosts []string) {
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

// newNode returns the node of a handler's JSON. Loading it reports errors.
func newNode(raw json.RawMessage) (n Node) {
	_ = json.Unmarshal(raw, &n.Fields)
	n.Name, _ = n.Fields["handler"].(string)
	providers, _ := n.Fields["providers"].(map[string]any)
	if n.Name == "authentication" {
		n.Providers = slices.Sorted(maps.Keys(providers))
	}
	info, err := caddy.GetModule("http.handlers." + n.Name)
	if err != nil {
		return n
	}
	module := info.New()
	n.Foreign = isForeign(module)
	if json.Unmarshal(raw, module) == nil {
		n.Lists = nestedLists(module)
	}
	return n
}

// loadedNode returns the node of a loaded handler. None of ours is loaded yet.
func loadedNode(handler caddyhttp.MiddlewareHandler) Node {
	n := Node{Foreign: isForeign(handler), Lists: nestedLists(handler)}
	if module, ok := handler.(caddy.Module); ok {
		n.Name = module.CaddyModule().ID.Name()
	}
	if auth, ok := handler.(*caddyauth.Authentication); ok {
		n.Providers = slices.Sorted(maps.Keys(auth.Providers))
	}
	if slices.Contains([]string{"vars", "map", "headers", "static_response", "file_server"}, n.Name) {
		if raw, err := json.Marshal(handler); err == nil {
			_ = json.Unmarshal(raw, &n.Fields) // if it is no object it has no fields
		}
	}
	return n
}

// SameJSON reports whether two modules have the same config.
func SameJSON(a, b any) bool {
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	return errX == nil && errY == nil && bytes.Equal(x, y)
}

// isForeign reports whether a handler is neither Caddy's nor ours, so that its behavior is unknown.
func isForeign(handler any) bool {
	pkg := placeholder.PackageOf(handler)
	return !placeholder.IsCaddy(pkg) && !placeholder.IsOurs(pkg)
}

// nestedLists returns the routes of a handler's own, error routes last.
func nestedLists(handler any) (lists []List) {
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
			lists = append(lists, List{Routes: Of(field)})
		case *caddyhttp.HTTPErrorConfig:
			if field != nil {
				lists = append(lists, List{Routes: Of(field.Routes), ForErrors: true})
			}
		case []caddyhttp.ResponseHandler:
			for _, handler := range field {
				responses := cmp.Or(handler.Match, new(caddyhttp.ResponseMatcher))
				lists = append(lists, List{Routes: Of(handler.Routes), Responses: responses})
			}
		}
	}
	return lists
}

// Handlers returns the handlers of routes, in their order.
func Handlers(routes []Route) (handlers []Node) {
	for _, r := range routes {
		handlers = append(handlers, r.Handlers...)
	}
	return handlers
}

// Answers returns the name of a handler in n that answers all requests that reach it, or "".
func (n Node) Answers() string {
	switch n.Name {
	case "static_response":
		if status, _ := n.Fields["status_code"].(float64); status == http.StatusEarlyHints {
			return ""
		}
		return "respond"
	case "file_server":
		if passes, _ := n.Fields["pass_thru"].(bool); passes {
			return ""
		}
		return n.Name
	case "reverse_proxy":
		if len(n.Lists) > 0 { // for example of forward_auth
			return ""
		}
		return n.Name
	case "error", "rate_limit_dashboard":
		return n.Name
	case "subroute":
		for _, list := range n.Lists {
			for _, r := range list.Routes {
				if by := r.Answers(); by != "" && !r.Matched && !list.ForErrors {
					return by
				}
			}
		}
	}
	return ""
}

// Answers returns the name of a handler that answers all requests that match the route, or "".
func (r Route) Answers() string {
	for _, n := range r.Handlers {
		if by := n.Answers(); by != "" {
			return by
		}
	}
	return ""
}

// MayAnswer returns the name of a handler in n that answers some requests, or "".
func (n Node) MayAnswer() string {
	if by := n.Answers(); by != "" {
		return by
	}
	for _, list := range n.Lists {
		for _, inner := range Handlers(list.Routes) {
			if by := inner.MayAnswer(); by != "" && !list.ForErrors {
				return by
			}
		}
	}
	return ""
}

// proxies reports whether the handler is a proxy, or its routes contain one.
func (n Node) proxies() bool {
	return n.Name == "reverse_proxy" || slices.ContainsFunc(n.Lists, func(list List) bool {
		return slices.ContainsFunc(Handlers(list.Routes), Node.proxies)
	})
}

// Relayed returns the matchers of an upstream's responses for which a proxy asks another one
// instead.
func (n Node) Relayed() (responses []*caddyhttp.ResponseMatcher) {
	for _, list := range n.Lists {
		inner := Handlers(list.Routes)
		if list.Responses != nil && slices.ContainsFunc(inner, Node.proxies) {
			responses = append(responses, list.Responses)
		}
		for _, handler := range inner {
			responses = append(responses, handler.Relayed()...)
		}
	}
	return responses
}
