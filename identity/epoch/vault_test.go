package epoch

import (
	"bytes"
	"errors"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddy-tally/caddy-tally/identity"
)

// vaultOf is a vault in memory.
type vaultOf struct {
	mu     sync.Mutex
	values map[string][]byte
}

func (v *vaultOf) Values() (map[string][]byte, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return maps.Clone(v.values), nil
}

func (v *vaultOf) AddValue(name string, value []byte) ([]byte, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.values[name] == nil {
		v.values[name] = value
	}
	return v.values[name], nil
}

func (v *vaultOf) RemoveValue(name string) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.values, name)
	return nil
}

func newVault() *vaultOf { return &vaultOf{values: make(map[string][]byte)} }

func secretOf(t *testing.T, lines ...string) func() *identity.Secret {
	t.Helper()
	var older [][]byte
	for _, line := range lines[1:] {
		older = append(older, []byte(strings.Repeat(line, 32)))
	}
	s, err := identity.NewSecret([]byte(strings.Repeat(lines[0], 32)), older...)
	if err != nil {
		t.Fatal(err)
	}
	return func() *identity.Secret { return s }
}

// Machines that share a vault and a secret hash alike, also those that come at once and after
// midnight. What is in the vault shows no key.
func TestVaultIsSharedByMachines(t *testing.T) {
	v, secret := newVault(), secretOf(t, "a")
	pairs := make([]Pair, 10)
	for _, now := range []time.Time{t0, t0.Add(day)} {
		var wg sync.WaitGroup
		for i := range pairs {
			wg.Go(func() { pairs[i], _ = InVault(v, secret).At(now, 1) })
		}
		wg.Wait()
		for _, pair := range pairs {
			if pair.Current == (identity.Hasher{}) || name(pair.Current) != name(pairs[0].Current) {
				t.Fatal("two machines have other names")
			}
			if now != t0 && (pair.Previous == nil || name(*pair.Previous) != name(*pairs[0].Previous)) {
				t.Fatal("two machines have other names for yesterday")
			}
		}
	}
	for _, key := range pairs[0].keys {
		for name, value := range v.values {
			if bytes.Contains(value, []byte(key)) {
				t.Errorf("the value %q shows a key", name)
			}
		}
	}
}

// Keys in a vault are destroyed when those in a folder are, and nothing else is.
func TestVaultIsSwept(t *testing.T) {
	v := newVault()
	k := InVault(v, secretOf(t, "a"))
	if err := k.Verify(); err != nil {
		t.Fatal(err)
	}
	at(t, k, t0, 1)
	at(t, k, t0, 7)
	for _, c := range []struct {
		after time.Duration
		left  int
	}{{day, 3}, {2 * day, 2}, {14 * day, 1}} {
		if err := k.Sweep(t0.Add(c.after)); err != nil {
			t.Error(err)
		}
		if len(v.values) != c.left {
			t.Errorf("after %v there are %d values, want %d", c.after, len(v.values), c.left)
		}
	}
}

// A vault that has lost everything gets the keys again that are in use. Where somebody else was
// faster with another key, all go on with that one.
func TestVaultThatIsEmptied(t *testing.T) {
	v, secret := newVault(), secretOf(t, "a")
	first, second := InVault(v, secret), InVault(v, secret)
	today := at(t, first, t0, 1)
	at(t, second, t0, 1)
	clear(v.values)
	if err := first.Keep(t0); err != nil {
		t.Fatal(err)
	}
	if again := at(t, InVault(v, secret), t0, 1); name(again.Current) != name(today.Current) {
		t.Error("a machine that comes later has other names")
	}
	clear(v.values)
	faster := at(t, InVault(v, secret), t0, 1)
	for _, k := range []*Keys{first, second} {
		if err := k.Keep(t0); err != nil {
			t.Fatal(err)
		}
		if got := at(t, k, t0, 1); name(got.Current) != name(faster.Current) {
			t.Error("a machine goes on with names of its own")
		}
	}
}

// A machine with another secret is told so, at once and when it looks for keys. One that has
// the secret as an older line is not.
func TestVaultUnderAnotherSecret(t *testing.T) {
	v := newVault()
	if err := InVault(v, secretOf(t, "a")).Verify(); err != nil {
		t.Fatal(err)
	}
	at(t, InVault(v, secretOf(t, "a")), t0, 1)
	other := InVault(v, secretOf(t, "b"))
	if err := other.Verify(); !errors.Is(err, ErrOtherSecret) {
		t.Errorf("another secret: %v", err)
	}
	if _, err := other.At(t0, 1); !errors.Is(err, ErrOtherSecret) {
		t.Errorf("keys under another secret: %v", err)
	}
	rotated := InVault(v, secretOf(t, "b", "a"))
	if err := rotated.Verify(); err != nil {
		t.Errorf("an older line: %v", err)
	}
	at(t, rotated, t0, 1)
	for name := range v.values {
		v.values[name] = []byte("short")
	}
	if err := rotated.Verify(); !errors.Is(err, ErrOtherSecret) {
		t.Errorf("a damaged value: %v", err)
	}
}
