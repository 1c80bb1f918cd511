package regions

import (
	"testing"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/engine"
	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/storage/exchange/exchangetest"
)

// askShadow makes a shadow limit decide, and waits for a late decision.
func (s *site) askShadow(l *engine.Limit, key string) engine.Decision {
	debits := []engine.Debit{{Limit: l, Key: []byte(key), Cost: 1}}
	if d, decided := s.Shadow(debits); decided {
		return d
	}
	later := make(chan engine.Decision, 1)
	s.ShadowLater(debits, func(_ []engine.Debit, d engine.Decision) { later <- d })
	return <-later
}

// Shadow limits know the units that other regions have admitted, and other regions know those of
// shadow limits.
func TestShadowLimitsCrossRegions(t *testing.T) {
	inBubble(t, func(_ *exchangetest.Memory, eu, us, _ *site) {
		limit := limitOf(t, limiter.Params{Amount: 10, Window: time.Hour})
		if allowed := us.count(4, limit, "a"); allowed != 4 {
			t.Fatalf("%d admitted elsewhere, want 4", allowed)
		}
		time.Sleep(12 * time.Second)
		allowed := 0
		for range 10 {
			if eu.askShadow(limit, "a").Allowed {
				allowed++
			}
		}
		if allowed != 6 {
			t.Errorf("%d would be admitted beside 4 elsewhere, want 6 of 10", allowed)
		}
		time.Sleep(12 * time.Second)
		if d := us.askShadow(limit, "a"); d.Allowed {
			t.Errorf("%+v elsewhere, want what the shadow limit has counted known there", d)
		}
	})
}
