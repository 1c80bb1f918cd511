package local_test

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/caddy-tally/caddy-tally/internal/config"
	"github.com/caddy-tally/caddy-tally/internal/operator"
	"github.com/caddy-tally/caddy-tally/internal/testing/handlertest"
)

// A ban of the actor's own address is an error unless it is forced, also of a network around it. Where the address isn't
// known, and for anything but a ban, there is no question.
func TestOwnAddressIsNotBannedByMistake(t *testing.T) {
	h := handlertest.Start(t, new(config.App), &config.Handler{Zones: []*config.Zone{{Name: "z", Limits: []config.Limit{{Amount: 1, Window: hour}}}}})
	service, own := handlertest.Operator(h), netip.MustParseAddr("203.0.113.9")
	for _, client := range []string{"203.0.113.9", "203.0.113.0/24", "address:203.0.0.0/16", "::ffff:203.0.113.9"} {
		for _, from := range []netip.Addr{own, netip.AddrFrom16(own.As16())} {
			if _, err := service.Do(t.Context(), operator.Ban, operator.Command{Client: client, From: from}); err == nil || !strings.Contains(err.Error(), "your own address") {
				t.Errorf("ban %s from %v: %v", client, from, err)
			}
		}
	}
	for _, ok := range []struct {
		operator.Action
		operator.Command
	}{
		{operator.Ban, operator.Command{Client: "203.0.113.10", From: own}},
		{operator.Ban, operator.Command{Client: "203.0.113.9"}},
		{operator.Ban, operator.Command{Client: "203.0.113.9", From: own, Force: true}},
		{operator.Ban, operator.Command{Client: "key:x", From: own}},
		{operator.Allow, operator.Command{Client: "203.0.113.9", From: own, For: 60}},
		{operator.Unban, operator.Command{Client: "203.0.113.9", From: own}},
	} {
		if _, err := service.Do(t.Context(), ok.Action, ok.Command); err != nil {
			t.Errorf("%s %+v: %v", ok.Action, ok.Command, err)
		}
	}
}

// Durations are bounded, whatever a client of the endpoint sends.
func TestDurationsOfRules(t *testing.T) {
	h := handlertest.Start(t, new(config.App), &config.Handler{Zones: []*config.Zone{{Name: "z", Limits: []config.Limit{{Amount: 1, Window: hour}}}}})
	for _, d := range []operator.Seconds{-1, 0.5, operator.MaxRule + 1, 1e300} {
		if _, err := handlertest.Operator(h).Do(t.Context(), operator.Ban, operator.Command{Client: "203.0.113.9", For: d}); err == nil || !strings.Contains(err.Error(), "100 years") {
			t.Errorf("for %v seconds: %v", d, err)
		}
	}
}
