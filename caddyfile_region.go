package tally

import (
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/caddy-tally/caddy-tally/internal/caddyconf"
)

// unmarshalRegion reads `region <name> { … }`.
func (a *App) unmarshalRegion(d *caddyfile.Dispenser) error {
	a.Region = new(Region)
	if !d.AllArgs(&a.Region.Name) {
		return d.Err("region: expected its name and a block, such as region eu {, exchange postgres {env.EXCHANGE} and }, each on a line of its own")
	}
	return caddyconf.EachOption(d, a.Region.unmarshalOption)
}

func (r *Region) unmarshalOption(d *caddyfile.Dispenser) error {
	switch d.Val() {
	case "exchange":
		return r.unmarshalExchange(d)
	case "interval":
		return caddyconf.Duration(d, &r.Interval)
	}
	return d.Errf("region: unrecognized option %q: expected exchange or interval", d.Val())
}

func (r *Region) unmarshalExchange(d *caddyfile.Dispenser) error {
	if !d.NextArg() {
		return d.ArgErr()
	}
	engine := d.Val()
	if _, err := caddy.GetModule("rate_limit.exchanges." + engine); err != nil {
		return d.Err("exchange: " + noExchange(engine))
	}
	module, err := caddyfile.UnmarshalModule(d, "rate_limit.exchanges."+engine)
	if err != nil {
		return err
	}
	r.ExchangeRaw, err = caddyconf.ModuleJSON(d, module, "engine", engine)
	return err
}

// noExchange says what to do about an exchange that this binary doesn't have.
func noExchange(engine string) string {
	switch {
	case strings.Contains(engine, ":"):
		return "the name of an exchange comes first: write exchange postgres and then the address" // which may hold a password
	case engine == "postgres" || engine == "postgresql":
		return "this Caddy has no postgres: build it with xcaddy --with " + modulePath + " --with " + modulePath + "/exchange/postgres"
	}
	var names []string
	for _, is := range caddy.GetModules("rate_limit.exchanges") {
		names = append(names, is.ID.Name())
	}
	if len(names) == 0 {
		names = []string{"postgres"}
	}
	return "there is no \"" + engine + "\": write " + caddyconf.OrList(names)
}
