package tally

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyevents"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-tally/caddy-tally/internal/caddyconf"
	"github.com/caddy-tally/caddy-tally/internal/instance"
	"github.com/caddy-tally/caddy-tally/internal/meter"
)

// Provision checks the configuration and gets the handler ready. It opens
// nothing.
func (h *Handler) Provision(ctx caddy.Context) error {
	h.log = ctx.Logger()
	h.run = &enforcer{
		ctx: ctx, log: h.log, random: rand.Float64, routed: errorRouted(ctx), addressedBy: clientIPFields(ctx),
		jitter: h.Jitter, logsKey: h.LogKey, logsIP: h.LogIP, metrics: !h.DisableMetrics,
	}
	if err := h.loadApps(ctx); err != nil {
		return err
	}
	for _, step := range []func(caddy.Context) error{
		h.checkConfig, h.provisionPeerOptions, h.provisionHeaders, h.provisionPage, h.loadExempt, h.provisionZones, h.provisionMetrics, h.run.provisionHistory,
	} {
		if err := step(ctx); err != nil {
			return caddyconf.AtSource(err, h.Source)
		}
	}
	return nil
}

func (h *Handler) provisionHeaders(caddy.Context) error {
	style, ok := headerStyles[h.Headers]
	if !ok {
		return fmt.Errorf("headers: must be draft, legacy, both or off, got %q", h.Headers)
	}
	h.run.style = style
	return nil
}

func (h *Handler) provisionPage(caddy.Context) error {
	page := cmp.Or(h.Page, h.app.Page, new(Page))
	err := page.provision()
	h.run.page = page.run
	return err
}

func (h *Handler) loadApps(ctx caddy.Context) error {
	app, err := ctx.App("rate_limit")
	if err != nil {
		return fmt.Errorf("getting rate_limit app: %w", err)
	}
	h.app = app.(*App)
	h.run.app = h.app.run
	if app, err = ctx.App("events"); err != nil {
		return fmt.Errorf("getting events app: %w", err)
	}
	h.run.events = app.(*caddyevents.App)
	return nil
}

// provisionPeerOptions checks the options that are there for compatibility.
func (h *Handler) provisionPeerOptions(ctx caddy.Context) error {
	if h.Jitter < 0 || math.IsNaN(h.Jitter) {
		return fmt.Errorf("jitter must be at least zero, got %v", h.Jitter)
	}
	h.warnOfDistributed() // before the storage is loaded, and its text given up
	if h.StorageRaw != nil {
		module, err := ctx.LoadModule(h, "StorageRaw")
		if err != nil {
			return fmt.Errorf("loading storage module: %w", err)
		}
		if _, ok := module.(caddy.StorageConverter); !ok {
			return fmt.Errorf("module %T is not a caddy.StorageConverter", module)
		}
	}
	return nil
}

func (h *Handler) provisionZones(ctx caddy.Context) error {
	zones, err := h.ordered()
	if err != nil {
		return err
	}
	if config, err := json.Marshal(h); err == nil { // before matchers are loaded, and their texts given up
		h.run.usesClientPlaceholders = bytes.Contains(config, []byte("{http.rate_limit.client"))
	}
	for _, z := range zones {
		if err := (&zoneSetup{z, ctx, h.app, h.app.survey, h.log}).provision(); err != nil {
			return err
		}
		h.app.run.zoneNames[zoneHash(z.Name)] = z.Name
	}
	h.zones = zones
	for _, z := range zones {
		h.run.zones = append(h.run.zones, z.run)
	}
	h.run.logsAccess, h.run.traced = writesAccessLogs(ctx), h.app.survey.traces || h.app.survey.foreign
	h.app.run.allZones = append(h.app.run.allZones, h.run.zones...)
	h.provisionLate()
	h.warnIfIdle()
	for _, t := range h.Traps {
		if t == nil {
			return errors.New("a trap is null; give it a matcher, or remove it")
		}
		if err := t.provision(ctx, h.app); err != nil {
			return caddyconf.AtSource(err, t.Source)
		}
		h.run.traps = append(h.run.traps, t.run)
	}
	h.run.clients, h.run.anonymous = h.run.knowsClients(), h.run.knowsAnonymous()
	h.app.run.knowsClients = h.app.run.knowsClients || h.run.clients || slices.ContainsFunc(h.run.zones, (*zone).countsClients)
	h.run.banned = &policy{zone: &zone{Name: banName}, name: banName}
	h.run.bannedByOperator = &policy{zone: &zone{Name: banName}, name: banName}
	if len(zones) > 0 || len(h.Traps) > 0 || h.app.Session != nil {
		h.app.run.zones = true
		h.app.warnIfServed(ctx)
	}
	return nil
}

func (h *Handler) provisionMetrics(ctx caddy.Context) error {
	if h.DisableMetrics {
		return nil
	}
	if err := meter.Register(ctx.GetMetricsRegistry(), instance.Collectors...); err != nil {
		return fmt.Errorf("registering metrics: %w", err)
	}
	for _, z := range h.run.zones {
		z.meter = meter.NewZone(z.Name)
		if slices.ContainsFunc(z.sets(), func(s *limitSet) bool { return len(s.shadows) > 0 }) {
			z.meter.HasShadow(z.Name)
		}
		if z.Count != nil {
			z.meter.Settles(z.Name)
		}
		for _, set := range z.sets() {
			h.provisionMeters(z, set)
			provisionShared(set)
		}
	}
	h.run.none, h.run.statements = meter.NewZone("false"), meter.NewRules()
	return nil
}

func (h *Handler) provisionMeters(z *zone, set *limitSet) {
	for _, p := range set.shadows {
		p.meter = p.newMeter()
	}
	for _, p := range set.policies {
		p.meter = p.newMeter()
		config := meter.Config{Zone: z.Name, Amount: p.legacy, Window: p.Window().String(), IPv4: strconv.Itoa(z.IPv4Prefix), IPv6: strconv.Itoa(z.IPv6Prefix)}
		config.Use()
		h.configs = append(h.configs, config)
	}
}

// ServeHTTP lets a request pass that is within all limits, and refuses others.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	return h.run.ServeHTTP(w, r, next)
}

// Enforcer returns what decides about the requests of the handler.
func (h *Handler) Enforcer() *enforcer { return h.run }

// Cleanup ends what Provision began.
func (h *Handler) Cleanup() error {
	for _, config := range h.configs {
		if err := config.Release(); err != nil {
			return err
		}
	}
	return nil
}
