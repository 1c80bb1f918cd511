package config

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-tally/caddy-tally/identity"
	"github.com/caddy-tally/caddy-tally/internal/advice"
	"github.com/caddy-tally/caddy-tally/internal/caddyconf"
	"github.com/caddy-tally/caddy-tally/internal/enforce"
	"github.com/caddy-tally/caddy-tally/internal/listener"
	"github.com/caddy-tally/caddy-tally/internal/meter"
	"github.com/caddy-tally/caddy-tally/internal/report"
	"github.com/caddy-tally/caddy-tally/internal/routing"
	"github.com/caddy-tally/caddy-tally/internal/rules"
	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/storage"

	"github.com/caddy-tally/caddy-tally/internal/grammar"
)

// Listener closes connections before TLS, without an answer: those of networks that an operator or a block list
// bans, and those beyond limits. Networks are those of the app's `ipv4_prefix` and `ipv6_prefix`; connections to
// all servers with this wrapper count together, in memory. Connections of allowed networks pass. The server of port 80
// that automatic HTTPS adds has no wrappers, unless a site such as `http://` is there.
type Listener struct {
	// How many connections a network may have open at a time. Default: any number.
	Connections int `json:"connections,omitempty"`

	// How many connections a network may open in a time. Default: any number.
	Limit *Limit `json:"limit,omitempty"`

	// Addresses and networks whose connections pass uncounted, such as those of proxies, or `private_ranges`.
	Except []string `json:"except,omitempty"`

	// The option's place in a config file, such as `Caddyfile:12`, for messages. The Caddyfile
	// adapter sets it.
	Source string `json:"source,omitempty"`
}

const (
	listenerWrapper = "rate_limit"
	perBrowser      = 6  // connections over HTTP/1.1
	arrivalSlots    = 10 // of a sliding limit: each network takes memory for them
)

// Unmarshal sets up the wrapper from Caddyfile tokens.
func (l *Listener) Unmarshal(d *caddyfile.Dispenser) error {
	d.Next() // the name of the wrapper
	l.Source = caddyconf.Source(d)
	if d.NextArg() {
		return d.Errf("rate_limit: expected a block, got %q: write connections 50 or limit 100/10s into one", d.Val())
	}
	if err := l.block().Read(d); err != nil {
		return fmt.Errorf("rate_limit: %w", err)
	}
	return nil
}

// NoteServers notes the options `servers` of the Caddyfile that the handler is in.
func (h *Handler) NoteServers(options any) {
	h.WrappedAt = routing.ServersAt(options)
}

// compile checks the options and returns them ready for use.
func (l *Listener) compile() (door *listener.Door, err error) {
	door = &listener.Door{Most: int64(l.Connections)}
	if l.Connections < 0 {
		return nil, fmt.Errorf("connections: must be at least 1, got %d", l.Connections)
	}
	if l.Limit != nil {
		limit := *l.Limit
		if limit.Name != "" || limit.Shadow || limit.Timezone != "" || limit.Block != 0 {
			return nil, errors.New("limit: name, shadow and timezone are for limits of zones, and block is, too: leave them out")
		}
		if limit.Slots == 0 && limit.Algorithm == "" && limit.Burst == 0 {
			limit.Slots = arrivalSlots
		}
		if door.Limit, err = limit.Compile(); err != nil {
			return nil, fmt.Errorf("limit: %w", err)
		}
	}
	for _, text := range l.Except {
		ranges := []string{text}
		if text == "private_ranges" {
			ranges = caddyhttp.PrivateRangesCIDR()
		}
		for _, text := range ranges {
			network, err := networkOf(text)
			if err != nil {
				return nil, fmt.Errorf("except: expected an address or a network such as 10.0.0.0/8, got %q", text)
			}
			door.Except = append(door.Except, network)
		}
	}
	return door, nil
}

// networkOf parses an address or a network, and returns it as rules have it.
func networkOf(text string) (netip.Prefix, error) {
	network, err := caddyhttp.CIDRExpressionToPrefix(text)
	return rules.NetworkOf(network).Network, err
}

// Listener checks the configuration of a listener wrapper and compiles it.
func (c *Compiler) Listener(ctx caddy.Context, l *Listener) (*listener.Door, error) {
	door, err := l.compile()
	if err == nil {
		err = c.checkListeners(ctx, l, door)
	}
	if err == nil {
		err = meter.Register(ctx.GetMetricsRegistry(), enforce.Collectors...)
	}
	if err != nil {
		return nil, caddyconf.AtSource(fmt.Errorf("listener_wrappers: rate_limit: %w", err), l.Source)
	}
	door.IPv4Prefix, door.IPv6Prefix = cmp.Or(c.IPv4Prefix, identity.DefaultIPv4Prefix), cmp.Or(c.IPv6Prefix,
		identity.DefaultIPv6Prefix)
	door.Rule = func(addr netip.Addr) *rules.Rule { return c.Run.AddressRule(addr, time.Now()) }
	zone := &enforce.Zone{Name: enforce.BeforeTLS, Per: enforce.PerIP, Meter: meter.NewZone(enforce.BeforeTLS)}
	zone.Past = c.Run.Ledger.Meter(storage.Series{Zone: zone.Name})
	has := [...]bool{true, door.Most > 0, l.Limit != nil}
	limits := [...]limiter.Limit{{}, concurrency(max(door.Most, 1)), door.Limit}
	zone.BeforeTLS = make([]*enforce.Policy, len(has))
	for i, name := range enforce.BeforeTLSLimits {
		if has[i] {
			p := enforce.StandIn(zone, name)
			p.Limit.Rate, p.Meter, p.Past = limits[i], meter.NewLimit(zone.Name,
				name), c.Run.Ledger.Meter(storage.Series{Zone: zone.Name, Limit: name})
			zone.BeforeTLS[i] = p
		}
	}
	door.Report = (&report.Connections{Config: c.Run, Zone: zone}).Report
	c.Run.Used, c.Run.Zones = true, true
	c.Run.AllZones, c.Run.Doors = append(c.Run.AllZones, zone), append(c.Run.Doors, door)
	return door, nil
}

// checkListeners checks the place of the wrapper among those of its server, and warns of proxies that it would
// take for a client. A wrapper isn't told its server: Caddy has forgotten the wrappers of those that are
// provisioned already.
func (c *Compiler) checkListeners(ctx caddy.Context, l *Listener, door *listener.Door) error {
	for _, m := range ctx.Modules() {
		app, ok := m.(*caddyhttp.App)
		if !ok {
			continue
		}
		for _, server := range app.Servers {
			names := routing.ListenerWrappers(server)
			own, proxied := slices.Index(names, listenerWrapper), slices.Index(names, "proxy_protocol")
			switch {
			case own < 0:
				continue
			case proxied > own:
				return errors.New("it stands before proxy_protocol, so it would take the proxy for the client: write proxy_protocol before it")
			case slices.Index(names, "tls") < own:
				return errors.New("tls doesn't follow, so connections would be closed after TLS: write tls behind it")
			case proxied < 0 && routing.TrustsProxies(server):
				if err := c.Run.Advice.Give(c.log, l.checkProxies(server, door)...); err != nil {
					return err
				}
			}
			if l.Limit != nil && max(l.Limit.Amount, l.Limit.Burst) < perBrowser {
				_ = c.Run.Advice.Give(c.log, advice.Advice{Server: server.Listen, Source: l.Source, Kind: advice.BeforeTLS, // a warning is no error
					Problem: fmt.Sprintf("listener_wrappers: rate_limit: limit %d: a browser opens up to %d connections, and several people may share an address", max(l.Limit.Amount, l.Limit.Burst), perBrowser), Fix: "limit 100/10s"})
			}
			if l.Connections > 0 && l.Connections < perBrowser {
				_ = c.Run.Advice.Give(c.log, advice.Advice{Server: server.Listen, Source: l.Source, Kind: advice.BeforeTLS, // a warning is no error
					Problem: fmt.Sprintf("listener_wrappers: rate_limit: connections %d: a browser opens up to %d, and several people may share an address", l.Connections, perBrowser), Fix: "connections 50"})
			}
		}
	}
	return nil
}

// checkProxies finds trusted proxies of a server whose connections would be counted.
func (l *Listener) checkProxies(server *caddyhttp.Server, door *listener.Door) []advice.Advice {
	ranges := routing.TrustedRanges(server)
	counted := slices.DeleteFunc(slices.Clone(ranges), func(text string) bool {
		network, err := networkOf(text)
		return err == nil && slices.ContainsFunc(door.Except, func(p netip.Prefix) bool {
			return p.Bits() <= network.Bits() && p.Contains(network.Addr())
		})
	})
	fix := "<networks of your proxies>"
	if len(counted) > 0 {
		fix = strings.Join(counted, " ")
	} else if len(ranges) > 0 {
		return nil
	}
	return []advice.Advice{{Server: server.Listen, Source: l.Source, Kind: advice.BeforeTLS,
		Problem: "listener_wrappers: rate_limit counts the connections of trusted_proxies, so that all visitors behind a proxy share one count", Fix: "except " + fix}}
}

// block is the syntax of the wrapper.
func (l *Listener) block() grammar.Block {
	return grammar.Block{
		Check: func() error { _, err := l.compile(); return err },
		Rules: func() grammar.Rules {
			return grammar.Rules{
				grammar.Line("connections <n>", &l.Connections),
				limitRule(func(limit Limit) { l.Limit = &limit }),
				grammar.Line("except <network...>", &l.Except).Repeats(),
			}
		},
	}
}
