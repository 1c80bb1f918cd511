package instance

import (
	"context"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-tally/caddy-tally/identity"
	"github.com/caddy-tally/caddy-tally/internal/engine"
	"github.com/caddy-tally/caddy-tally/internal/stores"
	"github.com/caddy-tally/caddy-tally/internal/testing/network"
	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/storage"
	"github.com/caddy-tally/caddy-tally/storage/memory"
)

// fleetStore is a stores.Network for tests, whose store keeps no history.
type fleetStore struct{ *network.Database }

func newFleetStore() fleetStore { return fleetStore{network.New()} }

func (fleetStore) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "rate_limit.stores.shared"}
}
func (fleetStore) Counts() string { return "shared" }

func (fleetStore) Identity() string          { return "shared" }
func (fleetStore) Address() string           { return "server:1" }
func (fleetStore) Plain() ([]string, string) { return nil, "" }

func (s fleetStore) Open(ctx context.Context, _ time.Duration) (storage.Store, error) {
	store, err := s.Database.Open(ctx)
	if err != nil {
		return nil, err
	}
	return struct{ storage.Network }{store.(storage.Network)}, nil
}

// machineOn starts an instance on a store, like a machine with a secret file.
func machineOn(t *testing.T, store stores.Store, secret string) *Instance {
	t.Helper()
	path := filepath.Join(t.TempDir(), "tally.key")
	if err := os.WriteFile(path, []byte(strings.Repeat(secret, 40)), 0o600); err != nil {
		t.Fatal(err)
	}
	inst := New(Settings{Store: t.Name() + path, Kind: "shared", Address: "server:1", Secret: path}, store)
	t.Cleanup(func() { _ = inst.Destruct() })
	<-inst.Engine.Ready()
	return inst
}

// Machines that share a store use the same names of clients, including addresses. A machine with
// another secret reports which file to copy, and does not use the store.
func TestMachinesShareNames(t *testing.T) {
	store := newFleetStore()
	one, two := machineOn(t, store, "a"), machineOn(t, store, "a")
	l, err := limiter.New(limiter.Params{Amount: 5, Window: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	limit := &engine.Limit{ID: 7, Rate: l}
	address := string(identity.AppendPrefix([]byte{identity.TagNetwork}, netip.MustParsePrefix("203.0.113.7/32")))
	for _, key := range []string{address, string(identity.TagText) + "no address"} {
		first, err := one.Engine.NameOf(limit, key)
		if err != nil {
			t.Fatal(err)
		}
		if second, err := two.Engine.NameOf(limit, key); err != nil || second.Key != first.Key {
			t.Errorf("%q is %x on one machine and %x on the other (%v)", key, first.Key, second.Key, err)
		}
	}
	if values, err := (vaultOf{one}).Values(); err != nil || len(values) != 2 {
		t.Errorf("the store has the values %v (%v), want a key and the witness of the secret", values, err)
	}
	if _, err := one.Past(); err == nil || err.Error() != "the store shared keeps no history: a store postgres does, or the file of one machine" {
		t.Errorf("the history of a store that keeps none: %v", err)
	}
	other := machineOn(t, store, "b")
	cause := other.Stats().Cause
	if !other.Engine.Degraded() || cause == nil || !strings.Contains(cause.Error(), "copy theirs to this one") {
		t.Errorf("a machine with another secret: degraded: %v, %v", other.Engine.Degraded(), cause)
	}
}

// markedStore is a store of one machine, which another process uses under another secret.
type markedStore struct {
	fleetStore
	open *atomic.Int64 // stores
}

func (s markedStore) Open(ctx context.Context, _ time.Duration) (storage.Store, error) {
	s.open.Add(1)
	store, err := s.Database.Counts.Opener(memory.Options{})(ctx)
	return otherMark{store.(storage.Local), s.open}, err
}

type otherMark struct {
	storage.Local
	open *atomic.Int64
}

func (otherMark) Mark(_ context.Context, _ int64, marks ...int64) (former, kept int64, err error) {
	return 0, marks[0] + 1, nil
}

func (o otherMark) Close() error {
	o.open.Add(-1)
	return o.Local.Close()
}

// A store that can't be used, because of its secret, is closed before it is opened again.
func TestStoreUnderAnotherSecretIsClosed(t *testing.T) {
	in := markedStore{newFleetStore(), new(atomic.Int64)}
	inst := New(Settings{Store: t.Name(), Kind: "memory", Secret: filepath.Join(t.TempDir(), "tally.key")}, in)
	<-inst.Engine.Ready()
	if cause := inst.Stats().Cause; cause == nil || !strings.Contains(cause.Error(), "under another secret") {
		t.Errorf("the store can't be used because of %v", cause)
	}
	if err := inst.Destruct(); err != nil {
		t.Error(err)
	}
	if n := in.open.Load(); n != 0 {
		t.Errorf("%d stores are open", n)
	}
}
