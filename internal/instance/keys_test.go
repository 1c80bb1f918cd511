package instance

import (
	"bytes"
	"context"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-tally/caddy-tally/identity"
	"github.com/caddy-tally/caddy-tally/internal/engine"
	"github.com/caddy-tally/caddy-tally/internal/stores"
	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/storage"
	"github.com/caddy-tally/caddy-tally/storage/memory"
)

// fleetStore is a NetworkStore for tests: a store in memory with a vault.
type fleetStore struct {
	counts *memory.Database
	mu     sync.Mutex
	values map[string][]byte // guarded by mu
}

func (*fleetStore) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "rate_limit.stores.shared"}
}
func (*fleetStore) Counts() string { return "shared" }

func (*fleetStore) Identity() string { return "shared" }
func (*fleetStore) Address() string  { return "server:1" }

func (s *fleetStore) Open(ctx context.Context, _ time.Duration) (storage.Store, error) {
	store, err := s.counts.Opener(memory.Options{})(ctx)
	return fleetVault{store, s}, err
}

// fleetVault is an open fleetStore.
type fleetVault struct {
	storage.Store
	fleet *fleetStore
}

func (v fleetVault) Values(context.Context) (map[string][]byte, error) {
	v.fleet.mu.Lock()
	defer v.fleet.mu.Unlock()
	return maps.Clone(v.fleet.values), nil
}

func (v fleetVault) SwapValue(_ context.Context, name string, former, value []byte) ([]byte, error) {
	v.fleet.mu.Lock()
	defer v.fleet.mu.Unlock()
	if bytes.Equal(v.fleet.values[name], former) {
		v.fleet.values[name] = value
	}
	if len(v.fleet.values[name]) == 0 {
		delete(v.fleet.values, name)
	}
	return v.fleet.values[name], nil
}

// machineOn starts an instance on a store, like a machine with a secret file.
func machineOn(t *testing.T, store stores.Store, secret string) *Instance {
	t.Helper()
	path := filepath.Join(t.TempDir(), "tally.key")
	if err := os.WriteFile(path, []byte(strings.Repeat(secret, 40)), 0o600); err != nil {
		t.Fatal(err)
	}
	h, err := New(Settings{Store: t.Name() + path, Kind: "shared", Address: "server:1", Secret: path}, store)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.Destruct() })
	<-h.Engine.Ready()
	return h
}

// Machines that share a store use the same names of clients, including addresses. A machine with
// another secret reports which file to copy, and does not use the store.
func TestMachinesShareNames(t *testing.T) {
	store := &fleetStore{counts: memory.New(), values: make(map[string][]byte)}
	one, two := machineOn(t, store, "a"), machineOn(t, store, "a")
	l, err := limiter.New(limiter.Params{Amount: 5, Window: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	limit := &engine.Limit{ID: 7, Limit: l}
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
	if values, err := (fleetVault{fleet: store}).Values(context.Background()); err != nil || len(values) != 2 {
		t.Errorf("the store has the values %v (%v), want a key and the witness of the secret", values, err)
	}
	if _, err := one.Past(); err == nil || err.Error() != "the store shared keeps no history" {
		t.Errorf("the history of a store that keeps none: %v", err)
	}
	other := machineOn(t, store, "b")
	cause := other.Stats().Cause
	if !other.Engine.Degraded() || cause == nil || !strings.Contains(cause.Error(), "copy theirs to this one") {
		t.Errorf("a machine with another secret: degraded: %v, %v", other.Engine.Degraded(), cause)
	}
}
