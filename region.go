package tally

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-tally/caddy-tally/internal/instance"
)

// Region shares counts with other regions, each with a store of its own. What one region
// admits counts in the others some seconds later: together they admit at most a quarter more
// than a limit, and what passes while the counts are on their way, 12 seconds at most. Within a
// region a limit stays exact. No request waits for the exchange, and while it can't be
// reached each region goes on alone.
//
// All regions need the same `secret_file`, or they know one client by different names. Limits
// with a window below a minute stay regional.
type Region struct {
	// The name of this region, 1 to 32 letters, digits, dots, dashes and underscores. Each
	// region has another; machines that share a store have the same. Required.
	Name string `json:"name,omitempty"`

	// Where the regions tell one another what they have admitted. Required.
	ExchangeRaw json.RawMessage `json:"exchange,omitempty" caddy:"namespace=rate_limit.exchanges inline_key=engine"`

	// How often counts are published and collected, at least 1s; each time up to a fifth
	// sooner or later. Default: 5s.
	Interval caddy.Duration `json:"interval,omitempty"`

	exchange Exchange
}

// Exchange is a module that carries counts between regions, in the namespace
// `rate_limit.exchanges`.
type Exchange = instance.Exchange

// minExchangeInterval is the shortest time between two exchanges of counts.
const minExchangeInterval = time.Second

var regionName = regexp.MustCompile(`^[A-Za-z0-9._-]{1,32}$`)

// provisionRegion checks the settings of the region, and loads the module of its exchange.
func (a *App) provisionRegion(ctx caddy.Context) error {
	r := a.Region
	if r == nil {
		return nil
	}
	switch {
	case !regionName.MatchString(r.Name):
		return fmt.Errorf("region: the name must be 1 to 32 letters, digits, dots, dashes and underscores, got %q", r.Name)
	case r.Interval != 0 && time.Duration(r.Interval) < minExchangeInterval:
		return fmt.Errorf("region: interval: must be at least %v, got %v", minExchangeInterval, time.Duration(r.Interval))
	case r.ExchangeRaw == nil:
		return errors.New("region: needs an exchange, such as exchange postgres {env.EXCHANGE}")
	case a.SecretFile == "":
		return errors.New("region: needs secret_file, a file with the same secret in all regions; otherwise they know one client by different names")
	}
	module, err := ctx.LoadModule(r, "ExchangeRaw")
	if err != nil {
		return fmt.Errorf("region: exchange: %w", err)
	}
	is, ok := module.(Exchange)
	if !ok {
		return fmt.Errorf("region: exchange: module %T is not an exchange", module)
	}
	r.exchange = is
	a.run.Settings.Region = fmt.Sprintf("%s interval=%v %s", r.Name, time.Duration(r.Interval), is.Identity())
	return nil
}

// shared returns what an instance must know of the region, or nil if there is none.
func (r *Region) shared() *instance.Region {
	if r == nil {
		return nil
	}
	return &instance.Region{Name: r.Name, Interval: time.Duration(r.Interval), Exchange: r.exchange}
}
