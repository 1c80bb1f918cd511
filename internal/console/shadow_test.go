package console

import (
	"context"
	"strings"
	"testing"

	"github.com/caddy-tally/caddy-tally/internal/operator"
	"github.com/caddy-tally/caddy-tally/internal/testing/sample"
)

// shadowed is a service with some keys and a zone in shadow.
type shadowed struct {
	operator.Service
	keys []operator.Key
}

func (s shadowed) Keys(context.Context, operator.KeysQuery) ([]operator.Key, error) {
	return s.keys, nil
}
func (s shadowed) Status(context.Context) (operator.Status, error) {
	return operator.Status{Shadow: []string{"login", "search"}}, nil
}

// Refusals that a shadow limit would make have their own column, which is omitted if it is empty.
func TestKeysOfShadowLimits(t *testing.T) {
	tried := operator.Key{Zone: "login", Limit: "login-3/1m", Text: "a", Used: 3, Amount: 3, Refused: 7, Shadow: true}
	enforced := operator.Key{Zone: "login", Limit: "login", Text: "a", Used: 5, Amount: 5, Refused: 2}
	out, _, err := run(shadowed{keys: []operator.Key{tried, enforced}}, "top")
	lines := strings.Split(out, "\n")
	if err != nil || len(lines) < 3 || !strings.HasSuffix(lines[0], "REFUSED  WOULD REFUSE") ||
		!strings.Contains(lines[1], "login-3/1m (shadow)") || !strings.HasSuffix(lines[1], " 0             7") || !strings.HasSuffix(strings.TrimRight(lines[2], " "), " 2") {
		t.Errorf("got %v\n%s", err, out)
	}
	out, _, err = run(shadowed{keys: []operator.Key{enforced}}, "top")
	if err != nil || strings.Contains(out, "WOULD") {
		t.Errorf("without shadow limits: %v\n%s", err, out)
	}
	enforced.Units = "5/1m" // beside the zone's name, the same name would say nothing
	if out, _, err = run(shadowed{keys: []operator.Key{enforced, {Zone: "login", Limit: "daily", Units: "50/24h"}}}, "top"); err != nil || !strings.Contains(out, "login  5/1m ") || !strings.Contains(out, "login  daily ") {
		t.Errorf("limits: %v\n%s", err, out)
	}
	out, _, err = run(shadowed{Service: sample.Empty(clock)}, "status")
	if err != nil || !strings.Contains(out, "In shadow, so that nothing is refused: login, search.") {
		t.Errorf("status: %v\n%s", err, out)
	}
}
