package epoch

import (
	"bytes"
	"errors"
	"maps"
	"math/rand/v2"
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

func (v *vaultOf) SwapValue(name string, former, value []byte) ([]byte, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if bytes.Equal(v.values[name], former) {
		v.values[name] = value
	}
	if len(v.values[name]) == 0 {
		delete(v.values, name)
	}
	return v.values[name], nil
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

// Machines that share a vault and a secret hash alike, including those that start at once and after
// midnight. The vault doesn't reveal keys.
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

// Keys in a vault are destroyed like those in a folder, and nothing else is.
func TestVaultIsSwept(t *testing.T) {
	v := newVault()
	k := InVault(v, secretOf(t, "a"))
	agree(t, k, "one")
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

// The keys in use are written again to a vault that has lost everything. If another machine was
// faster with another key, all use that one.
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

// keyOf returns a key for a test.
func keyOf(text string) []byte { return []byte((text + strings.Repeat(".", keySize))[:keySize]) }

// agree returns the key that the vault's users agree on, or fails the test.
func agree(t *testing.T, k *Keys, own string) []byte {
	t.Helper()
	key, err := k.Agree(keyOf(own))
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// A machine with another secret gets an error, at its start and when it reads keys. A machine that
// has the secret as a later line doesn't.
func TestVaultUnderAnotherSecret(t *testing.T) {
	v := newVault()
	agree(t, InVault(v, secretOf(t, "a")), "a")
	at(t, InVault(v, secretOf(t, "a")), t0, 1)
	other := InVault(v, secretOf(t, "b"))
	if _, err := other.Agree(keyOf("b")); !errors.Is(err, ErrOtherSecret) {
		t.Errorf("another secret: %v", err)
	}
	if _, err := other.At(t0, 1); !errors.Is(err, ErrOtherSecret) {
		t.Errorf("keys under another secret: %v", err)
	}
	if n, err := other.Seals(); err != nil || n != (Seals{Unknown: 2}) {
		t.Errorf("another secret opens %+v (%v)", n, err)
	}
	rotated := InVault(v, secretOf(t, "b", "a"))
	agree(t, rotated, "b")
	at(t, rotated, t0, 1)
	for name := range v.values {
		v.values[name] = []byte("short")
	}
	if _, err := rotated.Agree(keyOf("b")); !errors.Is(err, ErrOtherSecret) {
		t.Errorf("a damaged value: %v", err)
	}
}

// Machines are restarted in a random order at each step of a rotation, some of them more than once, while all
// of them, those that run on with former lines too, look up names between any two restarts. All of them name
// clients alike at every moment, also over midnight, and need the former line no longer at the end: nobody
// gets a second limit. A run that never reached one of the cases fails.
func TestRotationWithRollingRestarts(t *testing.T) {
	const seeds = 40
	reached := make(map[string]int)
	for seed := range uint64(seeds) {
		rotate(t, rand.New(rand.NewPCG(seed, 4)), reached)
		if t.Failed() {
			t.Fatalf("with seed %d", seed)
		}
	}
	for _, c := range []string{"lines in both orders at once", "a line that is new to some", "a line that some have removed",
		"a crash within a step", "midnight within a step", "a machine that runs on with former lines"} {
		if reached[c] < seeds/4 {
			t.Errorf("%q was reached %d times in %d runs; reached %v", c, reached[c], seeds, reached)
		}
	}
}

// rotating is a machine with the lines that it was started with.
type rotating struct {
	keys  *Keys
	lines []string
}

func rotate(t *testing.T, rng *rand.Rand, reached map[string]int) {
	t.Helper()
	v, now := newVault(), t0
	machines := make([]rotating, 2+rng.IntN(3))
	start := func(i int, lines []string) {
		machines[i] = rotating{InVault(v, secretOf(t, lines...)), lines}
		if got := agree(t, machines[i].keys, lines[0]); !bytes.Equal(got, keyOf("a")) {
			t.Errorf("machine %d with lines %v names verified clients otherwise", i, lines)
		}
	}
	for i := range machines {
		start(i, []string{"a"})
	}
	for _, step := range [][]string{{"a", "b"}, {"b", "a"}, {"b"}} {
		midnight := rng.IntN(2 * len(machines))
		for n, i := range rng.Perm(len(machines)) {
			if former := rng.IntN(len(machines)); rng.IntN(2) == 0 {
				start(former, machines[former].lines)
				reached["a crash within a step"]++
			}
			start(i, step)
			if n == midnight {
				now = now.Add(day)
				reached["midnight within a step"]++
			}
			compareNames(t, machines, now)
			if n < len(machines)-1 {
				reached["a machine that runs on with former lines"]++
				reached[map[string]string{"ab": "a line that is new to some", "ba": "lines in both orders at once", "b": "a line that some have removed"}[strings.Join(step, "")]]++
			}
		}
		if n, err := machines[0].keys.Seals(); err != nil || n.Unknown > 0 || n.First == 0 || n.First != len(v.values) {
			t.Errorf("after the step to %v the values are sealed %+v (%v), want all %d under the first line", step, n, err, len(v.values))
		}
	}
}

// compareNames checks that all machines have the same present and former names.
func compareNames(t *testing.T, machines []rotating, now time.Time) {
	t.Helper()
	want := at(t, machines[0].keys, now, 1)
	for i, m := range machines[1:] {
		got := at(t, m.keys, now, 1)
		if name(got.Current) != name(want.Current) || (got.Previous == nil) != (want.Previous == nil) ||
			got.Previous != nil && name(*got.Previous) != name(*want.Previous) {
			t.Errorf("machine %d with lines %v and machine 0 with lines %v have other names", i+1, m.lines, machines[0].lines)
		}
	}
}

// Machines that start at once with lines in different orders agree, regardless of which one reseals
// the key meanwhile.
func TestMachinesAgreeAtOnce(t *testing.T) {
	for range 20 {
		v, keys := newVault(), make([][]byte, 8)
		var wg sync.WaitGroup
		for i := range keys {
			lines := [][]string{{"a", "b"}, {"b", "a"}}[i%2]
			wg.Go(func() { keys[i], _ = InVault(v, secretOf(t, lines...)).Agree(keyOf(lines[0])) })
		}
		wg.Wait()
		for _, key := range keys {
			if len(key) == 0 || !bytes.Equal(key, keys[0]) {
				t.Fatalf("machines have the keys %q", keys)
			}
		}
	}
}
