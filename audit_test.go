package tally

import (
	"encoding/hex"
	"errors"
	"testing"

	"github.com/caddy-tally/caddy-tally/identity/atrest"
	"github.com/caddy-tally/caddy-tally/internal/operator"
	"github.com/caddy-tally/caddy-tally/storage/memory"
)

// Whatever says an address has a name in the audit that nobody can link later.
func TestAddressesInTheAuditHaveANameOfToday(t *testing.T) {
	h := startHandler(t, new(App), &Handler{Zones: []*Zone{{Name: "z", Limits: []Limit{{Amount: 1, Window: hour}}}}})
	in := h.app.use()
	for text, address := range map[string]bool{
		"192.0.2.1": true, "192.0.2.0/24": true, "key:192.0.2.1": true, "key:192.0.2.0/24": true, "key:alice": false, "api-key:192.0.2.1": false,
	} {
		target, err := operator.ParseTarget(text)
		if err != nil {
			t.Fatal(err)
		}
		_, name, err := in.nameInAudit(target)
		if err != nil {
			t.Fatal(err)
		}
		lasting := atrest.Opaque(in.secret.Load().Hasher, []byte(target.String()))
		if forgotten := name != hex.EncodeToString(lasting[:]); forgotten != address {
			t.Errorf("%s: the name can't be linked tomorrow: %v", text, forgotten)
		}
	}
}

// In an outage the store that was in use is closed. Operators are told so in words that help.
func TestTheAuditOfAStoreThatIsAway(t *testing.T) {
	h := startHandler(t, new(App), &Handler{Zones: []*Zone{{Name: "z", Limits: []Limit{{Amount: 1, Window: hour}}}}})
	in := h.app.use()
	before := in.store.Load()
	t.Cleanup(func() { in.store.Store(before) })
	closed, err := memory.New().Opener(memory.Options{})(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := closed.Close(); err != nil {
		t.Fatal(err)
	}
	in.store.Store(&closed)
	target, err := operator.ParseTarget("192.0.2.1")
	if err != nil {
		t.Fatal(err)
	}
	_, reads := in.acts(t.Context(), 0, 1)
	for what, err := range map[string]error{"to read": reads, "to write": in.audit(t.Context(), "admin", "reset", &target, "")} {
		if !errors.Is(err, errAuditAway) {
			t.Errorf("%s: %v", what, err)
		}
	}
}
