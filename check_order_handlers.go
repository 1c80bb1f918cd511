package tally

// This file finds out what the handlers before and after one of ours set.

import (
	"bytes"
	"encoding/json"
	"net/http"
	"reflect"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-tally/caddy-tally/internal/placeholder"
)

// What a request is counted by may be set by another handler: the user by the one that
// authenticates, a header field by one that rewrites it. A handler that runs later is too
// late. Caddy provisions handlers in the order in which they run, so while ours is
// provisioned, those before it are modules, and those after it are still JSON.

// sets is what a number of handlers may set in a request: names of placeholders, without
// braces, and families of them that end with a dot.
type sets struct {
	names    map[string]bool
	anything bool // there is a handler among them of which that isn't known
}

// has reports whether the handlers are known to set a placeholder.
func (s *sets) has(name string) bool {
	if s.names[name] {
		return true
	}
	for i := range name {
		if name[i] == '.' && s.names[name[:i+1]] {
			return true
		}
	}
	return false
}

// around is what the handlers set that a request meets before and after one of ours, as far
// as the config tells.
type around struct{ before, after sets }

// aroundHandler returns what is around the handler that ctx is of.
func aroundHandler(ctx caddy.Context) *around {
	a := &around{before: sets{names: make(map[string]bool)}, after: sets{names: make(map[string]bool)}}
	modules := ctx.Modules()
	server, ok := ctx.Value(caddyhttp.ServerCtxKey).(*caddyhttp.Server)
	if !ok || len(modules) == 0 {
		a.before.anything = true
		return a
	}
	lists := []caddyhttp.RouteList{server.Routes}
	if server.Errors != nil {
		lists = append(lists, server.Errors.Routes)
	}
	for i, m := range modules {
		if _, isApp := m.(*caddyhttp.App); !isApp {
			if i == len(modules)-1 {
				break
			}
			a.before.addModule(m)
			lists = nestedRoutes(m)
		}
		a.addLevel(lists, modules[i+1])
	}
	return a
}

// addLevel adds what is around one module in the routes that it lies in: those of the list
// that isn't provisioned completely yet, which the others are before.
func (a *around) addLevel(lists []caddyhttp.RouteList, inner caddy.Module) {
	for _, routes := range lists {
		at := slices.IndexFunc(routes, func(r caddyhttp.Route) bool { return len(r.HandlersRaw) > 0 })
		if at < 0 {
			a.before.addRoutes(routes)
			continue
		}
		for i, route := range routes {
			exclusive := route.Group != "" && route.Group == routes[at].Group
			switch {
			case i < at && !exclusive && !route.Terminal:
				a.before.addRoutes(routes[i : i+1])
			case i == at:
				a.addSiblings(route.HandlersRaw, inner)
			case i > at && !exclusive && !routes[at].Terminal:
				a.after.addRoutes(routes[i : i+1])
			}
		}
		return
	}
	a.before.anything = true // a named route, which may be invoked anywhere
}

// addSiblings adds what is around a module among the handlers of its own route. Which of
// them it is can't be told if several are alike: then all count as before it.
func (a *around) addSiblings(handlers []json.RawMessage, inner caddy.Module) {
	at, found := -1, 0
	for i, raw := range handlers {
		if isConfigOf(raw, inner) {
			at, found = i, found+1
		}
	}
	for i, raw := range handlers {
		switch {
		case found == 1 && i == at:
		case found == 1 && i > at:
			a.after.addJSON(raw)
		default:
			a.before.addJSON(raw)
		}
	}
}

// isConfigOf reports whether a module that is being provisioned may have this config.
func isConfigOf(raw json.RawMessage, m caddy.Module) bool {
	var named struct {
		Handler string `json:"handler"`
	}
	if json.Unmarshal(raw, &named) != nil || named.Handler != m.CaddyModule().ID.Name() {
		return false
	}
	switch m := m.(type) {
	case *Handler:
		var other Handler
		return json.Unmarshal(raw, &other) == nil && sameJSON(m, &other)
	case *caddyhttp.Subroute:
		var other caddyhttp.Subroute
		return json.Unmarshal(raw, &other) == nil && slices.EqualFunc(m.Routes, other.Routes, isRestOf)
	}
	return true
}

func sameJSON(a, b any) bool {
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	return errX == nil && errY == nil && bytes.Equal(x, y)
}

// isRestOf reports whether a route may be what has become of another one in the course of
// provisioning, which takes away what is done.
func isRestOf(route, whole caddyhttp.Route) bool {
	return route.HandlersRaw == nil || sameJSON(route.HandlersRaw, whole.HandlersRaw)
}

func (s *sets) addRoutes(routes caddyhttp.RouteList) {
	for _, route := range routes {
		for _, raw := range route.HandlersRaw {
			s.addJSON(raw)
		}
		for _, handler := range route.Handlers {
			module, ok := handler.(caddy.Module)
			if !ok {
				s.anything = true
				continue
			}
			s.addModule(module)
			for _, nested := range nestedRoutes(module) {
				s.addRoutes(nested)
			}
		}
	}
}

// addModule adds what a handler sets itself, not what is in routes of its own.
func (s *sets) addModule(m caddy.Module) {
	var fields map[string]any
	name := m.CaddyModule().ID.Name()
	if slices.Contains([]string{"vars", "map", "headers"}, name) {
		if raw, err := json.Marshal(m); err == nil {
			_ = json.Unmarshal(raw, &fields) // what is no object has no fields
		}
	}
	s.add(name, fields)
}

// addJSON adds what handlers set that aren't provisioned yet, with all that is in them.
func (s *sets) addJSON(raw json.RawMessage) {
	var value any
	if json.Unmarshal(raw, &value) == nil {
		s.addValue(value)
	}
}

func (s *sets) addValue(value any) {
	switch value := value.(type) {
	case []any:
		for _, element := range value {
			s.addValue(element)
		}
	case map[string]any:
		if name, ok := value["handler"].(string); ok {
			s.add(name, value)
		}
		for _, field := range value {
			s.addValue(field)
		}
	}
}

// add adds what a handler with a name sets.
func (s *sets) add(name string, fields map[string]any) {
	switch name {
	case "authentication":
		s.names["http.auth."] = true
	case "reverse_proxy", "intercept":
		s.names["http."+name+"."] = true
	case "vars":
		for key := range fields {
			s.names["http.vars."+key] = true
		}
	case "map":
		destinations, _ := fields["destinations"].([]any)
		for _, destination := range destinations {
			if text, ok := destination.(string); ok {
				s.names[strings.Trim(text, "{}")] = true
			}
		}
	case "headers":
		s.addFields("http.request.header.", fields["request"])
		s.addFields("http.response.header.", fields["response"])
	case "invoke":
		s.anything = true
	default:
		s.anything = s.anything || !isOfCaddy(name)
	}
}

// addFields adds the header fields that some of the operations of the headers handler
// write or remove.
func (s *sets) addFields(family string, operations any) {
	all, _ := operations.(map[string]any)
	for _, operation := range []string{"set", "add", "replace"} {
		fields, _ := all[operation].(map[string]any)
		for field := range fields {
			s.names[family+http.CanonicalHeaderKey(field)] = true
		}
	}
	removed, _ := all["delete"].([]any)
	for _, field := range removed {
		if text, ok := field.(string); ok {
			s.names[family+http.CanonicalHeaderKey(text)] = true
		}
	}
}

// isOfCaddy reports whether a handler is Caddy's or ours, so that it is known what it sets.
func isOfCaddy(name string) bool {
	info, err := caddy.GetModule("http.handlers." + name)
	if err != nil {
		return false
	}
	pkg := placeholder.PackageOf(info.New())
	return placeholder.IsCaddy(pkg) || placeholder.IsOurs(pkg)
}

// nestedRoutes returns the routes of a handler's own, those for errors last.
func nestedRoutes(handler any) (lists []caddyhttp.RouteList) {
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
			lists = append(lists, field)
		case *caddyhttp.HTTPErrorConfig:
			if field != nil {
				lists = append(lists, field.Routes)
			}
		case []caddyhttp.ResponseHandler:
			for _, handler := range field {
				lists = append(lists, handler.Routes)
			}
		}
	}
	return lists
}
