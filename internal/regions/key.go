package regions

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/engine"
	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/limiter/region"
	"github.com/caddy-tally/caddy-tally/storage"
)

// key is a key of a limit that requests of this region use. It implements [engine.Foreign].
type key struct {
	regions *Regions
	limit   *engine.Limit // that regions agree on, without a raise
	text    string
	groups  region.Groups

	inForce atomic.Pointer[engine.Limit] // of the last request: the full one, or a raised one
	least   atomic.Int64                 // the smallest amount that a client of the key may have had

	period atomic.Int64          // period of the last lookup of its names
	known  atomic.Pointer[known] // units that others have admitted; nil if none
	behind atomic.Bool           // the next request charges the bucket with the level of known

	untold atomic.Bool // the store may count units of before the start that nobody has published

	names []storage.Key // guarded by table.mu: names in all groups that count

	mu    sync.Mutex
	own   region.Own // guarded by mu, like all below
	dirty bool       // it is waiting to be published
	dead  bool       // it isn't in any table
}

// known is the units of a key that other machines have admitted, by group. It is immutable.
type known struct {
	foreign  []limiter.Slot // in other regions
	siblings []limiter.Slot // in this region, by other machines or before the last start
}

// newKey returns the key of a debit, or nil if its limit stays regional.
func newKey(d *engine.Debit) *key {
	agreed := d.Limit
	if d.Raise != nil {
		agreed = d.Raise.Limit
	}
	groups, shared := region.GroupsOf(agreed.Rate)
	if !shared {
		return nil
	}
	k := &key{limit: agreed, text: string(d.Key), groups: groups}
	k.least.Store(agreed.Capacity())
	k.follow(d)
	return k
}

// follow notes the limit of a debit, which a raise may have changed.
func (k *key) follow(d *engine.Debit) {
	limit := d.Whole()
	if k.inForce.Load() == limit {
		return
	}
	k.inForce.Store(limit)
	least := min(k.least.Load(), limit.Capacity())
	if d.Scaling != nil {
		for _, level := range d.Scaling.Levels {
			least = min(least, level.Capacity())
		}
	}
	k.least.Store(least)
}

// periodOf returns the number of the period that determines the key's name in a group.
func (k *key) periodOf(group int64) int64 { return k.groups.Expires(group) / k.groups.Period() }

// periodAt returns the period of the group at now.
func (k *key) periodAt(now int64) int64 { return k.periodOf(k.groups.At(now)) }

// others returns the units that others have admitted.
func (k *key) others() known {
	if units := k.known.Load(); units != nil {
		return *units
	}
	return known{}
}

// isKnown reports whether others have admitted any units.
func (k *key) isKnown() bool {
	return k.known.Load() != nil
}

// isForeign reports whether other regions have admitted any units.
func (k *key) isForeign() bool {
	return len(k.others().foreign) > 0
}

// Units implements [engine.Foreign]. It returns 0 for a token bucket, which is charged with the
// units instead.
func (k *key) Units(now int64) int64 {
	if k.groups.IsBucket() {
		return 0
	}
	return k.groups.InForce(k.others().foreign, now)
}

// Retry implements [engine.Foreign]. For a token bucket the store determines it.
func (k *key) Retry(amount, cost, now int64) time.Duration {
	if k.groups.IsBucket() {
		return limiter.Never
	}
	k.mu.Lock()
	units := k.own.Units()
	k.mu.Unlock()
	others := k.others()
	units = region.Sum(units, others.foreign, others.siblings)
	return k.groups.Retry(units, amount, cost, now)
}

// isUsed reports whether this machine has admitted units that still count.
func (k *key) isUsed(now int64) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.groups.InForce(k.own.Units(), now) > 0
}

// admit counts units that were admitted here. ok is false if the key isn't in any table any more.
// dirty reports whether the key now has to be published.
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

// unpublished returns the units of the key to publish, given the number of other machines, and of
// machines in this region. From them, machines that share a store learn which ones use a token
// bucket.
func (k *key) unpublished(now int64, others, machines int) []limiter.Slot {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.dirty = false
	units := k.own.Unpublished()
	switch {
	case len(units) == 0 || others == 0:
		return nil
	case k.isForeign() || k.groups.IsBucket() && machines > 1 ||
		region.Publishes(k.groups.InForce(k.own.Units(), now), k.least.Load(), others):
		return units
	}
	return nil
}
