package tally

import (
	"bytes"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-tally/caddy-tally/internal/history"
	"github.com/caddy-tally/caddy-tally/limiter/engine"
	"github.com/caddy-tally/caddy-tally/storage"
)

// This file has how requests are counted for the history.

// provisionHistory has the zones and limits counted for the history.
func (h *enforcer) provisionHistory(caddy.Context) error {
	if h.app.ledger == nil {
		return nil
	}
	for _, z := range h.zones {
		z.past = h.app.ledger.Meter(storage.Series{Zone: z.Name})
		for _, set := range z.sets() {
			for _, p := range set.all() {
				p.past = h.app.ledger.Meter(storage.Series{Zone: z.Name, Limit: p.name})
			}
		}
	}
	return nil
}

// remember counts a decision for the history: for each zone once, and for each limit that
// lets the request pass or refuses it.
func (e *evaluation) remember(d *engine.Decision) {
	ledger := e.handler.app.ledger
	if ledger == nil || d.Reason == engine.Abandoned {
		return
	}
	var last *zone
	var key history.Key
	for i, p := range e.policies {
		if !d.Allowed && d.Reason != engine.Banned && i != d.Debit {
			continue
		}
		debit := &e.debits[i]
		if !bytes.Equal(key.Text, debit.Key) {
			key = ledger.Key(debit.Key)
		}
		if p.zone != last {
			last = p.zone
			rememberIn(last.past, key, unitsOf(debit), d)
		}
		rememberIn(p.past, key, unitsOf(debit), d)
	}
}

func rememberIn(m *history.Meter, key history.Key, cost int64, d *engine.Decision) {
	switch {
	case d.Allowed:
		m.Allow(key, cost)
	case d.Reason == engine.Banned:
		m.Refuse(key, history.Banned)
	case d.Reason == engine.Blocked:
		m.Refuse(key, history.Blocked)
	default:
		m.Refuse(key, history.OverLimit)
	}
}
