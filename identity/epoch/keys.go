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

// day is how long a day of UTC is. It knows no leap seconds, like Unix time.
const day = 24 * time.Hour

// Days returns how many days an epoch has for what must be found again for so
// long after it was hashed: as few as possible, and at least one.
func Days(remembered time.Duration) int {
	return max(int((remembered+day-1)/day), 1)
}

// Pair is the hashers of an epoch and of the one before it.
type Pair struct {
	// Current hashes the names of present counts.
	Current identity.Hasher

	// Previous finds counts of the epoch before. It is nil if there was none.
	Previous *identity.Hasher

	// Epoch is the number of the current epoch, counted from 1970 in epochs of its
	// length. Two pairs of one length with one number hash alike.
	Epoch int64

	// Ends is when the current epoch is over, and Current becomes Previous.
	Ends time.Time

	keys [2]string // of Current and of Previous, "" if there is none
}

// Keys are the keys of epochs, in a folder, in memory or in a [Vault]. They may be used from
// any number of goroutines.
type Keys struct {
	place place
	pairs sync.Map // of Pair, by the days of its epochs

	// opening is held while keys are read and made, so that one goroutine does it at
	// midnight and not all of them. Nothing else waits for it.
	opening sync.Mutex
}

// In returns the keys in a folder, which need not exist. It touches nothing.
func In(path string) *Keys { return &Keys{place: folder(path)} }

// InMemory returns keys that no file has: they end with the process.
func InMemory() *Keys { return &Keys{place: &memory{keys: make(map[string][]byte)}} }

// At returns the hashers of the epoch that a time is in, in epochs of so many days. It
// makes the key of the current epoch if there is none yet.
func (k *Keys) At(now time.Time, days int) (Pair, error) {
	if days < 1 {
		return Pair{}, fmt.Errorf("epoch: an epoch has at least 1 day, got %d", days)
	}
	if pair, ok := k.Known(now, days); ok {
		return pair, nil
	}
	k.opening.Lock()
	defer k.opening.Unlock()
	if pair, ok := k.Known(now, days); ok { // somebody was faster
		return pair, nil
	}
	pair, err := k.open(now, days)
	if err != nil {
		return Pair{}, fmt.Errorf("epoch: %w", err)
	}
	k.pairs.Store(days, pair)
	return pair, nil
}

// late is how long into an epoch the key of the one before may still be made: by
// another process, whose request came just before midnight.
const late = time.Minute

// Known returns the pair of a time, for epochs of so many days, if it is open and nothing can be
// added to it. It waits for nothing.
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
	previous, err := k.place.read(fileName(epoch-1, days))
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

// readOrMake returns the key with a name, and makes it if there is none. The keys must be
// locked.
func (k *Keys) readOrMake(name string) ([]byte, error) {
	key, err := k.place.read(name)
	if !errors.Is(err, fs.ErrNotExist) {
		return key, err
	}
	key = make([]byte, keySize)
	rand.Read(key) // never fails: see crypto/rand
	return k.place.add(name, key)
}

// Keep adds the keys again that are known, that Sweep would leave, and that are not there any
// more. Where somebody has made another one meanwhile, that is used from now on.
func (k *Keys) Keep(now time.Time) (err error) {
	k.pairs.Range(func(days, value any) bool {
		pair := value.(Pair)
		for before, key := range pair.keys {
			name := fileName(pair.Epoch-int64(before), days.(int))
			if key == "" || over(name, now) {
				continue
			}
			var kept []byte
			if kept, err = k.place.add(name, []byte(key)); err != nil {
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

// Sweep destroys the keys that are no longer used for look-ups: all but those of
// the current epochs and the ones before. It is to be called now and then, also
// when nothing is hashed.
func (k *Keys) Sweep(now time.Time) error {
	k.pairs.Range(func(days, pair any) bool {
		if pair.(Pair).Epoch < number(now, days.(int)) {
			k.pairs.CompareAndDelete(days, pair)
		}
		return true
	})
	if err := k.place.sweep(now); err != nil {
		return fmt.Errorf("epoch: destroy keys: %w", err)
	}
	return nil
}

// number returns the number of the epoch that a time is in.
func number(t time.Time, days int) int64 {
	seconds, length := t.Unix(), int64(days)*int64(day/time.Second)
	n := seconds / length
	if seconds%length < 0 {
		n--
	}
	return n
}

// begin returns when an epoch begins.
func begin(epoch int64, days int) time.Time {
	return time.Unix(epoch*int64(days)*int64(day/time.Second), 0).UTC()
}
