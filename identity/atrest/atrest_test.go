package atrest

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/caddy-tally/caddy-tally/identity"
	"github.com/caddy-tally/caddy-tally/identity/epoch"
)

const (
	address  = "i\x04\x20\xc0\x00\x02\x01" // of [identity.TagNetwork]
	somebody = "ksomebody"                 // of [identity.TagText]
)

var midnight = time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC)

func newSecret(t *testing.T, character string) *identity.Secret {
	t.Helper()
	secret, err := identity.NewSecret([]byte(strings.Repeat(character, identity.MinSecret)))
	if err != nil {
		t.Fatal(err)
	}
	return secret
}

// hashes returns a function that hashes keys that must be found for an hour.
func hashes(t *testing.T, secret *identity.Secret, epochs *epoch.Keys) func(key string, at time.Time) Hash {
	return func(key string, at time.Time) Hash {
		t.Helper()
		hash, err := HashKey(secret.Hasher, epochs, 1, key, time.Hour, at)
		if err != nil {
			t.Fatal(err)
		}
		return hash
	}
}

// A key that can be linked to an address has a new hash each day, and the former one for as long as
// a count under it matters.
func TestAddressesAreHashedUnderKeysOfDays(t *testing.T) {
	hash := hashes(t, newSecret(t, "a"), epoch.InMemory())
	before, after := hash(address, midnight.Add(-time.Second)), hash(address, midnight)
	none := [16]byte{}
	switch {
	case before.Former != none:
		t.Error("there is a former hash on the first day")
	case after.Current == before.Current:
		t.Error("the hash is the same after midnight")
	case after.Former != before.Current:
		t.Error("after midnight the former hash isn't the one from before")
	case before.Until != midnight.UnixNano() || after.From != midnight.UnixNano():
		t.Errorf("the hash holds until %d and the next one from %d, want midnight, %d", before.Until, after.From, midnight.UnixNano())
	}
	if last := hash(address, midnight.Add(time.Hour-1)); last.Former != before.Current {
		t.Error("the former hash is gone while something under it counts")
	}
	if later := hash(address, midnight.Add(time.Hour)); later.Former != none {
		t.Error("there is a former hash though nothing under it counts any more")
	}
}

// The secret alone must not reveal which address was hashed.
func TestAddressesAreNotHashedUnderTheSecret(t *testing.T) {
	secret := newSecret(t, "a")
	if hashes(t, secret, epoch.InMemory())(address, midnight).Current == secret.Hash(1, address) {
		t.Error("an address is hashed under the secret")
	}
	one, other := hashes(t, secret, epoch.InMemory()), hashes(t, secret, epoch.InMemory())
	if one(address, midnight) == other(address, midnight) {
		t.Error("an address has the same hash under other keys of days")
	}
}

// Any other key has one hash for as long as the secret is in use, and creates no key of a day.
func TestOtherKeysAreHashedUnderTheSecret(t *testing.T) {
	secret, folder := newSecret(t, "a"), t.TempDir()
	hash := hashes(t, secret, epoch.In(folder))
	want := Hash{Current: secret.Hash(1, somebody)}
	for _, days := range []int{0, 1, 400} {
		if got := hash(somebody, midnight.AddDate(0, 0, days)); got != want {
			t.Errorf("after %d days the hash is %x, want %x", days, got, want)
		}
	}
	if hashes(t, newSecret(t, "b"), epoch.In(folder))(somebody, midnight) == want {
		t.Error("another secret gives the same hash")
	}
	if files, _ := filepath.Glob(filepath.Join(folder, "*")); len(files) > 0 {
		t.Errorf("hashing no address has made %q", files)
	}
}

// A count of a week is found for a week.
func TestLongCountsAreHashedUnderKeysOfLongerEpochs(t *testing.T) {
	const week = 7 * 24 * time.Hour
	secret, epochs := newSecret(t, "a"), epoch.InMemory()
	first, err := HashKey(secret.Hasher, epochs, 1, address, week, midnight)
	if err != nil {
		t.Fatal(err)
	}
	last := midnight.Add(week - 1)
	second, err := HashKey(secret.Hasher, epochs, 1, address, week, last)
	if err != nil {
		t.Fatal(err)
	}
	if second.Current != first.Current && second.Former != first.Current {
		t.Error("a count of a week can't be found before the week is over")
	}
	if length := time.Duration(first.Until - first.From); length != week {
		t.Errorf("the hash holds for %v, want %v", length, week)
	}
}

func TestOpaqueNames(t *testing.T) {
	secret, epochs := newSecret(t, "a"), epoch.InMemory()
	first := Opaque(secret.Hasher, []byte("aacme"))
	if again := Opaque(secret.Hasher, []byte("aacme")); again != first || Opaque(secret.Hasher, []byte("aacme")) == Opaque(secret.Hasher, []byte("aemca")) {
		t.Error("a verified client has not always one name, or two have the same")
	}
	if Opaque(secret.Hasher, []byte(somebody)) == secret.Hash(opaqueScope, somebody) {
		t.Error("an opaque name is the hash of a key, which may be on a disk")
	}
	today := func(at time.Time) [16]byte {
		t.Helper()
		name, err := OpaqueToday(epochs, []byte(address), at)
		if err != nil {
			t.Fatal(err)
		}
		return name
	}
	if today(midnight) != today(midnight.Add(24*time.Hour-1)) {
		t.Error("a client's name changes within a day")
	}
	if today(midnight) == today(midnight.Add(24*time.Hour)) {
		t.Error("a client has the same name on the next day")
	}
}

// HashKeyAtOnce returns the same hash as HashKey, once it is known without reading a disk.
func TestHashesAtOnce(t *testing.T) {
	secret, epochs := newSecret(t, "a"), epoch.In(t.TempDir())
	for _, key := range []string{address, somebody} {
		_, ok := HashKeyAtOnce(secret.Hasher, epochs, 1, key, time.Hour, midnight.Add(time.Hour))
		if ok != (key == somebody) {
			t.Errorf("before a key of the day was read, the hash of %q can be had at once: %v", key, ok)
		}
		want := hashes(t, secret, epochs)(key, midnight.Add(time.Hour))
		if got, ok := HashKeyAtOnce(secret.Hasher, epochs, 1, key, time.Hour, midnight.Add(time.Hour)); !ok || got != want {
			t.Errorf("the hash of %q is %+v at once (%v), want %+v", key, got, ok, want)
		}
	}
}
