package instance

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddy-tally/caddy-tally/identity/apikeys"
	"github.com/caddy-tally/caddy-tally/internal/operator"
	"github.com/caddy-tally/caddy-tally/storage"
)

// addKey makes a key in the store of a machine.
func addKey(t *testing.T, inst *Instance, name, tier string) (string, apikeys.Stored) {
	t.Helper()
	key, stored, err := apikeys.NewStored(apikeys.Holder{Name: name, Tier: tier})
	if err == nil {
		err = inst.Shared.AddKey(t.Context(), stored)
	}
	if err != nil {
		t.Fatal(err)
	}
	return key, stored
}

func isKnown(inst *Instance, key string) bool {
	return inst.Shared.Keys.Load().Find(key, time.Now()) != nil
}

// A key stays valid while the secret is replaced, is resealed with the new line, and a later
// revocation ends it everywhere.
func TestSharedKeysOutliveTheSecret(t *testing.T) {
	store := newFleetStore()
	key, stored := addKey(t, machineWith(t, store, "a"), "acme", "free")
	rotated, late := machineWith(t, store, "b", "a"), machineWith(t, store, "b", "a")
	if !isKnown(rotated, key) || rotated.Shared.countOlder() != 1 {
		t.Fatalf("the key is known: %t; %d notes are under an older line, want 1", isKnown(rotated, key), rotated.Shared.countOlder())
	}
	if err := rotated.Shared.sealAgain(); err != nil {
		t.Fatal(err)
	}
	fresh := machineWith(t, store, "b")
	if !isKnown(fresh, key) || fresh.Shared.countOlder() != 0 {
		t.Errorf("under the new line alone the key is known: %t; %d notes are under an older line", isKnown(fresh, key), fresh.Shared.countOlder())
	}
	if err := fresh.Shared.RevokeKeys(t.Context(), fresh.Shared.KeysOf("acme", stored.Entry().ID)); err != nil {
		t.Fatal(err)
	}
	if err := late.Shared.sealAgain(); err != nil { // it may not have heard of it
		t.Fatal(err)
	}
	if isKnown(fresh, key) || isKnown(machineWith(t, store, "b", "a"), key) {
		t.Error("a key that was revoked is known")
	}
}

// A machine that changes the tier of a key, before it hears of the key's revocation, doesn't
// restore the key.
func TestRevokedKeysStayRevoked(t *testing.T) {
	store := newFleetStore()
	one := machineWith(t, store, "a")
	key, _ := addKey(t, one, "acme", "free")
	late := machineWith(t, store, "a")
	heard := late.Shared.KeysOf("acme", "")
	if len(heard) != 1 {
		t.Fatalf("the late machine knows %d keys, want 1", len(heard))
	}
	if err := one.Shared.RevokeKeys(t.Context(), one.Shared.KeysOf("acme", "")); err != nil {
		t.Fatal(err)
	}
	if err := late.Shared.RetierKeys(t.Context(), heard, "pro"); err != nil {
		t.Fatal(err)
	}
	if isKnown(machineWith(t, store, "a"), key) {
		t.Error("a key that was revoked is known")
	}
}

// Neither a key nor its name nor its hash is in the store.
func TestSharedKeysAreSealed(t *testing.T) {
	inst := machineWith(t, newFleetStore(), "a")
	key, stored := addKey(t, inst, "acme", "free")
	notes := slices.Collect(maps.Values(inst.Shared.notes))
	if len(notes) != 1 {
		t.Fatalf("%d notes, want 1", len(notes))
	}
	at := append(notes[0].Name[:], notes[0].Value...)
	for _, secret := range [][]byte{[]byte(key), []byte("acme"), []byte("free"), stored.Hash[:], stored.Hash[:8], fmt.Appendf(nil, "%x", stored.Hash[:8])} {
		if bytes.Contains(at, secret) {
			t.Errorf("the store has %q", secret)
		}
	}
}

// Notes that are no keys are ignored, and the others apply.
func TestNotesThatAreNoKeys(t *testing.T) {
	inst := machineWith(t, newFleetStore(), "a")
	key, stored := addKey(t, inst, "acme", "free")
	for i, line := range []string{"acme free", "acme free zz", "a/b/c free " + strings.Repeat("0", 64), stored.String() + " until", stored.String() + " until never", ""} {
		c := inst.Shared.newChanges()
		c.note(storage.Note{Name: storage.Key{byte(i)}, Version: 1}, keyNote+line, time.Time{})
		c.notes[storage.Key{99}] = storage.Note{Name: storage.Key{99}, Version: 1, Value: []byte("not sealed")}
		if unread := inst.Shared.take(c.sealer, c.list(), false); unread != 2 {
			t.Errorf("%q: %d notes can't be read, want 2", line, unread)
		}
	}
	if n := len(inst.Shared.ListKeys()); n != 1 || !isKnown(inst, key) {
		t.Errorf("%d keys, want the one that is good", n)
	}
}

// The number of keys is bounded, and a name has one tier.
func TestSharedKeysThatCannotBe(t *testing.T) {
	inst := machineWith(t, newFleetStore(), "a")
	addKey(t, inst, "acme", "free")
	refused := func(name, tier, want string) {
		t.Helper()
		_, stored, err := apikeys.NewStored(apikeys.Holder{Name: name, Tier: tier})
		if err == nil {
			err = inst.Shared.AddKey(t.Context(), stored)
		}
		var refusal *operator.Error
		if !errors.As(err, &refusal) || refusal.Status != http.StatusConflict || !strings.Contains(refusal.Error(), want) {
			t.Errorf("%s %s: %v, want %q", name, tier, err, want)
		}
	}
	refused("acme", "pro", "acme has the tier free already, got pro")
	inst.Shared.mu.Lock()
	for i := range maxSharedKeys - 1 {
		name := storage.Key{1, byte(i), byte(i >> 8)}
		inst.Shared.api[name] = sharedKey{Stored: apikeys.Stored{Holder: apikeys.Holder{Name: fmt.Sprint(i), Tier: "free"}}}
	}
	inst.Shared.mu.Unlock()
	refused("one-more", "free", "as many as it may")
}
