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
	// Report is called with each decision, and the key of its network. It may keep neither the caller nor others
	// waiting.
	Report func(network string, o Outcome)
}

// The counts of the process.
var (
	open    = gate.Named("\x00before TLS") // no zone has this name
	arrived table
)

// enter decides about a new connection. If the outcome is Entered and the door bounds the open connections, the
// caller must call open.Leave with the network.
func (d *Door) enter(addr netip.Addr, now time.Time) (network string, o Outcome) {
	network, o = d.look(addr)
	switch {
	case o != Entered:
	case !d.takePlace(network):
		o = TooManyOpen
	case d.Limit.Amount() > 0 && !arrived.take(&d.Limit, network, now.UnixNano()):
		if d.Most > 0 {
			open.Leave(network)
		}
		o = TooManyNew
	}
	if o != Uncounted {
		d.Report(network, o)
	}
	return network, o
}

func (d *Door) takePlace(network string) bool {
	if d.Most == 0 {
		return true
	}
	_, err := open.Enter(context.Background(), network, gate.Rule{Most: d.Most}, nil)
	return err == nil
}

// look decides without counts.
func (d *Door) look(addr netip.Addr) (network string, o Outcome) {
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
	if rule != nil {
		return network, Banned
	}
	return network, Entered
}

// Look returns what would become of a connection, and counts nothing.
func (d *Door) Look(addr netip.Addr, now time.Time) Outcome {
	network, o := d.look(addr)
	if o != Entered {
		return o
	}
	if _, _, err := open.Look(network, gate.Rule{Most: d.Most}); d.Most > 0 && err != nil {
		return TooManyOpen
	}
	if d.Limit.Amount() > 0 && !arrived.free(&d.Limit, network, now.UnixNano()) {
		return TooManyNew
	}
	return Entered
}
