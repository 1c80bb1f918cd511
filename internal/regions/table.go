package regions

import (
	"hash/maphash"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/caddy-tally/caddy-tally/limiter/region"
	"github.com/caddy-tally/caddy-tally/storage"
)

const shards = 64

// table finds keys by limit and text, and the units that others have admitted by name.
type table struct {
	seed   maphash.Seed
	max    int64
	count  atomic.Int64 // keys
	shards [shards]shard

	mu    sync.Mutex
	names map[name]*named // guarded by mu; at most namesPerKey·max, and those of keys
}

type shard struct {
	mu   sync.RWMutex
	keys map[keyID]*key // guarded by mu
}

// keyID identifies a key here, and name in the exchange.
type (
	keyID struct {
		limit storage.LimitID
		text  string
	}
	name struct {
		limit storage.LimitID
		key   storage.Key
	}
)

// namesPerKey is the most names per key.
const namesPerKey = 4

// named is the counts of components under a name. It is guarded by table.mu.
type named struct {
	counts region.Counts
	key    *key // the key with the name; nil if no request of this region has used it
}

func newTable(max int) *table {
	t := &table{seed: maphash.MakeSeed(), max: int64(max), names: make(map[name]*named)}
	for i := range t.shards {
		t.shards[i].keys = make(map[keyID]*key)
	}
	return t
}

func (t *table) shardOf(text []byte) *shard {
	return &t.shards[maphash.Bytes(t.seed, text)%shards]
}

// find returns the key of a limit, or nil.
func (t *table) find(limit storage.LimitID, text []byte) *key {
	s := t.shardOf(text)
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.keys[keyID{limit, string(text)}]
}

// add adds a key with its names, and reports whether it did. Otherwise it returns the existing key,
// or nil if there are too many.
func (t *table) add(k *key, period int64, names []storage.Key, home string) (existing *key, made bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if existing = t.find(k.limit.ID, []byte(k.text)); existing != nil {
		return existing, false
	}
	if t.count.Load() >= t.max {
		return nil, false
	}
	t.bindLocked(k, period, names, home)
	t.count.Add(1)
	s := t.shardOf([]byte(k.text))
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keys[keyID{k.limit.ID, k.text}] = k
	return k, true
}

// bindLocked gives a key its names and their counts.
func (t *table) bindLocked(k *key, period int64, names []storage.Key, home string) {
	k.names = names
	k.period.Store(period)
	for _, key := range names {
		id := name{k.limit.ID, key}
		if t.names[id] == nil {
			t.names[id] = new(named)
		}
		t.names[id].key = k
	}
	t.refreshLocked(k, home)
}

// refreshLocked updates the units that others have admitted.
func (t *table) refreshLocked(k *key, home string) {
	var now known
	for _, key := range k.names {
		own, foreign := t.names[name{k.limit.ID, key}].counts.Split(home)
		now.siblings, now.foreign = region.Sum(now.siblings, own), region.Sum(now.foreign, foreign)
	}
	if len(now.siblings)+len(now.foreign) == 0 {
		k.known.Store(nil)
		return
	}
	k.known.Store(&now)
}

// all returns all keys.
func (t *table) all() (keys []*key) {
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.RLock()
		keys = slices.AppendSeq(keys, maps.Values(s.keys))
		s.mu.RUnlock()
	}
	return keys
}

// removeLocked removes a key that is dead.
func (t *table) removeLocked(k *key) {
	for _, key := range k.names {
		t.names[name{k.limit.ID, key}].key = nil
	}
	s := t.shardOf([]byte(k.text))
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.keys, keyID{k.limit.ID, k.text})
	t.count.Add(-1)
}
