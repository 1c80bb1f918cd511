package local_test

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-tally/caddy-tally/internal/config"
	"github.com/caddy-tally/caddy-tally/internal/instance"
	"github.com/caddy-tally/caddy-tally/internal/operator"
	"github.com/caddy-tally/caddy-tally/internal/testing/handlertest"
	"github.com/caddy-tally/caddy-tally/storage"
)

const hour = caddy.Duration(time.Hour)

// Readers of the store, such as Redis, learn from its audit neither reasons, which may contain
// addresses, nor names of API keys. Operators see both, and find entries by address as long as they
// are kept, including entries about surrounding networks.
func TestReadersOfTheStoreLearnNoReasonsFromTheAudit(t *testing.T) {
	h := handlertest.Start(t, new(config.App), &config.Handler{Zones: []*config.Zone{{Name: "z", Limits: []config.Limit{{Amount: 1, Window: hour}}}}})
	in := h.Config.Use()
	auditor, err := in.Audit.Store()
	if err != nil {
		t.Fatal(err)
	}
	plain := storage.Act{At: in.Engine.Now(), By: "ann", Action: "ban", Kind: "address", Target: "00", Reason: "not sealed"}
	if err := auditor.Audit(t.Context(), storage.Audit, &plain); err != nil {
		t.Fatal(err)
	}
	for client, reason := range map[string]string{"203.0.113.0/24": "scraper at 203.0.113.9", "api-key:acme/app": "", "key:alice": "x"} {
		target, err := operator.ParseTarget(client)
		if err != nil {
			t.Fatal(err)
		}
		if err := in.Audit.Write(t.Context(), instance.AuditEntry{By: "ann", Action: "ban", Target: &target, Reason: reason}); err != nil {
			t.Fatal(err)
		}
	}
	atRest, err := auditor.Acts(t.Context(), storage.Audit, math.MaxInt64, 10)
	if text := fmt.Sprint(atRest); err != nil || len(atRest) != 4 || strings.Contains(text, "203.0") || strings.Contains(text, "acme") || strings.Contains(text, "scraper") {
		t.Errorf("the store has %s, %v", text, err)
	}
	list := func(q operator.AuditQuery) (lines string) {
		t.Helper()
		acts, err := handlertest.Operator(h).Audit(t.Context(), q)
		for _, a := range acts {
			lines += "\n" + a.Target + ": " + a.Reason
		}
		return fmt.Sprint(lines, err)
	}
	for _, says := range []string{": scraper at 203.0.113.9", "\napi-key:acme/app: \n", "00: not sealed"} {
		if all := list(operator.AuditQuery{}); !strings.Contains(all+"\n", says) {
			t.Errorf("the audit is %q, want %q", all, says)
		}
	}
	for client, want := range map[string]int{"203.0.113.0/24": 1, "203.0.113.77": 1, "203.0.114.9": 0, "api-key:acme/app": 1, "api-key:acme": 0, "key:alice": 1} {
		if found := list(operator.AuditQuery{Client: client}); strings.Count(found, "\n") != want {
			t.Errorf("about %s there is %q, want %d entries", client, found, want)
		}
	}
}

// The audit lists no reset that has changed nothing.
func TestFailedResetsAreNotInTheAudit(t *testing.T) {
	h := handlertest.Start(t, new(config.App), &config.Handler{Zones: []*config.Zone{{Name: "z", Per: "ip", Limits: []config.Limit{{Amount: 5, Window: hour}}}}})
	service := handlertest.Operator(h)
	handlertest.Get(h, "/", "192.0.2.1", handlertest.Answering())
	if _, err := service.Do(t.Context(), operator.Reset, operator.Command{Client: "192.0.2.9", By: "ann"}); err == nil {
		t.Error("a client that has used nothing was reset")
	}
	if _, err := service.Do(t.Context(), operator.Unban, operator.Command{Client: "192.0.2.9", By: "ann"}); err == nil {
		t.Error("a client that isn't banned was unbanned")
	}
	if acts, err := service.Audit(t.Context(), operator.AuditQuery{}); err != nil || len(acts) != 0 {
		t.Errorf("the audit has %+v, %v", acts, err)
	}
	if _, err := service.Do(t.Context(), operator.Reset, operator.Command{Client: "192.0.2.1", By: "ann", Reason: "mistake"}); err != nil {
		t.Error(err)
	}
	if acts, err := service.Audit(t.Context(), operator.AuditQuery{Client: "192.0.2.1"}); err != nil || len(acts) != 1 || acts[0].Action != "reset" || acts[0].Reason != "mistake" {
		t.Errorf("the audit has %+v, %v", acts, err)
	}
}

// What commands did to a file of API keys is in the audit.
func TestKeysAreInTheAudit(t *testing.T) {
	h := handlertest.Start(t, new(config.App), &config.Handler{Zones: []*config.Zone{{Name: "z", Limits: []config.Limit{{Amount: 5, Window: hour}}}}})
	service := handlertest.Operator(h)
	for _, change := range []operator.APIKeyChange{
		{Name: "acme", Tier: "free", Done: operator.KeyMade}, {Name: "acme", Tier: "pro", Done: operator.KeyTier}, {Name: "acme", ID: "9a41c07e", Done: operator.KeyRevoked},
	} {
		if _, err := service.ChangeAPIKeys(t.Context(), change); err != nil {
			t.Error(err)
		}
	}
	if _, err := service.ChangeAPIKeys(t.Context(), operator.APIKeyChange{Name: "acme", Done: "ban"}); err == nil {
		t.Error("something else was noted")
	}
	var lines []string
	acts, err := service.Audit(t.Context(), operator.AuditQuery{Client: "api-key:acme"})
	for _, a := range acts {
		lines = append(lines, a.By+" "+a.Action+" "+a.Target+" "+a.Reason)
	}
	want := "admin key revoke api-key:acme 9a41c07e\nadmin key tier api-key:acme pro\nadmin key new api-key:acme free"
	if got := strings.Join(lines, "\n"); err != nil || got != want {
		t.Errorf("the audit has\n%s\n%v, want\n%s", got, err, want)
	}
}
