package config

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyevents"
	"go.uber.org/zap"

	"github.com/caddy-tally/caddy-tally/internal/advice"
	"github.com/caddy-tally/caddy-tally/internal/answer"
	"github.com/caddy-tally/caddy-tally/internal/caddyconf"
	"github.com/caddy-tally/caddy-tally/internal/enforce"
	"github.com/caddy-tally/caddy-tally/internal/instance"
	"github.com/caddy-tally/caddy-tally/internal/matcher"
	"github.com/caddy-tally/caddy-tally/internal/names"
	"github.com/caddy-tally/caddy-tally/internal/report"
	"github.com/caddy-tally/caddy-tally/internal/stores"
	"github.com/caddy-tally/caddy-tally/limiter/reputation"
	"github.com/caddy-tally/caddy-tally/storage"
)

// Compiler translates a configuration into its runtime form: first the app, then each handler.
type Compiler struct {
	*App
	Run *enforce.Config

	retentions map[storage.LimitID]*time.Duration // longest retention of each limit's counts, see limit

	loads  map[string]*enforce.Load // measurements by the names of zones
	survey *Survey                  // of all handlers' configs; see [Compiler.Survey]
	found  []advice.Advice
	log    *zap.Logger
}

// Compile checks the settings of the app. It opens nothing. The result must be cleaned up even if
// there is an error, see [enforce.Config.Cleanup].
func (a *App) Compile(ctx caddy.Context) (*Compiler, error) {
	c := &Compiler{App: a, log: ctx.Logger(), loads: make(map[string]*enforce.Load)}
	c.Run = enforce.NewConfig(c.log, a.Source)
	if running, err := caddy.ActiveContext().AppIfConfigured(names.App); err == nil {
		if app, ok := running.(interface{ Enforcer() *enforce.Config }); ok && app.Enforcer() != nil {
			c.Run.Follow(app.Enforcer()) // it is a reload
		}
	}
	c.Run.IPv4Prefix, c.Run.IPv6Prefix = a.IPv4Prefix, a.IPv6Prefix
	for _, step := range []func() error{
		func() error { return c.loadStore(ctx) },
		c.check,
		c.compileClients,
		c.compileFiles,
		func() error { return c.compileRegion(ctx) },
		c.compileNetworks,
		c.compileRules,
		c.compileBlockLists,
		c.compileNotify,
		func() error {
			decisions, err := c.DecisionLog.compile(ctx)
			c.Run.Reporter = &report.Reporter{Decisions: decisions}
			return err
		},
	} {
		if err := step(); err != nil {
			return c, caddyconf.AtSource(fmt.Errorf("rate_limit: %w", err), a.Source)
		}
	}
	c.compileReputation()
	if !c.DisableHistory {
		c.Run.Ledger = instance.OpenLedger(c.Run.Settings)
	}
	return c, c.Run.Advice.Give(c.log, c.found...)
}

// compileReputation sets the cost of violations.
func (c *Compiler) compileReputation() {
	c.Run.Scores = !c.Reputation.isOff()
	c.Run.Forged = reputation.Offense{
		Violation: reputation.Violation{Reason: reputation.Forged},
		Points:    c.Reputation.points(reputation.Forged),
		Ban:       c.Ban.rule(""),
	}
	if c.Pressure.isOn() {
		c.Run.Crowded, c.Run.Squeeze = c.Pressure.most(), squeeze.rule("")
	}
}

// loadStore loads the module of the store.
func (c *Compiler) loadStore(ctx caddy.Context) error {
	if c.StoreRaw == nil {
		c.StoreRaw = json.RawMessage(`{"engine":"sqlite"}`)
	}
	module, err := ctx.LoadModule(c.App, "StoreRaw")
	if err != nil {
		return fmt.Errorf("store: %w", err)
	}
	store, ok := module.(stores.Store)
	if !ok {
		return fmt.Errorf("store: module %T is not a store", module)
	}
	c.Run.Store = store
	if n, ok := store.(stores.Network); ok {
		addresses, fix := n.Plain()
		if i := slices.IndexFunc(addresses, isElsewhere); i >= 0 {
			c.found = append(c.found, advice.Advice{Source: c.Source, Problem: fmt.Sprintf("store: %s is reached without TLS, so that others on the way may read its password, and change counts", addresses[i]),
				Fix: fix})
		}
	}
	return nil
}

// inside matches names that only networks of one's own have.
var inside = regexp.MustCompile(`^[^.]*$|^/|(^|\.)(localhost|localdomain|internal|intern|local|lan|home\.arpa|svc)$`)

// isElsewhere reports whether a server's address is reached over networks of others.
func isElsewhere(address string) bool {
	host, _, _ := net.SplitHostPort(address)
	ip, err := netip.ParseAddr(host)
	return err == nil && matcher.IsOfInternet(ip) || err != nil && !inside.MatchString(strings.TrimSuffix(host, "."))
}

// compileClients checks the identification of clients.
func (c *Compiler) compileClients() (err error) {
	if err = c.compileTiers(); err != nil {
		return err
	}
	if c.Session != nil {
		c.Run.KnowsClients = true
		if c.Run.Session, err = c.Session.compile(); err != nil {
			return fmt.Errorf("session: %w", err)
		}
		unsolved := advice.Advice{Kind: advice.Reach, Source: c.Source, Problem: "challenge: 50 visitors got it, and nobody has solved it: these may all be programs, or no browser can",
			Fix: "nothing, if only programs come; or else open the page in a browser, and see what keeps it there"}
		c.Run.Session.Solved = c.Run.Never("challenge "+c.Run.Session.Path, 50, 0, unsolved)
	}
	if c.APIKeys == nil {
		return nil
	}
	if err := c.compileAPIKeys(); err != nil {
		return fmt.Errorf("api_keys: %w", err)
	}
	return nil
}

// handlerCompiler is a handler during compilation.
type handlerCompiler struct {
	*Handler
	app *Compiler
	log *zap.Logger
	run *enforce.Handler

	found []advice.Advice
}

// Handler checks the configuration of a handler and compiles it. It opens nothing. The result must
// be cleaned up even if there is an error.
func (c *Compiler) Handler(ctx caddy.Context, config *Handler) (*enforce.Handler, error) {
	c.Survey(ctx) // before modules are loaded
	h := handlerCompiler{Handler: config, app: c, log: ctx.Logger()}
	h.run = &enforce.Handler{
		Config: c.Run, Ctx: ctx, Log: h.log, Random: rand.Float64,
		Answer: answer.Options{Routed: answer.ErrorRouted(ctx)}, AddressedBy: enforce.ClientIPFields(ctx),
		Peer: c.Run.PeerOf(ctx), Neighbors: c.Run.NeighborsOf(ctx),
		Jitter: h.Jitter, LogsKey: h.LogKey, LogsIP: h.LogIP, Metrics: !h.DisableMetrics,
	}
	events, err := ctx.App("events")
	if err != nil {
		return h.run, fmt.Errorf("getting events app: %w", err)
	}
	h.run.Events = events.(*caddyevents.App)
	for _, step := range []func(caddy.Context) error{
		h.findProxies, h.checkPeerOptions, h.compileHeaders, h.compilePage, h.compileZones, h.loadExempt,
		h.run.ProvisionMetrics, h.run.ProvisionHistory, h.run.Serve,
	} {
		if err := step(ctx); err != nil {
			return h.run, caddyconf.AtSource(err, h.Source)
		}
	}
	return h.run, c.Run.Advice.Give(h.log, h.found...)
}

// placeholders returns the names of the placeholders in the handler's options.
func (h *Handler) placeholders() []string {
	var options any
	if text, err := json.Marshal(h); err == nil {
		_ = json.Unmarshal(text, &options) // it is what was just marshalled
	}
	return namesIn(options, nil)
}

// findProxies determines whether calls of gRPC may pass the handler. It runs before modules are loaded, which discards
// their raw JSON.
func (h *handlerCompiler) findProxies(caddy.Context) error {
	text, err := json.Marshal(h.Handler)
	h.run.Answer.GRPC = h.app.survey.proxied[string(text)]
	return err
}

func (h *handlerCompiler) compileHeaders(caddy.Context) error {
	h.run.Answer.Style = headerStyles[h.Headers]
	return checkHeaders(h.Headers)
}

func (h *handlerCompiler) compilePage(caddy.Context) error {
	page := cmp.Or(h.Page, h.app.Page, new(Page))
	h.run.Answer.Page = page.compile()
	return page.check()
}

// checkPeerOptions checks the options for compatibility.
func (h *handlerCompiler) checkPeerOptions(ctx caddy.Context) error {
	if h.Jitter < 0 || math.IsNaN(h.Jitter) {
		return fmt.Errorf("jitter must be at least zero, got %v", h.Jitter)
	}
	if h.Jitter > 1 {
		h.found = append(h.found,
			h.Advice(fmt.Sprintf("jitter: each Retry-After is up to %v times as long", 1+h.Jitter),
				"jitter 0.2; for up to 20 %"))
	}
	h.found = append(h.found, h.checkDistributed()...) // before the storage is loaded, which discards its raw JSON
	if h.StorageRaw != nil {
		module, err := ctx.LoadModule(h.Handler, "StorageRaw")
		if err != nil {
			return fmt.Errorf("loading storage module: %w", err)
		}
		if _, ok := module.(caddy.StorageConverter); !ok {
			return fmt.Errorf("module %T is not a caddy.StorageConverter", module)
		}
	}
	return nil
}

func (h *handlerCompiler) compileZones(ctx caddy.Context) error {
	zones, err := h.Ordered()
	if err != nil {
		return err
	}
	for _, name := range h.placeholders() { // before matchers are loaded, which discards their raw JSON
		h.run.UsesClientPlaceholders = h.run.UsesClientPlaceholders ||
			strings.HasPrefix(name, enforce.OurPlaceholders+"client")
		h.run.UsesDomain = h.run.UsesDomain || name == enforce.DomainPlaceholder
	}
	h.run.UsesDomain = h.run.UsesDomain || slices.ContainsFunc(zones, func(z *Zone) bool { return z.Per == perDomain })
	h.compileFields(zones)
	for _, z := range zones {
		setup := zoneCompiler{Zone: z, ctx: ctx, app: h.app, log: h.log}
		if err := setup.compile(); err != nil {
			return err
		}
		h.app.Run.ZoneNames[zoneHash(z.Name)] = z.Name
		h.run.Zones = append(h.run.Zones, setup.run)
		if f := setup.run.PassField; f != "" {
			h.run.PassFields = append(h.run.PassFields, f)
		}
	}
	h.run.LogsAccess, h.run.Traced = enforce.WritesAccessLogs(ctx), h.app.survey.traces || h.app.survey.Foreign
	h.app.Run.AllZones = append(h.app.Run.AllZones, h.run.Zones...)
	h.noteLate(zones)
	for _, t := range h.Traps {
		if t == nil {
			return errors.New("a trap is null; give it a matcher, or remove it")
		}
		run, err := t.compile(ctx, h.app)
		if err != nil {
			return caddyconf.AtSource(err, t.Source)
		}
		h.run.Traps = append(h.run.Traps, run)
	}
	h.run.Clients, h.run.Anonymous = h.run.KnowsClients(), h.run.KnowsAnonymous()
	h.app.Run.KnowsClients = h.app.Run.KnowsClients || h.run.Clients ||
		slices.ContainsFunc(h.run.Zones, (*enforce.Zone).CountsClients)
	h.run.Banned = enforce.StandIn(&enforce.Zone{Name: enforce.BanName}, enforce.BanName)
	h.run.BannedByOperator = enforce.StandIn(&enforce.Zone{Name: enforce.BanName}, enforce.BanName)
	if len(zones) > 0 || len(h.Traps) > 0 || h.app.Session != nil {
		h.app.Run.Zones = true
	}
	return nil
}
