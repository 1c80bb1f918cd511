package regions

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/engine"
	"github.com/caddy-tally/caddy-tally/limiter/reputation"
	"github.com/caddy-tally/caddy-tally/storage"
	"github.com/caddy-tally/caddy-tally/storage/exchange"
)

const (
	maxBans     = 100_000 // clients with known bans or lifts
	publishBans = 1000    // rows per call, with a few more at most
)

// bans holds what all regions know of bans and of their lifts, in the time of the exchange. The clients'
// records in the stores follow it when the clients send requests.
//
// Invariant: a region's ban that is made after a lift is known has a later time than the lift, and a lift no
// earlier time than the known bans, however much clocks differ.
type bans struct {
	urgent chan struct{} // has a value while there is something to publish
	any    atomic.Bool   // whether anything is known
	lifted atomic.Bool   // whether any lift is known

	mu    sync.RWMutex
	known map[storage.Key]*standing // guarded by mu; at most maxBans
}

// standing is what is known of the bans of one client.
type standing struct {
	rows  []exchange.Ban // one for each region
	dirty bool           // to be published
}

// of returns the row of a region, adding it if necessary.
func (s *standing) of(key storage.Key, region string) *exchange.Ban {
	at := slices.IndexFunc(s.rows, func(b exchange.Ban) bool { return b.Region == region })
	if at < 0 {
		at = len(s.rows)
		s.rows = append(s.rows, exchange.Ban{Key: key, Region: region})
	}
	return &s.rows[at]
}

// sum returns the latest lift, and the latest time and the latest end of the bans after it.
func (s *standing) sum() (sum exchange.Ban) {
	for _, b := range s.rows {
		sum.Lifted, sum.Keep = max(sum.Lifted, b.Lifted), max(sum.Keep, b.Keep)
	}
	for _, b := range s.rows {
		if b.At > sum.Lifted {
			sum.At, sum.Until = max(sum.At, b.At), max(sum.Until, b.Until)
		}
	}
	return sum
}

// latest returns the latest time of a ban, lifted or not.
func (s *standing) latest() (at int64) {
	for _, b := range s.rows {
		at = max(at, b.At)
	}
	return at
}

// edit changes the standing of a client, if there is room for it, and has it published at once.
func (b *bans) edit(key storage.Key, change func(s *standing)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.atLocked(key)
	if s == nil {
		return
	}
	change(s)
	s.dirty = true
	select {
	case b.urgent <- struct{}{}:
	default:
	}
}

// atLocked returns the standing of a client, adding it if there is room, or nil.
func (b *bans) atLocked(key storage.Key) *standing {
	s := b.known[key]
	if s == nil && len(b.known) < maxBans {
		if b.known == nil {
			b.known = make(map[storage.Key]*standing)
		}
		s = new(standing)
		b.known[key] = s
		b.any.Store(true)
	}
	return s
}

// sum returns what is known of a client.
func (b *bans) sum(key storage.Key) (sum exchange.Ban, known bool) {
	b.mu.RLock()
	defer b.mu.RUnlock()
	if s := b.known[key]; s != nil {
		return s.sum(), true
	}
	return sum, false
}

// takeUnpublished returns some of the rows to publish.
func (b *bans) takeUnpublished() (list []exchange.Ban) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, s := range b.known {
		if s.dirty && len(list) < publishBans {
			list, s.dirty = append(list, s.rows...), false
		}
	}
	return list
}

// unpublish notes that rows were not published, or that none is if the list is nil.
func (b *bans) unpublish(list []exchange.Ban) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, sent := range list {
		if s := b.known[sent.Key]; s != nil {
			s.dirty = true
		}
	}
	if list == nil {
		for _, s := range b.known {
			s.dirty = true
		}
	}
}

// learn stores rows of the exchange. A lift by the home region is kept until all bans have ended.
func (b *bans) learn(list []exchange.Ban, home string, now int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, news := range list {
		if news.Keep <= now {
			continue
		}
		s := b.atLocked(news.Key)
		if s == nil {
			continue
		}
		most, row := now+int64(reputation.MaxBan), s.of(news.Key, news.Region)
		if news.At > row.At {
			row.At, row.Until = news.At, min(news.Until, most)
		}
		row.Lifted, row.Keep = max(row.Lifted, news.Lifted), max(row.Keep, min(news.Keep, most))
		sum := s.sum()
		for i := range s.rows {
			if own := &s.rows[i]; own.Region == home && own.Lifted > 0 && own.Keep < sum.Keep {
				own.Keep, s.dirty = sum.Keep, true
			}
		}
		if sum.Lifted > 0 {
			b.lifted.Store(true)
		}
	}
}

// trim forgets bans that have ended.
func (b *bans) trim(now int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	lifted := false
	for key, s := range b.known {
		if sum := s.sum(); sum.Keep <= now {
			delete(b.known, key)
		} else if sum.Lifted > 0 {
			lifted = true
		}
	}
	b.any.Store(len(b.known) > 0)
	b.lifted.Store(lifted)
}

// exchangeTime converts a time of this region to the time of the exchange.
func (r *Regions) exchangeTime(now int64) int64 { return now + r.apart.Load() }

// followTime notes the time of the exchange, which it read between two times of this region. What was
// noted before the first time moves with it.
func (r *Regions) followTime(reading, sent, received int64) {
	r.bans.mu.Lock()
	defer r.bans.mu.Unlock()
	apart, was := reading-sent-(received-sent)/2, r.apart.Load()
	if r.id != 0 && max(apart-was, was-apart) <= received-sent {
		return // it isn't known better than before
	}
	r.apart.Store(apart)
	for _, s := range r.bans.known {
		for i := range s.rows {
			for _, at := range []*int64{&s.rows[i].At, &s.rows[i].Until, &s.rows[i].Lifted, &s.rows[i].Keep} {
				if r.id == 0 && *at != 0 {
					*at += apart
				}
			}
		}
	}
}

// Banned notes that a client was banned here, and why. It notifies other regions at once.
func (r *Regions) Banned(client []byte, reason reputation.Reason, until int64) {
	if reason == reputation.Crowded || reason == reputation.Inherited {
		return // it concerns a network, or was taken over
	}
	if key, ok := r.nameOfBanned(client); ok {
		r.banned(key, r.opts.Engine.Now(), until)
	}
}

// banned notes a ban of this region.
func (r *Regions) banned(key storage.Key, at, until int64) {
	r.bans.edit(key, func(s *standing) {
		at, until := r.exchangeTime(at), r.exchangeTime(until)
		own := s.of(key, r.me.Region)
		own.At, own.Until, own.Keep = max(at, s.sum().Lifted+1, own.At+1), until, max(own.Keep, until)
	})
}

// LiftLasts returns for how long an operator's lift of a client's bans must be remembered: until the known
// bans have ended, of which one lasts for some time here. It returns 0 if no ban is known.
func (r *Regions) LiftLasts(client []byte, banned time.Duration) time.Duration {
	key, _ := r.nameOfBanned(client)
	sum, _ := r.bans.sum(key)
	return max(banned, time.Duration(sum.Keep-r.exchangeTime(r.opts.Engine.Now())), 0)
}

// BannedElsewhere reports whether a client is banned in some region.
func (r *Regions) BannedElsewhere(client []byte) bool {
	key, _ := r.nameOfBanned(client)
	sum, _ := r.bans.sum(key)
	return sum.Until > r.exchangeTime(r.opts.Engine.Now())
}

// Lifted notes that an operator has lifted the bans of a client, some of which would have lasted for some
// time. It notifies other regions at once. If only the client's name in the store is known, its next request does.
func (r *Regions) Lifted(client []byte, lasts time.Duration) {
	if key, ok := r.nameOfBanned(client); ok && lasts > 0 && len(client) > 0 {
		r.lifted(key, r.opts.Engine.Now(), lasts)
	}
}

func (r *Regions) lifted(key storage.Key, at int64, lasts time.Duration) {
	r.bans.edit(key, func(s *standing) {
		at := r.exchangeTime(at)
		own := s.of(key, r.me.Region)
		own.Lifted, own.Keep = max(at, s.latest(), own.Lifted), max(own.Keep, at+int64(lasts))
		r.bans.lifted.Store(true)
	})
}

// followBans makes the records of a client and its parents follow the bans and lifts of all regions.
func (r *Regions) followBans(ctx context.Context, client *engine.Client, now int64) {
	if !r.bans.any.Load() {
		return
	}
	for ; client != nil; client = client.Parent {
		record := r.opts.Engine.CachedRecord(*client)
		if record != nil && record.Banned(now) && !r.bans.lifted.Load() {
			continue
		}
		key, ok := r.nameOfBanned(client.Key)
		if !ok {
			return
		}
		sum, known := r.bans.sum(key)
		if !known || sum.Keep <= r.exchangeTime(now) {
			continue
		}
		if record == nil {
			r.opts.Engine.Decide(ctx, client, nil) // reads it
			record = r.opts.Engine.CachedRecord(*client)
		}
		if record == nil {
			record = new(reputation.Record)
		}
		r.followBan(client, key, record, sum)
	}
}

// followBan makes a client's record follow what is known of its bans.
func (r *Regions) followBan(client *engine.Client, key storage.Key, record *reputation.Record, sum exchange.Ban) {
	now := r.opts.Engine.Now()
	at, lasts := r.exchangeTime(record.At), time.Duration(sum.Keep-r.exchangeTime(now))
	isBanned, isElsewhere := record.Banned(now), sum.Until > r.exchangeTime(now)
	switch lift := record.Last(reputation.Lifted); {
	case isBanned && record.Last(reputation.Crowded) > 0: // it is a network, whose bans are of one region
	case isBanned && sum.At == 0 && (at <= sum.Lifted || isInherited(record)):
		r.opts.Engine.Lift(client, lasts)
	case isBanned || !isElsewhere:
	case lift > 0 && r.exchangeTime(lift) >= sum.At: // the other regions haven't heard of it yet
		r.lifted(key, lift, lasts)
	default:
		lasts = time.Duration(sum.Until - r.exchangeTime(now))
		r.opts.Engine.Punish(client, reputation.Offense{
			Violation: reputation.Violation{At: now, Reason: reputation.Inherited},
			Ban:       reputation.Ban{After: 1, Within: time.Second, For: lasts, Most: lasts},
		})
	}
}

// isInherited reports whether the last ban of a record was taken over from another region.
func isInherited(record *reputation.Record) bool {
	last := len(record.Past) - 1
	return last >= 0 && record.Past[last].Reason == reputation.Inherited
}

// publishBan publishes the ban that refuses a client for the first time since the start, if the other regions
// don't know it: the process that banned the client has ended before it could publish it.
func (r *Regions) publishBan(client *engine.Client, now int64) {
	for ; client != nil; client = client.Parent {
		record := r.opts.Engine.CachedRecord(*client)
		if record == nil || !record.Banned(now) || isInherited(record) || record.Last(reputation.Crowded) > 0 {
			continue
		}
		key, ok := r.nameOfBanned(client.Key)
		if sum, _ := r.bans.sum(key); ok && sum.At == 0 && r.exchangeTime(record.At) > sum.Lifted {
			r.banned(key, record.At, record.Until)
		}
	}
}
