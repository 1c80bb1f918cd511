// Package atrest hashes keys before they reach a disk, and makes the opaque names of clients for logs and
// upstreams.
//
// A key that can be linked to an address is hashed under the key of an epoch, which is destroyed later, so that
// old rows can't be linked to anybody. Other keys are hashed under a lasting key. Both hashes are HMAC-SHA-256:
// see [identity.Hasher].
package atrest

import (
	"time"

	"github.com/caddy-tally/caddy-tally/identity"
	"github.com/caddy-tally/caddy-tally/identity/epoch"
)

// Hash is the name of a key on a disk.
type Hash struct {
	Current [16]byte
	// Former finds counts from before the current epoch. It is zero once there are none left.
	Former [16]byte
	// From and Until bound the time in which Current holds, From ≤ now < Until, in
	// nanoseconds since the Unix epoch. Until is 0 if it always holds.
	From, Until int64
}

// HashKey hashes a key within a scope. retention is how long after now the hash must find the counts. It returns
// an error if the key of an epoch can't be read or created.
func HashKey(lasting identity.Hasher, epochs *epoch.Keys, scope uint64, key string, retention time.Duration,
	now time.Time) (Hash, error) {
	if !identity.IsAddress(key) {
		return Hash{Current: lasting.Hash(scope, key)}, nil
	}
	days := epoch.Days(retention)
	names, err := epochs.At(now, days)
	if err != nil {
		return Hash{}, err
	}
	return hashUnder(names, days, scope, key, retention, now), nil
}

// HashKeyAtOnce is [HashKey] without waiting for a disk. It returns false if the keys of the
// epoch are not in memory.
func HashKeyAtOnce(lasting identity.Hasher, epochs *epoch.Keys, scope uint64, key string, retention time.Duration,
	now time.Time) (Hash, bool) {
	if !identity.IsAddress(key) {
		return Hash{Current: lasting.Hash(scope, key)}, true
	}
	days := epoch.Days(retention)
	names, ok := epochs.Known(now, days)
	if !ok {
		return Hash{}, false
	}
	return hashUnder(names, days, scope, key, retention, now), true
}

// hashUnder hashes a key under the keys of epochs with a number of days.
func hashUnder(names epoch.Pair, days int, scope uint64, key string, retention time.Duration, now time.Time) Hash {
	begun := names.Ends.AddDate(0, 0, -days)
	hash := Hash{Current: names.Current.Hash(scope, key), From: begun.UnixNano(), Until: names.Ends.UnixNano()}
	if names.Previous != nil && now.Sub(begun) < retention {
		hash.Former = names.Previous.Hash(scope, key)
	}
	return hash
}

// The scope of opaque names, and the prefix of their hashed text. No limit has the scope 0.
const (
	opaqueScope  = 0
	opaquePrefix = "client "
)

// Opaque returns an opaque name of a verified client. It never changes.
func Opaque(lasting identity.Hasher, key []byte) [16]byte {
	return lasting.Hash(opaqueScope, opaquePrefix+string(key))
}

// OpaqueToday returns an opaque name of a client that isn't verified. It changes every day, and two days later
// nobody can link it any more.
func OpaqueToday(epochs *epoch.Keys, key []byte, now time.Time) ([16]byte, error) {
	hash, err := OpaqueFor(epochs, key, 24*time.Hour, now)
	return hash.Current, err
}

// OpaqueFor returns opaque names of a client that isn't verified. They can be linked for the retention after
// now, and not for longer than twice that.
func OpaqueFor(epochs *epoch.Keys, key []byte, retention time.Duration, now time.Time) (Hash, error) {
	days := epoch.Days(retention)
	names, err := epochs.At(now, days)
	if err != nil {
		return Hash{}, err
	}
	return hashUnder(names, days, opaqueScope, opaquePrefix+string(key), retention, now), nil
}
