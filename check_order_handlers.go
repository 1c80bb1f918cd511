package tally

// This file finds out which handlers come before and after one of ours.

import (
	"bytes"
	"encoding/json"
	"slices"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// What a request is counted by may be set by another handler: the user by the one that
// authenticates, a header field by one that rewrites it. A handler that runs later is too
// late. Caddy provisions handlers in the order in which they run, so while ours is
// provisioned, those before it are modules, and those after it are still JSON.

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
