package regions

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/engine"
	"github.com/caddy-tally/caddy-tally/limiter/reputation"
	"github.com/caddy-tally/caddy-tally/storage"
	"github.com/caddy-tally/caddy-tally/storage/exchange"
)

const (
	maxBans     = 100_000 // known bans of other regions, and own bans that are pending or published
	publishBans = 1000    // per call
)

// bans holds the bans of other regions and of this one.
type bans struct {
	urgent chan struct{} // has a value while there are bans to publish
	any    atomic.Bool   // whether there are foreign bans

	mu      sync.Mutex
	foreign map[storage.Key]*foreignBan // guarded by mu, like the next
	own     map[storage.Key]*ownBan
}

type foreignBan struct {
	until   int64
	applied int64 // the end of the ban when it was last taken over
}

type ownBan struct {
	until     int64
	published bool
}

// Banned notes that a client was banned here, and why. It notifies other regions at once.
func (r *Regions) Banned(client []byte, reason reputation.Reason, until int64) {
	if reason == reputation.Crowded || reason == reputation.Inherited {
		return // it concerns a network, or was taken over
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
	ban := b.own[key]
	if ban == nil {
		if len(b.own) >= maxBans {
			return false
		}
		ban = new(ownBan)
		b.own[key] = ban
	}
	if until <= ban.until {
		return false
	}
	ban.until, ban.published = until, false
	return true
}

// unpublished returns some of the bans to publish.
func (b *bans) unpublished(region string) (list []exchange.Ban) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for key, ban := range b.own {
		if !ban.published && len(list) < publishBans {
			list = append(list, exchange.Ban{Key: key, Until: ban.until, Region: region})
		}
	}
	return list
}

// published notes that bans were published.
func (b *bans) published(list []exchange.Ban) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, sent := range list {
		if ban := b.own[sent.Key]; ban != nil && ban.until == sent.Until {
			ban.published = true
		}
	}
}

func (b *bans) publishAgain() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, ban := range b.own {
		ban.published = false
	}
}

// learn stores the bans of other regions.
func (b *bans) learn(list []exchange.Ban, home string, now int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, ban := range list {
		if ban.Region == home || ban.Until <= now {
			continue
		}
		if b.foreign == nil {
			b.foreign = make(map[storage.Key]*foreignBan)
		}
		if b.foreign[ban.Key] == nil {
			if len(b.foreign) >= maxBans {
				continue
			}
			b.foreign[ban.Key] = new(foreignBan)
		}
		b.foreign[ban.Key].until = max(b.foreign[ban.Key].until, min(ban.Until, now+int64(reputation.MaxBan)))
	}
	b.any.Store(len(b.foreign) > 0)
}

// due returns when another region's ban of a client ends, if it has yet to be taken over, and marks
// it as taken over. Otherwise it returns 0.
func (b *bans) due(key storage.Key, now int64) (until int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	ban := b.foreign[key]
	if ban == nil || ban.until <= now || ban.applied >= ban.until {
		return 0
	}
	ban.applied = ban.until
	return ban.until
}

// trim forgets bans that have ended.
func (b *bans) trim(now int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for key, ban := range b.foreign {
		if ban.until <= now {
			delete(b.foreign, key)
		}
	}
	for key, ban := range b.own {
		if ban.until <= now {
			delete(b.own, key)
		}
	}
	b.any.Store(len(b.foreign) > 0)
}

// banAsElsewhere bans a client that another region has banned, until the same time. An operator can
// lift such a ban here.
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
