package epoch

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"time"

	"github.com/caddy-tally/caddy-tally/identity"
)

// day is the length of a UTC day. Like Unix time it has no leap seconds.
const day = 24 * time.Hour

// Days returns the length of an epoch, in days, whose hashes can be found again for a time. It is as short as
// possible, and at least one day.
func Days(remembered time.Duration) int {
	return max(int((remembered+day-1)/day), 1)
}

// Pair has the hashers of an epoch and of the previous one.
type Pair struct {
	// Current hashes the names of present counts.
	Current identity.Hasher

	// Previous finds counts of the previous epoch. It is nil if that had no key.
	Previous *identity.Hasher

	// Epoch is the number of the current epoch, counted from 1970 in epochs of its length. Pairs with
	// the same length and number make the same hashes.
	Epoch int64

	// Ends is the end of the current epoch, when Current becomes Previous.
	Ends time.Time

	keys [2]string // of Current and of Previous; "" if there is none
}

// Keys are the keys of epochs, in a folder, in memory or in a [Vault]. They may be used from
// any number of goroutines.
type Keys struct {
	store keyStore
	pairs sync.Map // of Pair, by the days of its epochs

	// opening is held while keys are read and created, so that only one goroutine does it at midnight.
	// Nothing else waits for it.
	opening sync.Mutex
}

// In returns the keys in a folder, which need not exist. It creates and reads nothing.
func In(path string) *Keys { return &Keys{store: folder(path)} }

// InMemory returns keys without files, which end with the process.
func InMemory() *Keys { return &Keys{store: &memory{keys: make(map[string][]byte)}} }

// At returns the hashers of the epoch that contains a time. Epochs have a number of days. At creates the key
// of the current epoch if there is none yet.
func (k *Keys) At(now time.Time, days int) (Pair, error) {
	if days < 1 {
		return Pair{}, fmt.Errorf("epoch: an epoch has at least 1 day, got %d", days)
	}
	if pair, ok := k.Known(now, days); ok {
		return pair, nil
	}
	k.opening.Lock()
	defer k.opening.Unlock()
	if pair, ok := k.Known(now, days); ok { // another goroutine was faster
		return pair, nil
	}
	pair, err := k.open(now, days)
	if err != nil {
		return Pair{}, fmt.Errorf("epoch: %w", err)
	}
	k.pairs.Store(days, pair)
	return pair, nil
}

// late is how long after the beginning of an epoch the previous key may still be created, by another process
// for a request just before midnight.
const late = time.Minute

// Known returns the pair of a time, for epochs of a number of days, if it is in memory and complete: no key
// of the previous epoch can appear any more. It doesn't wait.
func (k *Keys) Known(now time.Time, days int) (Pair, bool) {
	value, ok := k.pairs.Load(days)
	if !ok {
		return Pair{}, false
	}
	pair := value.(Pair)
	if pair.Epoch != number(now, days) {
		return Pair{}, false
	}
	begun := now.Sub(begin(pair.Epoch, days))
	return pair, pair.Previous != nil || begun > late
}

func (k *Keys) open(now time.Time, days int) (Pair, error) {
	epoch := number(now, days)
	pair := Pair{Epoch: epoch, Ends: begin(epoch+1, days)}
	previous, err := k.store.read(fileName(epoch-1, days))
	switch {
	case err == nil:
		pair.Previous, pair.keys[1] = new(identity.NewHasher(previous)), string(previous)
	case !errors.Is(err, fs.ErrNotExist):
		return Pair{}, err
	}
	current, err := k.readOrMake(fileName(epoch, days))
	if err != nil {
		return Pair{}, err
	}
	pair.Current, pair.keys[0] = identity.NewHasher(current), string(current)
	return pair, nil
}

// readOrMake returns the key with a name, and creates it if there is none. The caller holds opening.
func (k *Keys) readOrMake(name string) ([]byte, error) {
	key, err := k.store.read(name)
	if !errors.Is(err, fs.ErrNotExist) {
		return key, err
	}
	key = make([]byte, keySize)
	rand.Read(key) // never fails: see crypto/rand
	return k.store.add(name, key)
}

// Keep restores known keys that were removed from their place, unless Sweep would destroy them. If another
// process has created another key meanwhile, that key is used from now on.
func (k *Keys) Keep(now time.Time) (err error) {
	k.pairs.Range(func(days, value any) bool {
		pair := value.(Pair)
		for before, key := range pair.keys {
			name := fileName(pair.Epoch-int64(before), days.(int))
			if key == "" || over(name, now) {
				continue
			}
			var kept []byte
			if kept, err = k.store.add(name, []byte(key)); err != nil {
				return false
			}
			if string(kept) != key {
				k.pairs.CompareAndDelete(days, pair)
			}
		}
		return true
	})
	if err != nil {
		return fmt.Errorf("epoch: keep keys: %w", err)
	}
	return nil
}

// Sweep destroys the keys that are no longer used for lookups: all except those of the current and previous
// epochs. Call it now and then, also when nothing is hashed.
func (k *Keys) Sweep(now time.Time) error {
	k.pairs.Range(func(days, pair any) bool {
		if pair.(Pair).Epoch < number(now, days.(int)) {
			k.pairs.CompareAndDelete(days, pair)
		}
		return true
	})
	if err := k.store.sweep(now); err != nil {
		return fmt.Errorf("epoch: destroy keys: %w", err)
	}
	return nil
}

// number returns the number of the epoch that contains a time.
func number(t time.Time, days int) int64 {
	seconds, length := t.Unix(), int64(days)*int64(day/time.Second)
	n := seconds / length
	if seconds%length < 0 {
		n--
	}
	return n
}

// begin returns the beginning of an epoch.
func begin(epoch int64, days int) time.Time {
	return time.Unix(epoch*int64(days)*int64(day/time.Second), 0).UTC()
}
