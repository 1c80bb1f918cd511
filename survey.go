package tally

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/caddyauth"

	"github.com/caddy-tally/caddy-tally/internal/placeholder"
)

// survey is what the whole HTTP config says that a handler can't know by itself. It is
// made when the first handler is provisioned, because of that one and all after it
// there is JSON still.
type survey struct {
	zones     []sitedZone
	traps     bool              // whether there are any
	mentions  map[string]string // placeholders of ours in other handlers, and the name of one such handler
	hosts     map[*caddyhttp.Server][]string
	providers map[string]bool // of authentication, by their names
	foreign   bool            // whether there are handlers that are neither Caddy's nor ours
	traces    bool            // whether there is Caddy's handler that begins spans
}

// sitedZone is a zone as it is configured, and where.
type sitedZone struct {
	*Zone
	handler int    // by which zones of one handler are told from others
	site    string // the hosts of its site, or ""
}

func (s *survey) addServer(server *caddyhttp.Server) {
	look := surveyor{survey: s, server: server}
	look.routes(server.Routes)
	if server.Errors != nil {
		look.routes(server.Errors.Routes)
	}
	for _, name := range slices.Sorted(maps.Keys(server.NamedRoutes)) {
		look.routes(caddyhttp.RouteList{*server.NamedRoutes[name]})
	}
}

// surveyor goes through the handlers of a server.
type surveyor struct {
	*survey
	server  *caddyhttp.Server
	site    string // the hosts of the routes that the handlers are in
	handler string // the name of the innermost one
}

func (l surveyor) routes(routes caddyhttp.RouteList) {
	for _, route := range routes {
		in := l
		for _, set := range route.MatcherSets {
			for _, matcher := range set {
				if hosts, ok := matcher.(*caddyhttp.MatchHost); ok {
					in = in.below(*hosts)
				}
			}
		}
		for _, raw := range route.HandlersRaw {
			in.raw(raw)
		}
		for _, handler := range route.Handlers {
			in.loaded(handler)
		}
	}
}

// below returns the surveyor of what is for some hosts.
func (l surveyor) below(hosts []string) surveyor {
	l.site = strings.ToLower(strings.Join(slices.Sorted(slices.Values(hosts)), " "))
	l.hosts[l.server] = append(l.hosts[l.server], hosts...)
	return l
}

// loaded notes a handler that is loaded already, which none of ours is.
func (l surveyor) loaded(handler caddyhttp.MiddlewareHandler) {
	switch handler := handler.(type) {
	case *caddyhttp.Subroute:
		l.routes(handler.Routes)
		if handler.Errors != nil {
			l.routes(handler.Errors.Routes)
		}
	case *caddyauth.Authentication:
		for name := range handler.Providers {
			l.providers[name] = true
		}
	default:
		l.foreign = l.foreign || !placeholder.IsCaddy(placeholder.PackageOf(handler))
		module, ok := handler.(caddy.Module)
		l.traces = l.traces || ok && module.CaddyModule().ID == "http.handlers.tracing"
	}
}

func (l surveyor) raw(raw json.RawMessage) {
	var value any
	if json.Unmarshal(raw, &value) == nil {
		l.value(value)
	}
}

func (l surveyor) value(value any) {
	switch value := value.(type) {
	case string:
		l.text(value)
	case []any:
		for _, element := range value {
			l.value(element)
		}
	case map[string]any:
		l.object(value)
	}
}

func (l surveyor) object(object map[string]any) {
	name, _ := object["handler"].(string)
	switch {
	case name == "rate_limit":
		l.ours(object)
		return
	case name == "authentication":
		providers, _ := object["providers"].(map[string]any)
		for provider := range providers {
			l.providers[provider] = true
		}
	case name != "":
		if info, err := caddy.GetModule("http.handlers." + name); err == nil && !placeholder.IsCaddy(placeholder.PackageOf(info.New())) {
			l.foreign = true
		}
	}
	if name != "" {
		l.handler = name
		l.traces = l.traces || name == "tracing"
	}
	if hosts := hostsOf(object["match"]); len(hosts) > 0 {
		l = l.below(hosts)
	}
	for _, key := range slices.Sorted(maps.Keys(object)) {
		l.text(key)
		l.value(object[key])
	}
}

// hostsOf returns the hosts that matcher sets name.
func hostsOf(sets any) (hosts []string) {
	list, _ := sets.([]any)
	for _, set := range list {
		matchers, _ := set.(map[string]any)
		names, _ := matchers["host"].([]any)
		for _, name := range names {
			if host, ok := name.(string); ok {
				hosts = append(hosts, host)
			}
		}
	}
	return hosts
}

// ours notes the zones of a handler of ours.
func (l surveyor) ours(object map[string]any) {
	raw, err := json.Marshal(object)
	var h struct {
		Zones      []*Zone           `json:"zones"`
		RateLimits map[string]*Zone  `json:"rate_limits"`
		Traps      []json.RawMessage `json:"traps"`
	}
	if err != nil || json.Unmarshal(raw, &h) != nil {
		return // what is wrong with it is said when it is loaded
	}
	l.traps = l.traps || len(h.Traps) > 0
	handler := 0
	if n := len(l.zones); n > 0 {
		handler = l.zones[n-1].handler + 1
	}
	zones, err := orderedZones(h.Zones, h.RateLimits)
	if err != nil {
		return
	}
	for _, z := range zones {
		l.zones = append(l.zones, sitedZone{z, handler, l.site})
	}
}

const ourPlaceholders = "http.rate_limit."

// text notes placeholders of ours.
func (l surveyor) text(text string) {
	if !strings.Contains(text, "{"+ourPlaceholders) {
		return
	}
	for _, name := range placeholder.Names(text) {
		if strings.HasPrefix(name, ourPlaceholders) {
			l.mentions[name] = l.handler
		}
	}
}
