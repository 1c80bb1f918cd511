package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/caddy-tally/caddy-tally/internal/caddyconf"
	"github.com/caddy-tally/caddy-tally/internal/instance"

	"github.com/caddy-tally/caddy-tally/internal/grammar"
)

// Region shares counts with other regions, each with a store of its own. Requests admitted in one
// region count in the others some seconds later. Together the regions admit at most a quarter more
// than a limit, plus the requests that pass while the counts are in transit, 12 seconds at most.
// Within a region a limit stays exact. No request waits for the exchange, and while it can't be
// reached each region continues alone.
//
// All regions need the same `secret_file`, or they know one client by different names. Limits with
// a window below a minute stay regional.
type Region struct {
	// The name of this region, 1 to 32 letters, digits, dots, dashes and underscores. It must
	// differ from other regions' names; machines that share a store use the same. Required.
	Name string `json:"name,omitempty"`

	// The exchange that carries counts between regions. Required.
	ExchangeRaw json.RawMessage `json:"exchange,omitempty" caddy:"namespace=rate_limit.exchanges inline_key=engine"`

	// The time between exchanges of counts, at least 1s; each varies by up to a fifth, up or down.
	// Default: 5s.
	Interval caddy.Duration `json:"interval,omitempty"`
}

// Exchange is a module that carries counts between regions, in the namespace
// `rate_limit.exchanges`.
type Exchange = instance.Exchange

// minExchangeInterval is the shortest time between two exchanges of counts.
const minExchangeInterval = time.Second

var regionName = regexp.MustCompile(`^[A-Za-z0-9._-]{1,32}$`)

// compileRegion checks the settings of the region, and loads the module of its exchange.
func (c *Compiler) compileRegion(ctx caddy.Context) error {
	r := c.Region
	if r == nil {
		return nil
	}
	switch {
	case !regionName.MatchString(r.Name):
		return fmt.Errorf("region: the name must be 1 to 32 letters, digits, dots, dashes and underscores, got %q",
			r.Name)
	case r.Interval != 0 && time.Duration(r.Interval) < minExchangeInterval:
		return fmt.Errorf("region: interval: must be at least %v, got %v", minExchangeInterval,
			time.Duration(r.Interval))
	case r.ExchangeRaw == nil:
		return errors.New("region: needs an exchange, such as exchange postgres {env.EXCHANGE}")
	case c.SecretFile == "":
		return errors.New("region: needs secret_file, a file with the same secret in all regions; otherwise they know one client by different names")
	}
	module, err := ctx.LoadModule(r, "ExchangeRaw")
	if err != nil {
		return fmt.Errorf("region: exchange: %w", err)
	}
	exchange, ok := module.(Exchange)
	if !ok {
		return fmt.Errorf("region: exchange: module %T is not an exchange", module)
	}
	c.Run.Region = &instance.Region{Name: r.Name, Interval: time.Duration(r.Interval), Exchange: exchange}
	c.Run.Settings.Region = fmt.Sprintf("%s interval=%v %s", r.Name, time.Duration(r.Interval), exchange.Identity())
	return nil
}

func (r *Region) unmarshalExchange(d *caddyfile.Dispenser) (err error) {
	if !d.NextArg() {
		return d.ArgErr()
	}
	engine := d.Val()
	if !isModule("rate_limit.exchanges." + engine) {
		return d.Err("exchange: " + noExchange(engine))
	}
	_, r.ExchangeRaw, err = caddyconf.Module(d, "rate_limit.exchanges", engine, "engine")
	return err
}

// noExchange returns a hint about an exchange that is missing from this binary.
func noExchange(engine string) string {
	switch {
	case strings.Contains(engine, ":"):
		// which may hold a password
		return "the name of an exchange comes first: write exchange postgres and then the address"
	case engine == "postgres" || engine == "postgresql":
		return "this Caddy has no postgres: build it with xcaddy build --with " + caddyconf.ModulePath + " --with " +
			caddyconf.ModulePath + "/storage/exchange/postgres"
	}
	names := moduleNames("rate_limit.exchanges")
	if len(names) == 0 {
		names = []string{"postgres"}
	}
	return "there is no \"" + engine + "\": write " + caddyconf.OrList(names)
}

// block is the syntax of `region`.
func (r *Region) block() grammar.Block {
	return grammar.Block{Rules: func() grammar.Rules {
		return grammar.Rules{
			grammar.Line("exchange <engine...>", r.unmarshalExchange),
			grammar.Line("interval <duration>", &r.Interval),
		}
	}}
}
