package config

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-tally/caddy-tally/internal/bodyfield"
	"github.com/caddy-tally/caddy-tally/internal/enforce"
	"github.com/caddy-tally/caddy-tally/internal/names"
	"github.com/caddy-tally/caddy-tally/internal/routing"
)

// survey is the summary of the whole HTTP config that all checks share. It is made when the first
// handler is compiled, when all our handlers are still raw JSON.
type survey struct {
	app       *App            // nil for a dashboard, like run
	run       *enforce.Config // of the app
	views     []*routing.View // of the servers
	places    []*place        // our handlers, in the order of execution
	zones     []sitedZone
	traps     bool              // whether there are any traps
	mentions  map[string]string // our placeholders in other handlers, with the name of one such handler
	providers map[string]bool   // authentication providers, by name
	foreign   bool              // whether there are handlers that are neither Caddy's nor ours
	traces    bool              // whether Caddy's tracing handler is configured
	logs      []string          // loggers that Caddy's logs include by name
	proxied   map[string]bool   // the handlers before a proxy, by their JSON
	bodies    map[string]bool   // placeholders of the body: Caddy's, and those that `map` makes of them
}

// sitedZone is a configured zone with its place.
type sitedZone struct {
	*Zone
	handler int    // identifies the handler of the zone
	site    string // the hosts of its site, or ""
}

// place is one of our handlers with its surroundings.
type place struct {
	*routing.Place
	view      *routing.View // of its server
	handler   *Handler      // nil for a dashboard
	dashboard *Dashboard    // nil for others
	zones     []*Zone       // in the order of evaluation
	before    routing.Provided
	after     routing.Provided
}

// emptySurvey returns a survey of no sites.
func emptySurvey(app *App, run *enforce.Config) *survey {
	return &survey{app: app, run: run, bodies: map[string]bool{routing.Body: true, routing.BodyBase64: true}, mentions: make(map[string]string), proxied: make(map[string]bool), providers: make(map[string]bool)}
}

// newSurvey returns the survey of the config to which the handler of ctx belongs.
func newSurvey(ctx caddy.Context, app *App, run *enforce.Config) *survey {
	s := emptySurvey(app, run)
	s.logs = routing.IncludedLogs(ctx)
	for _, m := range ctx.Modules() {
		if app, ok := m.(*caddyhttp.App); ok {
			for _, name := range slices.Sorted(maps.Keys(app.Servers)) {
				s.add(routing.NewView(app.Servers[name]))
			}
		}
	}
	return s
}

func (s *survey) add(v *routing.View) {
	s.views = append(s.views, v)
	for _, p := range v.Places {
		switch module := p.Module.(type) {
		case interface{ config() *Handler }:
			s.addHandler(&place{Place: p, view: v, handler: module.config()})
		case interface{ config() *Dashboard }:
			s.addPlace(&place{Place: p, view: v, dashboard: module.config()})
		default:
			s.note(p.Node)
		}
	}
}

func (s *survey) addPlace(p *place) {
	p.before, p.after = p.Before(), p.After()
	s.places = append(s.places, p)
}

func (s *survey) addHandler(p *place) {
	if text, err := json.Marshal(p.handler); err == nil && p.Proxies() {
		s.proxied[string(text)] = true
	}
	p.handler.Traps = slices.DeleteFunc(p.handler.Traps, func(t *Trap) bool { return t == nil })
	s.traps = s.traps || len(p.handler.Traps) > 0
	p.zones, _ = p.handler.ordered()
	for _, z := range p.zones {
		s.zones = append(s.zones, sitedZone{z, len(s.places), p.Site})
	}
	s.addPlace(p)
}

// config returns the handler itself, for modules that embed it.
func (h *Handler) config() *Handler { return h }

// config returns the dashboard itself, for modules that embed it.
func (dash *Dashboard) config() *Dashboard { return dash }

// note adds the facts of another handler.
func (s *survey) note(n routing.Node) {
	for _, provider := range n.Providers {
		s.providers[provider] = true
	}
	s.foreign = s.foreign || n.Foreign
	s.traces = s.traces || n.Name == "tracing"
	if n.Name == "map" && s.bodyUse(namesIn(n.Fields, nil)).Whole {
		destinations, _ := n.Fields["destinations"].([]any)
		for _, d := range destinations {
			s.bodies[strings.Trim(fmt.Sprint(d), "{}")] = true
		}
	}
	s.noteTexts(n.Name, n.Fields)
}

// bodyUse returns what the placeholders that options depend on use of the body.
func (s *survey) bodyUse(names []string) (use enforce.BodyUse) {
	for _, name := range names {
		use.Whole = use.Whole || s.bodies[name]
		use.Fields = use.Fields || bodyfield.IsField(name)
	}
	return use
}

// noteTexts notes our placeholders in the config of another handler.
func (s *survey) noteTexts(handler string, value any) {
	switch value := value.(type) {
	case string:
		for _, name := range routing.PlaceholderNames(value) {
			if strings.HasPrefix(name, enforce.OurPlaceholders) {
				s.mentions[name] = handler
			}
		}
	case []any:
		for _, element := range value {
			s.noteTexts(handler, element)
		}
	case map[string]any:
		if name, _ := value["handler"].(string); name == names.Handler {
			return
		} else if name != "" {
			handler = name
		}
		for _, key := range slices.Sorted(maps.Keys(value)) {
			s.noteTexts(handler, key)
			s.noteTexts(handler, value[key])
		}
	}
}
