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
	"github.com/caddy-tally/caddy-tally/internal/enforce"
	"github.com/caddy-tally/caddy-tally/internal/instance"
	"github.com/caddy-tally/caddy-tally/internal/meter"
)

// Provision checks the configuration and gets the handler ready. It opens
// nothing.
func (h *Handler) Provision(ctx caddy.Context) error {
	h.log = ctx.Logger()
	h.run = &enforce.Handler{
		Ctx: ctx, Log: h.log, Random: rand.Float64, Routed: enforce.ErrorRouted(ctx), AddressedBy: enforce.ClientIPFields(ctx),
		Jitter: h.Jitter, LogsKey: h.LogKey, LogsIP: h.LogIP, Metrics: !h.DisableMetrics,
	}
	if err := h.loadApps(ctx); err != nil {
		return err
	}
	for _, step := range []func(caddy.Context) error{
		h.checkConfig, h.provisionPeerOptions, h.provisionHeaders, h.provisionPage, h.loadExempt, h.provisionZones, h.provisionMetrics, h.run.ProvisionHistory,
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
	h.run.Style = style
	return nil
}

func (h *Handler) provisionPage(caddy.Context) error {
	page := cmp.Or(h.Page, h.app.Page, new(Page))
	err := page.provision()
	h.run.Page = page.run
	return err
}

func (h *Handler) loadApps(ctx caddy.Context) error {
	app, err := ctx.App("rate_limit")
	if err != nil {
		return fmt.Errorf("getting rate_limit app: %w", err)
	}
	h.app = app.(*App)
	h.run.App = h.app.run
	if app, err = ctx.App("events"); err != nil {
		return fmt.Errorf("getting events app: %w", err)
	}
	h.run.Events = app.(*caddyevents.App)
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
		h.run.UsesClientPlaceholders = bytes.Contains(config, []byte("{http.rate_limit.client"))
	}
	for _, z := range zones {
		if err := (&zoneSetup{z, ctx, h.app, h.app.survey, h.log}).provision(); err != nil {
			return err
		}
		h.app.run.ZoneNames[zoneHash(z.Name)] = z.Name
	}
	h.zones = zones
	for _, z := range zones {
		h.run.Zones = append(h.run.Zones, z.run)
	}
	h.run.LogsAccess, h.run.Traced = enforce.WritesAccessLogs(ctx), h.app.survey.traces || h.app.survey.foreign
	h.app.run.AllZones = append(h.app.run.AllZones, h.run.Zones...)
	h.provisionLate()
	h.warnIfIdle()
	for _, t := range h.Traps {
		if t == nil {
			return errors.New("a trap is null; give it a matcher, or remove it")
		}
		if err := t.provision(ctx, h.app); err != nil {
			return caddyconf.AtSource(err, t.Source)
		}
		h.run.Traps = append(h.run.Traps, t.run)
	}
	h.run.Clients, h.run.Anonymous = h.run.KnowsClients(), h.run.KnowsAnonymous()
	h.app.run.KnowsClients = h.app.run.KnowsClients || h.run.Clients || slices.ContainsFunc(h.run.Zones, (*enforce.Zone).CountsClients)
	h.run.Banned = &enforce.Policy{Zone: &enforce.Zone{Name: enforce.BanName}, Name: enforce.BanName}
	h.run.BannedByOperator = &enforce.Policy{Zone: &enforce.Zone{Name: enforce.BanName}, Name: enforce.BanName}
	if len(zones) > 0 || len(h.Traps) > 0 || h.app.Session != nil {
		h.app.run.Zones = true
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
	for _, z := range h.run.Zones {
		z.Meter = meter.NewZone(z.Name)
		if slices.ContainsFunc(z.Sets(), func(s *enforce.LimitSet) bool { return len(s.Shadows) > 0 }) {
			z.Meter.HasShadow(z.Name)
		}
		if z.Count != nil {
			z.Meter.Settles(z.Name)
		}
		for _, set := range z.Sets() {
			h.provisionMeters(z, set)
			provisionShared(set)
		}
	}
	h.run.None, h.run.Statements = meter.NewZone("false"), meter.NewRules()
	return nil
}

func (h *Handler) provisionMeters(z *enforce.Zone, set *enforce.LimitSet) {
	for _, p := range set.Shadows {
		p.Meter = p.NewMeter()
	}
	for _, p := range set.Policies {
		p.Meter = p.NewMeter()
		config := meter.Config{Zone: z.Name, Amount: p.Legacy, Window: p.Window().String(), IPv4: strconv.Itoa(z.IPv4Prefix), IPv6: strconv.Itoa(z.IPv6Prefix)}
		config.Use()
		h.configs = append(h.configs, config)
	}
}

// ServeHTTP lets a request pass that is within all limits, and refuses others.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	return h.run.ServeHTTP(w, r, next)
}

// Enforcer returns what decides about the requests of the handler.
func (h *Handler) Enforcer() *enforce.Handler { return h.run }

// Cleanup ends what Provision began.
func (h *Handler) Cleanup() error {
	for _, config := range h.configs {
		if err := config.Release(); err != nil {
			return err
		}
	}
	return nil
}
