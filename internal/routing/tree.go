package routing

import (
	"bytes"
	"cmp"
	"encoding/json"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strconv"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/caddyauth"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/fileserver"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"
)

// Route is a route of the config.
type Route struct {
	Requests []Requests // that it matches, one of each matcher set; nil: all
	Group    string     // only one route of a group runs
	Terminal bool       // no route after it runs
	Handlers []Node
	inert    bool // see isInert
}

// Node is a handler of the config.
type Node struct {
	Name      string
	Fields    map[string]any // its config; nil if it is loaded already and not needed
	Providers []string       // of authentication
	Lists     []List         // its own routes, error routes last
	Foreign   bool           // it is neither Caddy's nor ours
	Module    any            // loaded, or with its config only; nil if that is invalid or this Caddy lacks it
}

// List is a list of routes in a handler.
type List struct {
	Routes    []Route
	ForErrors bool
	Responses *caddyhttp.ResponseMatcher // of an upstream, which the routes replace; nil for others
}

// newRoutes returns the routes of a list. Their handlers are modules or JSON.
func newRoutes(list caddyhttp.RouteList) (routes []Route) {
	for _, from := range list {
		r := Route{Group: from.Group, Terminal: from.Terminal, Requests: requestsOf(setsOf(&from))}
		for _, raw := range from.HandlersRaw {
			r.Handlers = append(r.Handlers, rawNode(raw))
		}
		for _, handler := range from.Handlers {
			r.Handlers = append(r.Handlers, loadedNode(handler))
		}
		r.inert = r.isInert()
		routes = append(routes, r)
	}
	return routes
}

// Hosts returns the hosts in matcher sets.
func Hosts(sets []caddy.ModuleMap) []string { return hostsOf(requestsOf(sets)) }

func hostsOf(all []Requests) (hosts []string) {
	for _, requests := range all {
		hosts = append(hosts, requests.Hosts...)
	}
	return hosts
}

// rawNode returns the node of a handler's JSON. Loading it reports errors.
func rawNode(raw json.RawMessage) Node {
	var fields map[string]any
	_ = json.Unmarshal(raw, &fields)
	name, _ := fields["handler"].(string)
	info, err := caddy.GetModule("http.handlers." + name)
	if err != nil {
		return Node{Name: name, Fields: fields}
	}
	module := info.New()
	if json.Unmarshal(raw, module) != nil {
		return Node{Name: name, Fields: fields, Foreign: isForeign(module)}
	}
	n := newNode(module)
	n.Name, n.Fields = name, fields
	return n
}

// loadedNode returns the node of a loaded handler. None of ours is loaded yet.
func loadedNode(handler caddyhttp.MiddlewareHandler) Node {
	n := newNode(handler)
	n.Name = nameOf(handler)
	// their texts may have our placeholders
	if slices.Contains([]string{"vars", "map", "headers", "static_response", "file_server"}, n.Name) {
		if raw, err := json.Marshal(handler); err == nil {
			_ = json.Unmarshal(raw, &n.Fields) // if it is no object it has no fields
		}
	}
	return n
}

func newNode(module any) Node {
	n := Node{Module: module, Foreign: isForeign(module), Lists: nestedLists(module)}
	if auth, ok := module.(*caddyauth.Authentication); ok {
		n.Providers = slices.Sorted(maps.Keys(auth.Providers))
		n.Providers = slices.AppendSeq(n.Providers, maps.Keys(auth.ProvidersRaw))
	}
	return n
}

// nameOf returns the name of a handler's module, or "".
func nameOf(handler caddyhttp.MiddlewareHandler) string {
	if module, ok := handler.(caddy.Module); ok {
		return module.CaddyModule().ID.Name()
	}
	return ""
}

// SameJSON reports whether two modules have the same config.
func SameJSON(a, b any) bool {
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	return errX == nil && errY == nil && bytes.Equal(x, y)
}

// isForeign reports whether a handler is neither Caddy's nor ours, so that its behavior is unknown.
func isForeign(handler any) bool {
	pkg := packageOf(handler)
	return !isCaddy(pkg) && !isOurs(pkg)
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
			lists = append(lists, List{Routes: newRoutes(field)})
		case *caddyhttp.HTTPErrorConfig:
			if field != nil {
				lists = append(lists, List{Routes: newRoutes(field.Routes), ForErrors: true})
			}
		case []caddyhttp.ResponseHandler:
			for _, handler := range field {
				responses := cmp.Or(handler.Match, new(caddyhttp.ResponseMatcher))
				lists = append(lists, List{Routes: newRoutes(handler.Routes), Responses: responses})
			}
		}
	}
	return lists
}

// handlersOf returns the handlers of routes, in their order.
func handlersOf(routes []Route) (handlers []Node) {
	for _, r := range routes {
		handlers = append(handlers, r.Handlers...)
	}
	return handlers
}

// each yields handlers and nested ones, and reports whether the iteration was completed.
func each(handlers []Node, yield func(Node) bool) bool {
	for _, n := range handlers {
		if !yield(n) {
			return false
		}
		for _, list := range n.Lists {
			if !each(handlersOf(list.Routes), yield) {
				return false
			}
		}
	}
	return true
}

// answersAll reports whether a handler itself answers all requests that reach it.
func answersAll(name string, handler any) bool {
	switch handler := handler.(type) {
	case *caddyhttp.StaticResponse:
		return handler.StatusCode != caddyhttp.WeakString(strconv.Itoa(http.StatusEarlyHints))
	case *fileserver.FileServer:
		return !handler.PassThru
	case *reverseproxy.Handler:
		return len(handler.HandleResponse) == 0 // others ask another server first, as forward_auth does
	}
	return name == "error" || name == "metrics" || name == "rate_limit_dashboard"
}

// Answers returns the name of a handler in n that answers all requests that reach it, or "".
func (n Node) Answers() string { return n.answers(false) }

// answers returns the name of a handler in n that answers all requests that reach n, or with some, some of
// them; or "".
func (n Node) answers(some bool) string {
	switch {
	case answersAll(n.Name, n.Module) && n.Name == "static_response":
		if s, ok := n.Module.(*caddyhttp.StaticResponse); ok && s.Headers.Get("Location") != "" {
			return "redir"
		}
		return "respond"
	case answersAll(n.Name, n.Module):
		return n.Name
	case !some && n.Name != "subroute":
		return ""
	}
	for _, list := range n.Lists {
		for _, r := range list.Routes {
			if by := r.answers(some); by != "" && !list.ForErrors && (some || r.Requests == nil) {
				return by
			}
		}
	}
	return ""
}

// answers returns the name of a handler that answers all requests that match the route, or some of them; or "".
func (r Route) answers(some bool) string {
	for _, n := range r.Handlers {
		if by := n.answers(some); by != "" {
			return by
		}
	}
	return ""
}

// proxies reports whether the handler is a proxy, or its routes contain one.
func (n Node) proxies() bool {
	return !each([]Node{n}, func(n Node) bool { return n.Name != "reverse_proxy" })
}

// relayed returns the matchers of an upstream's responses for which a proxy asks another one
// instead.
func (n Node) relayed() (responses []*caddyhttp.ResponseMatcher) {
	each([]Node{n}, func(n Node) bool {
		for _, list := range n.Lists {
			if list.Responses != nil && slices.ContainsFunc(handlersOf(list.Routes), Node.proxies) {
				responses = append(responses, list.Responses)
			}
		}
		return true
	})
	return responses
}
