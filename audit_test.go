package tally

import (
	"encoding/hex"
	"testing"

	"github.com/caddy-tally/caddy-tally/identity/atrest"
	"github.com/caddy-tally/caddy-tally/internal/operator"
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
		lasting := atrest.Opaque(in.secret.Load(), []byte(target.String()))
		if forgotten := name != hex.EncodeToString(lasting[:]); forgotten != address {
			t.Errorf("%s: the name can't be linked tomorrow: %v", text, forgotten)
		}
	}
}
