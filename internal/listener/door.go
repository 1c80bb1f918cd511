package listener

import (
	"context"
	"net/netip"
	"slices"
	"time"

	"github.com/caddy-tally/caddy-tally/identity"
	"github.com/caddy-tally/caddy-tally/internal/gate"
	"github.com/caddy-tally/caddy-tally/internal/rules"
	"github.com/caddy-tally/caddy-tally/limiter"
)

// Outcome is what becomes of a connection.
type Outcome int

// The outcomes. Uncounted connections are those of excepted and allowed clients, and without an address.
const (
	Uncounted Outcome = iota
	Entered
	Banned
	TooManyOpen
	TooManyNew
)

// Door decides which connections may enter. Its fields must not change while it is in use.
type Door struct {
	Most                   int64         // connections of a network that are open at a time; 0 for any number
	Limit                  limiter.Limit // of new connections of a network; the zero value for none
	Except                 []netip.Prefix
	IPv4Prefix, IPv6Prefix int // lengths of the prefixes that are a network

	// Rule returns the rule about an address, or nil.
	Rule func(netip.Addr) *rules.Rule
	// Report is called with each decision about a counted connection, the key of its network, and whether this is
	// the first refusal of the network in a minute. It must not wait.
	Report func(network string, o Outcome, first bool)
}

// The counts of the process.
var (
	open            = gate.Named("\x00before TLS") // no zone has this name
	arrived, logged table
)

// onceAMinute is how often the refusals of a network are new.
var onceAMinute, _ = limiter.New(limiter.Params{Amount: 1, Window: time.Minute, Slots: 1}) // the parameters are valid

// enter decides about a new connection. If the outcome is Entered and the door bounds the open connections, the
// caller must call open.Leave with the network.
func (d *Door) enter(addr netip.Addr, now time.Time) (network string, o Outcome) {
	network, o = d.outcome(addr, now, false)
	if o != Uncounted {
		d.Report(network, o, o > Entered && logged.take(&onceAMinute, network, now.UnixNano(), false))
	}
	return network, o
}

// Forecast returns what would become of a connection, and counts nothing.
func (d *Door) Forecast(addr netip.Addr, now time.Time) Outcome {
	_, o := d.outcome(addr, now, true)
	return o
}

func (d *Door) outcome(addr netip.Addr, now time.Time, forecast bool) (network string, o Outcome) {
	addr = addr.Unmap().WithZone("")
	if !addr.IsValid() || slices.ContainsFunc(d.Except, func(p netip.Prefix) bool { return p.Contains(addr) }) {
		return "", Uncounted
	}
	rule := d.Rule(addr)
	if rule != nil && rule.Action == rules.Allow {
		return "", Uncounted
	}
	prefix, _ := identity.Prefix(addr.String(), d.IPv4Prefix, d.IPv6Prefix)
	network = string(identity.AppendPrefix([]byte{identity.TagNetwork}, prefix))
	switch {
	case rule != nil:
		return network, Banned
	case d.Most > 0 && !takePlace(network, gate.Rule{Most: d.Most}, forecast):
		return network, TooManyOpen
	case d.Limit.Amount() > 0 && !arrived.take(&d.Limit, network, now.UnixNano(), forecast):
		if d.Most > 0 && !forecast {
			open.Leave(network)
		}
		return network, TooManyNew
	}
	return network, Entered
}

func takePlace(network string, r gate.Rule, forecast bool) bool {
	if forecast {
		_, _, err := open.Forecast(network, netip.Prefix{}, r)
		return err == nil
	}
	_, err := open.Enter(context.Background(), network, netip.Prefix{}, r, nil) // it doesn't wait
	return err == nil
}
