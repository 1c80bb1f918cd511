package regions

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddy-tally/caddy-tally/exchange"
	"github.com/caddy-tally/caddy-tally/limiter/engine"
	"github.com/caddy-tally/caddy-tally/limiter/reputation"
	"github.com/caddy-tally/caddy-tally/storage"
)

const (
	maxBans     = 100_000 // of other regions that are known, and own ones that wait or are published
	publishBans = 1000    // in one call
)

// bans is which clients other regions have banned, and which this one has.
type bans struct {
	urgent chan struct{} // has a value when there is something to publish
	any    atomic.Bool   // whether there are foreign ones

	mu      sync.Mutex
	foreign map[storage.Key]*foreignBan // guarded by mu, like the next
	own     map[storage.Key]*ownBan
}

type foreignBan struct {
	until   int64
	applied int64 // the end up to which it was taken over
}

type ownBan struct {
	until     int64
	published bool
}

// Banned notes that a client was banned here, and why. Other regions are told at once.
func (r *Regions) Banned(client []byte, reason reputation.Reason, until int64) {
	if reason == reputation.Crowded || reason == reputation.Inherited {
		return // it is of a network, or was taken over
	}
	key, ok := r.nameOfBanned(client)
	if ok && r.bans.add(key, until) {
		select {
		case r.bans.urgent <- struct{}{}:
		default:
		}
	}
}

func (b *bans) add(key storage.Key, until int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.own == nil {
		b.own = make(map[storage.Key]*ownBan)
	}
	is := b.own[key]
	if is == nil {
		if len(b.own) >= maxBans {
			return false
		}
		is = new(ownBan)
		b.own[key] = is
	}
	if until <= is.until {
		return false
	}
	is.until, is.published = until, false
	return true
}

// unpublished returns some of the bans that are to be published.
func (b *bans) unpublished(region string) (list []exchange.Ban) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for key, is := range b.own {
		if !is.published && len(list) < publishBans {
			list = append(list, exchange.Ban{Key: key, Until: is.until, Region: region})
		}
	}
	return list
}

// published notes that bans were published.
func (b *bans) published(list []exchange.Ban) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, of := range list {
		if is := b.own[of.Key]; is != nil && is.until == of.Until {
			is.published = true
		}
	}
}

func (b *bans) publishAgain() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, is := range b.own {
		is.published = false
	}
}

// learn takes the bans of other regions into account.
func (b *bans) learn(list []exchange.Ban, home string, now int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, of := range list {
		if of.Region == home || of.Until <= now {
			continue
		}
		if b.foreign == nil {
			b.foreign = make(map[storage.Key]*foreignBan)
		}
		if b.foreign[of.Key] == nil {
			if len(b.foreign) >= maxBans {
				continue
			}
			b.foreign[of.Key] = new(foreignBan)
		}
		b.foreign[of.Key].until = max(b.foreign[of.Key].until, min(of.Until, now+int64(reputation.MaxBan)))
	}
	b.any.Store(len(b.foreign) > 0)
}

// due returns when the ban of a client by another region ends, if that is still to be taken over;
// otherwise 0. It is, once.
func (b *bans) due(key storage.Key, now int64) (until int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	is := b.foreign[key]
	if is == nil || is.until <= now || is.applied >= is.until {
		return 0
	}
	is.applied = is.until
	return is.until
}

// trim forgets bans that have ended.
func (b *bans) trim(now int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for key, is := range b.foreign {
		if is.until <= now {
			delete(b.foreign, key)
		}
	}
	for key, is := range b.own {
		if is.until <= now {
			delete(b.own, key)
		}
	}
	b.any.Store(len(b.foreign) > 0)
}

// banAsElsewhere bans a client that another region has banned, until the same time. An operator
// who lifts such a ban here has it lifted here.
func (r *Regions) banAsElsewhere(client *engine.Client, now int64) {
	if !r.bans.any.Load() {
		return
	}
	for ; client != nil; client = client.Parent {
		if record := r.opts.Engine.CachedRecord(*client); record != nil && record.Banned(now) {
			continue
		}
		key, ok := r.nameOfBanned(client.Key)
		if !ok {
			return
		}
		until := r.bans.due(key, now)
		if until == 0 {
			continue
		}
		lasts := time.Duration(until - now)
		r.opts.Engine.Punish(client, reputation.Offense{
			Violation: reputation.Violation{At: now, Reason: reputation.Inherited},
			Ban:       reputation.Ban{After: 1, Within: time.Second, For: lasts, Most: lasts},
		})
	}
}
