package config

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-tally/caddy-tally/internal/answer"
	"github.com/caddy-tally/caddy-tally/internal/bodyfield"
	"github.com/caddy-tally/caddy-tally/internal/enforce"
	"github.com/caddy-tally/caddy-tally/internal/names"
	"github.com/caddy-tally/caddy-tally/internal/routing"
)

// Survey is the summary of the whole HTTP config that all checks share. It is made when the first
// handler is compiled, when all our handlers are still raw JSON (decision 123).
type Survey struct {
	App       *App            // nil for a dashboard, like run
	Run       *enforce.Config // of the app
	Views     []*routing.View // of the servers
	Places    []*Place        // our handlers, in the order of execution
	Zones     []SitedZone
	Traps     bool              // whether there are any traps
	Mentions  map[string]string // our placeholders in other handlers, with the name of one such handler
	Providers map[string]bool   // authentication providers, by name
	Foreign   bool              // whether there are handlers that are neither Caddy's nor ours
	traces    bool              // whether Caddy's tracing handler is configured
	Logs      []string          // loggers that Caddy's logs include by name
	proxied   map[string]bool   // the handlers before a proxy, by their JSON
	Bodies    map[string]bool   // placeholders of the body: Caddy's, and those that `map` makes of them
}

// SitedZone is a configured zone with its place.
type SitedZone struct {
	*Zone
	Handler int    // identifies the handler of the zone
	Site    string // the hosts of its site, or ""
}

// Place is one of our handlers with its surroundings.
type Place struct {
	*routing.Place
	View      *routing.View // of its server
	Handler   *Handler      // nil for a dashboard
	Dashboard *Dashboard    // nil for others
	Zones     []*Zone       // in the order of evaluation
	Earlier   routing.Provided
	Later     routing.Provided

	asked []string // the placeholders of which [Place.isChosen] asks, which may depend on one another
}

// Survey returns the survey of the config, and whether it is new. The first call must come before any module of the
// config's handlers is loaded, since loading discards the raw JSON.
func (c *Compiler) Survey(ctx caddy.Context) (s *Survey, isNew bool) {
	if c.survey != nil {
		return c.survey, false
	}
	c.survey, c.Run.Used = NewSurvey(ctx, c.App, c.Run), true
	for _, p := range c.survey.Places {
		answer.KeepFields(p.View.Server.Routes, p.View.Server.Errors)
	}
	return c.survey, true
}

// emptySurvey returns a survey of no sites.
func emptySurvey(app *App, run *enforce.Config) *Survey {
	return &Survey{App: app, Run: run, Bodies: map[string]bool{routing.Body: true, routing.BodyBase64: true},
		Mentions: make(map[string]string), proxied: make(map[string]bool), Providers: make(map[string]bool)}
}

// NewSurvey returns the survey of the config to which the handler of ctx belongs.
func NewSurvey(ctx caddy.Context, app *App, run *enforce.Config) *Survey {
	s := emptySurvey(app, run)
	s.Logs = routing.IncludedLogs(ctx)
	for _, m := range ctx.Modules() {
		if app, ok := m.(*caddyhttp.App); ok {
			for _, name := range slices.Sorted(maps.Keys(app.Servers)) {
				s.add(routing.NewView(app.Servers[name]))
			}
		}
	}
	return s
}

func (s *Survey) add(v *routing.View) {
	s.Views = append(s.Views, v)
	for _, p := range v.Places {
		switch module := p.Module.(type) {
		case interface{ config() *Handler }:
			s.addHandler(&Place{Place: p, View: v, Handler: module.config()})
		case interface{ config() *Dashboard }:
			s.addPlace(&Place{Place: p, View: v, Dashboard: module.config()})
		default:
			s.note(p.Node)
		}
	}
}

func (s *Survey) addPlace(p *Place) {
	p.Earlier, p.Later = p.Before(), p.After()
	s.Places = append(s.Places, p)
}

func (s *Survey) addHandler(p *Place) {
	if text, err := json.Marshal(p.Handler); err == nil && p.Proxies() {
		s.proxied[string(text)] = true
	}
	p.Handler.Traps = slices.DeleteFunc(p.Handler.Traps, func(t *Trap) bool { return t == nil })
	s.Traps = s.Traps || len(p.Handler.Traps) > 0
	p.Zones, _ = p.Handler.Ordered()
	for _, z := range p.Zones {
		s.Zones = append(s.Zones, SitedZone{z, len(s.Places), p.Site})
	}
	s.addPlace(p)
}

// config returns the handler itself, for modules that embed it.
func (h *Handler) config() *Handler { return h }

// config returns the dashboard itself, for modules that embed it.
func (dash *Dashboard) config() *Dashboard { return dash }

// note adds the facts of another handler.
func (s *Survey) note(n routing.Node) {
	for _, provider := range n.Providers {
		s.Providers[provider] = true
	}
	s.Foreign = s.Foreign || n.Foreign
	s.traces = s.traces || n.Name == "tracing"
	if n.Name == "map" && s.bodyUse(namesIn(n.Fields, nil)).Whole {
		destinations, _ := n.Fields["destinations"].([]any)
		for _, d := range destinations {
			s.Bodies[strings.Trim(fmt.Sprint(d), "{}")] = true
		}
	}
	s.noteTexts(n.Name, n.Fields)
}

// bodyUse returns what the placeholders that options depend on use of the body.
func (s *Survey) bodyUse(names []string) (use enforce.BodyUse) {
	for _, name := range names {
		use.Whole = use.Whole || s.Bodies[name]
		use.Fields = use.Fields || bodyfield.IsField(name)
	}
	return use
}

// noteTexts notes our placeholders in the config of another handler.
func (s *Survey) noteTexts(handler string, value any) {
	switch value := value.(type) {
	case string:
		for _, name := range routing.PlaceholderNames(value) {
			if strings.HasPrefix(name, enforce.OurPlaceholders) {
				s.Mentions[name] = handler
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
