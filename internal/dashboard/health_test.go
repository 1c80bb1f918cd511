package dashboard_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/dashboard"
	"github.com/caddy-tally/caddy-tally/internal/operator"
	"github.com/caddy-tally/caddy-tally/internal/testing/sample"
)

// onNetwork is a service whose store is on a network.
type onNetwork struct {
	operator.Service
	network operator.Network
}

func (o onNetwork) Status(ctx context.Context) (operator.Status, error) {
	status, err := o.Service.Status(ctx)
	status.Stores = []operator.Store{{Kind: "redis", Processes: 1, Network: &o.network}}
	return status, err
}

// The Health page says whether an older line of the secret is needed, and keeps 0 and what isn't known apart.
func TestHealthShowsOlderLines(t *testing.T) {
	for want, network := range map[string]operator.Network{
		"<dd>not known<small>values in the store": {},
		"<dd>0<small>values in the store":         {RoundTrip: 0.001, LaterLines: new(0)},
		"<dd>12<small>values in the store":        {LaterLines: new(12)},
	} {
		service := sample.New(time.Now)
		s := newSite(t, service, func(o *dashboard.Options) { o.Service = onNetwork{service, network} })
		if body := s.get("health"); !strings.Contains(body, want) || strings.Contains(body, "not known yet") != (network.RoundTrip == 0) {
			t.Errorf("the page has no %q:\n%s", want, body)
		}
	}
}

// away is a service whose store is on a server that can't be reached.
type away struct{ operator.Service }

func (a away) Status(ctx context.Context) (operator.Status, error) {
	status, err := a.Service.Status(ctx)
	status.Rules.Trouble = &operator.FileTrouble{Reason: `line 1: got "203.0.113.77x"`}
	status.Stores = []operator.Store{{Kind: "redis", Degraded: true, Network: new(operator.Network), Reason: "dial tcp 192.0.2.77:6379: connection refused"}}
	return status, err
}

// The Health page names the server that is away, says that it is tried again, and has no address of a client and no
// difference of clocks that nobody has measured.
func TestHealthNamesTheServer(t *testing.T) {
	service := sample.New(time.Now)
	body := newSite(t, service, func(o *dashboard.Options) { o.Service = away{service} }).get("health")
	if !strings.Contains(body, "192.0.2.77:6379") || !strings.Contains(body, "It is tried again by itself") ||
		strings.Contains(body, "203.0.113.77x") || strings.Contains(body, "This clock") {
		t.Errorf("got:\n%s", body)
	}
}
