package history

import (
	"cmp"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"

	"github.com/caddy-tally/caddy-tally/storage"
)

const (
	// In each minute and stripe, all decisions of a kind up to sampleFrom are examined. Of later ones
	// one in sampleEvery is, and counts for that many (decision 65).
	sampleFrom  = 32
	sampleEvery = 64

	maxTracked = 512 // keys of a meter and minute
	evictOf    = 8   // of so many keys, the lightest is dropped when there are too many
	maxKey     = 256 // bytes of an examined key; longer ones are ignored
)

// weightOf returns how many decisions the n-th one of a minute and stripe represents, 0 if it isn't
// examined. The selection is random, so that estimates are right on average whatever n is. Keys of a
// zone are those of its limits.
func (m *Meter) weightOf(n int64) int64 {
	switch {
	case m.series.Limit == "":
		return 0
	case n <= sampleFrom:
		return 1
	case rand.Uint32()%sampleEvery == 0:
		return sampleEvery
	}
	return 0
}

// heavy finds the keys with the highest demand.
type heavy struct {
	mu   sync.Mutex
	keys map[string]*wanted // guarded by mu
}

type wanted struct{ units, refused int64 }

func (w *wanted) total() int64 { return w.units + w.refused }

// add adds a decision that stands for weight of them.
func (h *heavy) add(key []byte, weight, units, refused int64) {
	if len(key) == 0 || len(key) > maxKey {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	w := h.keys[string(key)]
	if w == nil {
		if h.keys == nil {
			h.keys = make(map[string]*wanted)
		}
		h.makeRoomLocked()
		w = new(wanted)
		h.keys[string(key)] = w
	}
	w.units += weight * units
	w.refused += weight * refused
}

// makeRoomLocked drops the lightest of a few keys if there are too many. The few are chosen at
// random, so a heavy key stays.
func (h *heavy) makeRoomLocked() {
	if len(h.keys) < maxTracked {
		return
	}
	lightest, least, n := "", int64(0), 0
	for key, w := range h.keys {
		if n == 0 || w.total() < least {
			lightest, least = key, w.total()
		}
		if n++; n == evictOf {
			break
		}
	}
	delete(h.keys, lightest)
}

// Namer names a key at rest.
type Namer func(series storage.Series, key string) (storage.Key, error)

// take returns the heaviest keys since the last call, the heaviest first. It omits keys that can't be named.
func (h *heavy) take(series storage.Series, name Namer) (heaviest []storage.HeavyKey) {
	h.mu.Lock()
	keys := h.keys
	h.keys = nil
	h.mu.Unlock()

	ordered := slices.SortedFunc(maps.Keys(keys), func(a, b string) int {
		return cmp.Or(cmp.Compare(keys[b].total(), keys[a].total()), cmp.Compare(a, b))
	})
	for _, key := range ordered[:min(len(ordered), storage.MaxHeaviest)] {
		if named, err := name(series, key); err == nil {
			heaviest = append(heaviest,
				storage.HeavyKey{Key: named, Units: keys[key].units, Refused: keys[key].refused})
		}
	}
	return heaviest
}
