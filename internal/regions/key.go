package regions

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/limiter/engine"
	"github.com/caddy-tally/caddy-tally/limiter/region"
	"github.com/caddy-tally/caddy-tally/storage"
)

// key is one key of one limit that requests of this region have come for. It implements
// [engine.Elsewhere].
type key struct {
	of     *Regions
	limit  *engine.Limit // the full one
	least  int64         // the smallest amount that a client of the key may have
	text   string
	groups region.Groups

	period atomic.Int64          // in which its names were looked up last
	known  atomic.Pointer[known] // what others have admitted; nil if nothing
	behind atomic.Bool           // a bucket is to be charged with the level of that, with the next request

	names []storage.Key // guarded by table.mu: those of all groups that count

	mu    sync.Mutex
	own   region.Own // guarded by mu, like all below
	dirty bool       // it is among those that are to be published
	dead  bool       // it is in no table
}

// known is what other machines have admitted of a key, by group. It is immutable.
type known struct {
	foreign  []limiter.Slot // in other regions
	siblings []limiter.Slot // in this one, by other machines or before the last start
}

// newKey returns the key of a debit, or nil if its limit stays regional.
func newKey(d *engine.Debit) *key {
	groups, shared := region.GroupsOf(d.Limit.Limit)
	if !shared {
		return nil
	}
	k := &key{limit: d.Limit, least: d.Limit.Capacity(), text: string(d.Key), groups: groups}
	if d.Scaling != nil {
		for _, level := range d.Scaling.Levels {
			k.least = min(k.least, level.Capacity())
		}
	}
	return k
}

// periodOf returns the number of the period whose name the key has in a group.
func (k *key) periodOf(group int64) int64 { return k.groups.Expires(group) / k.groups.Period() }

// periodAt returns the same of the group at now.
func (k *key) periodAt(now int64) int64 { return k.periodOf(k.groups.At(now)) }

// elsewhere returns what others have admitted of the key.
func (k *key) elsewhere() known {
	if is := k.known.Load(); is != nil {
		return *is
	}
	return known{}
}

// isKnown reports whether others have admitted anything of the key.
func (k *key) isKnown() bool {
	return k.known.Load() != nil
}

// isForeign reports whether other regions have admitted anything of the key.
func (k *key) isForeign() bool {
	return len(k.elsewhere().foreign) > 0
}

// Units implements [engine.Elsewhere]. A token bucket is charged with them instead.
func (k *key) Units(now int64) int64 {
	if k.groups.IsBucket() {
		return 0
	}
	return k.groups.InForce(k.elsewhere().foreign, now)
}

// Retry implements [engine.Elsewhere]. Of a token bucket the store knows it.
func (k *key) Retry(amount, cost, now int64) time.Duration {
	if k.groups.IsBucket() {
		return limiter.Never
	}
	k.mu.Lock()
	units := k.own.Units()
	k.mu.Unlock()
	others := k.elsewhere()
	units = region.Sum(units, others.foreign, others.siblings)
	return k.groups.Retry(units, amount, cost, now)
}

// isUsed reports whether this machine has admitted anything of the key that still counts.
func (k *key) isUsed(now int64) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.groups.InForce(k.own.Units(), now) > 0
}

// admit counts units that were admitted here. It returns false if the key is in no table any
// more, and whether it has become one that is to be published.
func (k *key) admit(units, now int64) (ok, dirty bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.dead {
		return false, false
	}
	k.own.Add(k.groups.At(now), units)
	dirty, k.dirty = !k.dirty, true
	return true, dirty
}

// unpublished returns what is to be published of the key, where there are so many other
// machines, and so many in this region. Those that share a store know by it who uses a token
// bucket.
func (k *key) unpublished(now int64, others, machines int) []limiter.Slot {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.dirty = false
	units := k.own.Unpublished()
	switch {
	case len(units) == 0 || others == 0:
		return nil
	case k.isForeign() || k.groups.IsBucket() && machines > 1 || region.Publishes(k.groups.InForce(k.own.Units(), now), k.least, others):
		return units
	}
	return nil
}
