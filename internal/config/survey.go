package config

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-tally/caddy-tally/internal/enforce"
	"github.com/caddy-tally/caddy-tally/internal/placeholder"
	"github.com/caddy-tally/caddy-tally/internal/routes"
)

// survey is the summary of the whole HTTP config that all checks share. It is made when the first
// handler is compiled, when all our handlers are still raw JSON.
type survey struct {
	app       *App            // nil for a dashboard, like run
	run       *enforce.Config // of the app
	servers   []*caddyhttp.Server
	places    []*place // our handlers, in the order of execution
	zones     []sitedZone
	traps     bool              // whether there are any traps
	mentions  map[string]string // our placeholders in other handlers, with the name of one such handler
	hosts     map[*caddyhttp.Server][]string
	providers map[string]bool // authentication providers, by name
	foreign   bool            // whether there are handlers that are neither Caddy's nor ours
	traces    bool            // whether Caddy's tracing handler is configured
	bodies    map[string]bool // placeholders of the body: Caddy's, and those that `map` makes of them
}

// sitedZone is a configured zone with its place.
type sitedZone struct {
	*Zone
	handler int    // identifies the handler of the zone
	site    string // the hosts of its site, or ""
}

// place is one of our handlers with its surroundings.
type place struct {
	handler   *Handler   // nil for a dashboard
	dashboard *Dashboard // nil for others
	zones     []*Zone    // in the order of evaluation
	server    *caddyhttp.Server
	before    routes.Provided
	after     routes.Provided
	hidden    string                       // an earlier handler that answers all requests, or ""
	leavings  string                       // an earlier handler that answers some requests, if no later one answers any; or ""
	inErrors  bool                         // it is in error routes
	relayed   []*caddyhttp.ResponseMatcher // by later upstreams, see [routes.Node.Relayed]
}

// newSurvey returns the survey of the config to which the handler of ctx belongs.
func newSurvey(ctx caddy.Context, app *App, run *enforce.Config) *survey {
	s := &survey{app: app, run: run, bodies: map[string]bool{placeholder.Body: true, placeholder.BodyBase64: true}, mentions: make(map[string]string), hosts: make(map[*caddyhttp.Server][]string), providers: make(map[string]bool)}
	for _, m := range ctx.Modules() {
		if app, ok := m.(*caddyhttp.App); ok {
			for _, name := range slices.Sorted(maps.Keys(app.Servers)) {
				s.addServer(app.Servers[name])
			}
		}
	}
	return s
}

func (s *survey) addServer(server *caddyhttp.Server) {
	s.servers = append(s.servers, server)
	look := surveyor{survey: s, server: server}
	main := routes.Of(server.Routes)
	look.routes(main)
	if server.Errors != nil {
		look.before, look.inErrors = routes.Handlers(main), true
		look.routes(routes.Of(server.Errors.Routes))
	}
	look.anywhere, look.before, look.inErrors = true, nil, false
	for _, name := range slices.Sorted(maps.Keys(server.NamedRoutes)) {
		look.routes(routes.Of(caddyhttp.RouteList{*server.NamedRoutes[name]}))
	}
}

// surveyor visits the handlers of a server in the order of execution. It knows the surroundings of
// the current one.
type surveyor struct {
	*survey
	server        *caddyhttp.Server
	site          string // the hosts of the surrounding routes
	before, after []routes.Node
	hidden        string // an earlier handler that answers all requests, or ""
	answering     string // an earlier handler that answers some requests, or ""
	inErrors      bool
	anywhere      bool // in a named route, which may be invoked anywhere
}

func (s surveyor) routes(list []routes.Route) {
	for i, r := range list {
		in := s
		if len(r.Hosts) > 0 {
			in.site = strings.ToLower(strings.Join(slices.Sorted(slices.Values(r.Hosts)), " "))
			s.survey.hosts[s.server] = append(s.survey.hosts[s.server], r.Hosts...)
		}
		for _, earlier := range list[:i] {
			in.passed(earlier, earlier.Group != "" && earlier.Group == r.Group)
		}
		for _, later := range list[i+1:] {
			if !r.Terminal && (later.Group == "" || later.Group != r.Group) {
				in.after = slices.Concat(in.after, later.Handlers)
			}
		}
		in.handlers(r.Handlers)
	}
}

// passed notes a route before the current one. Of routes that exclude each other only one runs.
func (s *surveyor) passed(r routes.Route, excludes bool) {
	if s.hidden == "" && !r.Matched {
		s.hidden = r.Answers()
		if s.hidden == "" && (excludes || r.Terminal) {
			s.hidden = "a route without a matcher"
		}
	}
	if excludes || r.Terminal {
		return
	}
	s.before = slices.Concat(s.before, r.Handlers)
	for _, n := range r.Handlers {
		s.meets(n)
	}
}

func (s *surveyor) meets(n routes.Node) {
	if s.answering == "" {
		s.answering = n.MayAnswer()
	}
}

func (s surveyor) handlers(handlers []routes.Node) {
	for i, n := range handlers {
		in := s
		in.after = slices.Concat(handlers[i+1:], s.after)
		in.handler(n)
		s.before = slices.Concat(s.before, handlers[i:i+1])
		s.meets(n)
		if s.hidden == "" {
			s.hidden = n.Answers()
		}
	}
}

func (s surveyor) handler(n routes.Node) {
	s.note(n)
	if isOurs(n) {
		s.ours(n)
		return
	}
	outer := n
	outer.Lists = nil
	s.before = slices.Concat(s.before, []routes.Node{outer})
	for _, list := range n.Lists {
		in := s
		if list.ForErrors {
			in.inErrors, in.hidden = true, ""
		}
		in.routes(list.Routes)
		s.before = slices.Concat(s.before, routes.Handlers(list.Routes))
	}
}

// isOurs reports whether a handler is checked.
func isOurs(n routes.Node) bool { return n.Name == handlerName || n.Name == dashboardName }

// note adds a handler's facts to the survey.
func (s surveyor) note(n routes.Node) {
	for _, provider := range n.Providers {
		s.providers[provider] = true
	}
	s.survey.foreign = s.survey.foreign || n.Foreign
	s.survey.traces = s.survey.traces || n.Name == "tracing"
	if n.Name == "map" && s.readsBody(needsOfMatchers(nil, n.Name, n.Fields)) {
		destinations, _ := n.Fields["destinations"].([]any)
		for _, d := range destinations {
			s.bodies[strings.Trim(fmt.Sprint(d), "{}")] = true
		}
	}
	if !isOurs(n) {
		s.texts(n.Name, n.Fields)
	}
}

// readsBody reports whether one of the placeholders that options depend on is the body's.
func (s *survey) readsBody(needs []need) bool {
	return slices.ContainsFunc(needs, func(n need) bool { return s.bodies[n.name] })
}

// texts notes our placeholders in the config of another handler.
func (s surveyor) texts(handler string, value any) {
	switch value := value.(type) {
	case string:
		for _, name := range placeholder.Names(value) {
			if strings.HasPrefix(name, enforce.OurPlaceholders) {
				s.mentions[name] = handler
			}
		}
	case []any:
		for _, element := range value {
			s.texts(handler, element)
		}
	case map[string]any:
		if name, _ := value["handler"].(string); name == handlerName {
			return
		} else if name != "" {
			handler = name
		}
		for _, key := range slices.Sorted(maps.Keys(value)) {
			s.texts(handler, key)
			s.texts(handler, value[key])
		}
	}
}

const (
	handlerName   = "rate_limit"
	dashboardName = "rate_limit_dashboard"
)

// ours notes one of our handlers. Loading it reports errors in its JSON.
func (s surveyor) ours(n routes.Node) {
	raw, err := json.Marshal(n.Fields)
	if err != nil {
		return
	}
	p := &place{server: s.server, before: routes.ProvidedBy(s.before), after: routes.ProvidedBy(s.after), hidden: s.hidden, inErrors: s.inErrors}
	for _, later := range s.after {
		p.relayed = append(p.relayed, later.Relayed()...)
	}
	p.before.Anything = p.before.Anything || s.anywhere
	if !s.inErrors && !s.anywhere && s.hidden == "" && !slices.ContainsFunc(s.after, func(n routes.Node) bool { return n.MayAnswer() != "" || n.Foreign }) {
		p.leavings = s.answering
	}
	if n.Name == dashboardName {
		p.dashboard = new(Dashboard)
		if json.Unmarshal(raw, p.dashboard) == nil {
			s.survey.places = append(s.survey.places, p)
		}
		return
	}
	p.handler = new(Handler)
	if json.Unmarshal(raw, p.handler) != nil {
		return
	}
	p.handler.Traps = slices.DeleteFunc(p.handler.Traps, func(t *Trap) bool { return t == nil })
	s.survey.traps = s.survey.traps || len(p.handler.Traps) > 0
	p.zones, _ = p.handler.ordered()
	for _, z := range p.zones {
		s.survey.zones = append(s.survey.zones, sitedZone{z, len(s.survey.places), s.site})
	}
	s.survey.places = append(s.survey.places, p)
}
