package history

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/cespare/xxhash/v2"

	"github.com/caddy-tally/caddy-tally/identity"
	"github.com/caddy-tally/caddy-tally/storage"
)

// Ledger has the meters of all series. The zero value has none. Counting handlers and the reporter
// share it, and may come and go independently: nothing is counted twice or lost between them.
type Ledger struct {
	seed atomic.Uint64 // seeds the hashes of keys; 0 if it isn't known

	mu     sync.Mutex
	meters map[storage.Series]*Meter // guarded by mu
	exact  atomic.Int64              // keys that are counted exactly
}

// Meter returns the meter of a series. All callers get the same one. That of a nil Ledger is nil, and counts nothing.
func (l *Ledger) Meter(series storage.Series) *Meter {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	m := l.meters[series]
	if m == nil {
		if l.meters == nil {
			l.meters = make(map[storage.Series]*Meter)
		}
		m = &Meter{series: series}
		if series.Limit != "" { // keys of a zone are those of its limits
			m.exact.room = &l.exact
		}
		l.meters[series] = m
	}
	return m
}

// SetSeed sets the seed of the hashes of keys from now on. Processes that share a store need the
// same one. Before the first call, distinct keys aren't counted.
func (l *Ledger) SetSeed(seed uint64) { l.seed.Store(seed) }

// Key returns the key with its hash, for meters. The hash reveals nothing without the seed. A nil Ledger
// returns the zero Key.
func (l *Ledger) Key(text []byte) Key {
	if l == nil {
		return Key{}
	}
	key := Key{Text: text, Lasting: len(text) > 0 && text[0] == identity.TagAPIKey}
	if seed := l.seed.Load(); seed != 0 {
		key.Hash = mix(xxhash.Sum64(text) ^ seed)
	}
	return key
}

// mix spreads each bit over all of them: the finalizer of MurmurHash3, by Austin Appleby.
func mix(h uint64) uint64 {
	h ^= h >> 33
	h *= 0xff51afd7ed558ccd
	h ^= h >> 33
	h *= 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}

// take returns the counts of all meters since the last call.
func (l *Ledger) take(at int64, name Namer) (counted []storage.Minute) {
	l.mu.Lock()
	meters := slices.Collect(maps.Values(l.meters))
	l.mu.Unlock()
	for _, m := range meters {
		counted = slices.Concat(counted, m.take(at, name), m.exact.take(at, m.series, name))
	}
	return counted
}
