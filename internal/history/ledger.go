package history

import (
	"sync"
	"sync/atomic"

	"github.com/cespare/xxhash/v2"

	"github.com/caddy-tally/caddy-tally/storage"
)

// Ledger has the meters of all series. The zero value has none. Who counts and who reports
// share it, and may come and go on their own: nothing is counted twice or lost between them.
type Ledger struct {
	seed atomic.Uint64 // what keys are hashed under; 0 if it isn't known

	mu     sync.Mutex
	meters map[storage.Series]*Meter // guarded by mu
}

// Destruct implements caddy.Destructor: there is nothing to give back.
func (*Ledger) Destruct() error { return nil }

// Meter returns the meter of a series, the same for all who ask.
func (l *Ledger) Meter(of storage.Series) *Meter {
	l.mu.Lock()
	defer l.mu.Unlock()
	m := l.meters[of]
	if m == nil {
		if l.meters == nil {
			l.meters = make(map[storage.Series]*Meter)
		}
		m = &Meter{series: of}
		l.meters[of] = m
	}
	return m
}

// SetSeed sets what keys are hashed under from now on. Processes that share a store need the
// same. Before that nobody counts how many different keys came.
func (l *Ledger) SetSeed(seed uint64) { l.seed.Store(seed) }

// Key returns the key with its hash, as meters count it. The hash is of use only to whoever
// knows the seed.
func (l *Ledger) Key(text []byte) Key {
	seed := l.seed.Load()
	if seed == 0 {
		return Key{Text: text}
	}
	return Key{Text: text, Hash: mix(xxhash.Sum64(text) ^ seed)}
}

// mix spreads what is in any bit over all of them: the finalizer of MurmurHash3, by Austin
// Appleby.
func mix(h uint64) uint64 {
	h ^= h >> 33
	h *= 0xff51afd7ed558ccd
	h ^= h >> 33
	h *= 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}

// take returns what all meters have counted since the last call.
func (l *Ledger) take(at int64, name Namer) (counted []storage.Minute) {
	l.mu.Lock()
	meters := make([]*Meter, 0, len(l.meters))
	for _, m := range l.meters {
		meters = append(meters, m)
	}
	l.mu.Unlock()
	for _, m := range meters {
		if minute, some := m.take(at, name); some {
			counted = append(counted, minute)
		}
	}
	return counted
}
