package instance

import (
	"context"
	"encoding/hex"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/caddy-tally/caddy-tally/identity/atrest"
	"github.com/caddy-tally/caddy-tally/internal/operator"
	"github.com/caddy-tally/caddy-tally/storage"
	"github.com/caddy-tally/caddy-tally/storage/memory"
)

// The name of an address in the audit can't be linked to it once the entries are gone.
func TestAddressesInTheAuditHaveANameThatIsForgotten(t *testing.T) {
	in := machineOn(t, newFleetStore(), "a")
	for text, address := range map[string]bool{
		"192.0.2.1": true, "192.0.2.0/24": true, "key:192.0.2.1": true, "key:192.0.2.0/24": true, "key:alice": false, "api-key:192.0.2.1": false,
	} {
		target, err := operator.ParseTarget(text)
		if err != nil {
			t.Fatal(err)
		}
		names, err := in.Names.inAudit(target)
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
	in := New(Settings{Store: t.Name(), Secret: filepath.Join(t.TempDir(), "tally.key")}, localStore{})
	t.Cleanup(func() { in.Destruct() })
	<-in.Engine.Ready()
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
	_, reads := in.Audit.List(t.Context(), storage.Audit, 0, 1)
	for what, err := range map[string]error{"to read": reads, "to write": in.Audit.Write(t.Context(), AuditEntry{By: "admin", Action: "reset", Target: &target})} {
		if !errors.Is(err, errAuditAway) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// localStore keeps counts in this process's memory.
type localStore struct{ fleetStore }

func (localStore) Open(ctx context.Context, _ time.Duration) (storage.Store, error) {
	return memory.New().Opener(memory.Options{})(ctx)
}
