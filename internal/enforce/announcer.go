package enforce

import (
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyevents"

	"github.com/caddy-tally/caddy-tally/identity"
	"github.com/caddy-tally/caddy-tally/internal/instance"
	"github.com/caddy-tally/caddy-tally/internal/meter"
	"github.com/caddy-tally/caddy-tally/internal/notify"
	"github.com/caddy-tally/caddy-tally/internal/operator"
	"github.com/caddy-tally/caddy-tally/internal/routing"
	"github.com/caddy-tally/caddy-tally/internal/watch"
	"github.com/caddy-tally/caddy-tally/internal/wording"
)

// Announcer passes what may interest an operator to webhooks, and to Caddy's events app.
type Announcer struct {
	Webhooks []*notify.Webhook

	ctx    caddy.Context
	events *caddyevents.App
	queue  chan notify.Event // for the events app, whose handlers may be slow
	stop   func()            // ends the goroutine that empties the queue; nil if there is none
}

// maxEvents is how many events wait for the handlers of the events app.
const maxEvents = 64

// announce passes an event on. It doesn't block.
func (a *Announcer) announce(e notify.Event) {
	for _, w := range a.Webhooks {
		w.Send(e)
	}
	if a.queue == nil || !routing.MayObserve(a.events, eventName(e.Kind)) {
		return
	}
	select {
	case a.queue <- e:
	default:
		meter.NotificationDropped()
	}
}

// Announces reports whether a kind of events is passed on to anybody.
func (a *Announcer) Announces(kind string) bool {
	return slices.ContainsFunc(a.Webhooks, func(w *notify.Webhook) bool { return w.Wants(kind) }) ||
		a.queue != nil && routing.MayObserve(a.events, eventName(kind))
}

// locate adds to an event the site and the network of the refusals that it is about, as far as the sample has
// them.
func (cfg *Config) locate(e *notify.Event) {
	if e.Kind != notify.Ban && e.Kind != notify.Refusals {
		return
	}
	sample := slices.DeleteFunc(cfg.Watchers.Recent(e.Time), func(r watch.Request) bool {
		return r.Refusal == nil ||
			!(e.Kind == notify.Refusals && r.Refusal.Zone == e.Zone || e.Kind == notify.Ban &&
				identity.FullText([]byte(r.Key())) == e.Address)
	})
	first := func(text func(*watch.Request) string) string {
		return append(watch.SharesOf(sample, text), operator.RefusedShare{})[0].Text
	}
	e.Site = first(func(r *watch.Request) string { return r.Host })
	e.Network = first(func(r *watch.Request) string {
		network, _ := identity.NetworkOf(r.Key())
		return cfg.describeNetwork(network)
	})
	if address, _, _ := strings.Cut(e.Address, " "); e.Network == "" {
		network, _ := netip.ParsePrefix(address)
		e.Network = cfg.describeNetwork(network)
	}
	if e.Site != "" {
		e.Text += " Site: " + e.Site + "."
	}
	if e.Network != "" {
		e.Text += " Network: " + e.Network + "."
	}
}

// describeNetwork describes the masked network around another, and its provider if that is known. It returns ""
// for the zero value.
func (cfg *Config) describeNetwork(network netip.Prefix) string {
	if !network.IsValid() {
		return ""
	}
	text := wording.MaskPrefix(network).String()
	if asn := cfg.Networks.ASN(network.Addr()); asn != "" {
		text += " (" + asn + ")"
	}
	return text
}

// eventName returns the name of a kind of events for the events app.
func eventName(kind string) string { return "rate_limit_" + kind }

// begin runs the webhooks, and emits events until stop is called.
func (a *Announcer) begin() {
	for _, w := range a.Webhooks {
		w.Run()
	}
	a.stop = untilStopped(func(stop <-chan struct{}) {
		for {
			select {
			case e := <-a.queue:
				a.events.Emit(a.ctx, eventName(e.Kind), map[string]any{
					"text": e.Text, "zone": e.Zone, "reason": e.Reason, "client": e.Client, "address": e.Address,
					"count": e.Count, "site": e.Site, "network": e.Network, "limit": e.Limit, "amount": e.Amount,
				})
			case <-stop:
				return
			}
		}
	})
}

// untilStopped runs f on a goroutine. The result ends it and waits for that, but not for ever: a
// handler of events or a disk may hang, and nothing can interrupt that.
func untilStopped(f func(stop <-chan struct{})) func() {
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		f(stop)
	}()
	return func() {
		close(stop)
		select {
		case <-done:
		case <-time.After(instance.ReadyTimeout):
		}
	}
}
