package local_test

import (
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-tally/caddy-tally/identity/atrest"
	"github.com/caddy-tally/caddy-tally/internal/config"
	"github.com/caddy-tally/caddy-tally/internal/instance"
	"github.com/caddy-tally/caddy-tally/internal/operator"
	"github.com/caddy-tally/caddy-tally/internal/operator/local"
	"github.com/caddy-tally/caddy-tally/internal/testing/handlertest"
	"github.com/caddy-tally/caddy-tally/storage"
	"github.com/caddy-tally/caddy-tally/storage/memory"
)

const hour = caddy.Duration(time.Hour)

// The name of an address in the audit can't be linked to it once the entries are gone.
func TestAddressesInTheAuditHaveANameThatIsForgotten(t *testing.T) {
	h := handlertest.Start(t, new(config.App), &config.Handler{Zones: []*config.Zone{{Name: "z", Limits: []config.Limit{{Amount: 1, Window: hour}}}}})
	in := h.App.Use()
	for text, address := range map[string]bool{
		"192.0.2.1": true, "192.0.2.0/24": true, "key:192.0.2.1": true, "key:192.0.2.0/24": true, "key:alice": false, "api-key:192.0.2.1": false,
	} {
		target, err := operator.ParseTarget(text)
		if err != nil {
			t.Fatal(err)
		}
		names, err := in.Names.InAudit(target)
		if err != nil {
			t.Fatal(err)
		}
		name := names[0]
		lasting := atrest.Opaque(in.Names.Secret.Load().Hasher, []byte(target.String()))
		if forgotten := name != hex.EncodeToString(lasting[:]); forgotten != address {
			t.Errorf("%s: the name can be forgotten: %v", text, forgotten)
		}
	}
}

// In an outage the store that was in use is closed. The operators' error explains that.
func TestTheAuditOfAStoreThatIsAway(t *testing.T) {
	h := handlertest.Start(t, new(config.App), &config.Handler{Zones: []*config.Zone{{Name: "z", Limits: []config.Limit{{Amount: 1, Window: hour}}}}})
	in := h.App.Use()
	before := in.Store.Load()
	t.Cleanup(func() { in.Store.Store(before) })
	closed, err := memory.New().Opener(memory.Options{})(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := closed.Close(); err != nil {
		t.Fatal(err)
	}
	in.Store.Store(&closed)
	target, err := operator.ParseTarget("192.0.2.1")
	if err != nil {
		t.Fatal(err)
	}
	_, reads := in.Audit.List(t.Context(), 0, 1)
	for what, err := range map[string]error{"to read": reads, "to write": in.Audit.Write(t.Context(), instance.AuditEntry{By: "admin", Action: "reset", Target: &target})} {
		if !errors.Is(err, instance.ErrAuditAway) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// Readers of the store, such as Redis, learn from its audit neither reasons, which may contain
// addresses, nor names of API keys. Operators see both, and find entries by address as long as they
// are kept, including entries about surrounding networks.
func TestReadersOfTheStoreLearnNoReasonsFromTheAudit(t *testing.T) {
	h := handlertest.Start(t, new(config.App), &config.Handler{Zones: []*config.Zone{{Name: "z", Limits: []config.Limit{{Amount: 1, Window: hour}}}}})
	in := h.App.Use()
	auditor, err := in.Audit.Store()
	if err != nil {
		t.Fatal(err)
	}
	plain := storage.Act{At: in.Engine.Now(), By: "ann", Action: "ban", Kind: "address", Target: "00", Reason: "of an earlier version"}
	if err := auditor.Audit(t.Context(), &plain); err != nil {
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
	atRest, err := auditor.Acts(t.Context(), math.MaxInt64, 10)
	if text := fmt.Sprint(atRest); err != nil || len(atRest) != 4 || strings.Contains(text, "203.0") || strings.Contains(text, "acme") || strings.Contains(text, "scraper") {
		t.Errorf("the store has %s, %v", text, err)
	}
	list := func(q operator.AuditQuery) (lines string) {
		t.Helper()
		acts, err := local.AuditOf(t.Context(), in, q)
		for _, a := range acts {
			lines += "\n" + a.Target + ": " + a.Reason
		}
		return fmt.Sprint(lines, err)
	}
	for _, says := range []string{": scraper at 203.0.113.9", "\napi-key:acme/app: \n", "00: of an earlier version"} {
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
