package engine // operators

import (
	"bytes"
	"cmp"
	"hash/maphash"
	"time"

	"github.com/caddy-tally/caddy-tally/limiter/reputation"
	"github.com/caddy-tally/caddy-tally/storage"
)

// KeyOrder is the order of a list of keys, the highest first.
type KeyOrder uint8

// The orders.
const (
	ByUsed    KeyOrder = iota // the part of the limit that is used
	ByRefused                 // the requests that were refused
)

// KeysQuery says which keys to list.
type KeysQuery struct {
	// Match reports whether a key of a limit is listed. It must not change the key. Nil means that all keys are listed.
	Match func(id storage.LimitID, key []byte) bool
	// Blocked restricts the list to keys with a refused cost at the moment.
	Blocked bool
	// Penalty returns the penalty of a limit, or nil. Nil means that none has one.
	Penalty func(id storage.LimitID) *Penalty
	Order   KeyOrder
	// N is the maximum number of listed keys. Without a positive N none are listed.
	N int
}

// KeyState is the state of one key of one limit in memory. Units held by other processes count as
// used as far as the store has reported them.
type KeyState struct {
	// Limit is the limit as it was last applied to the key.
	Limit *Limit
	// Key is the full text of the key.
	Key string
	// Used is the number of used units, and Left that of unused ones.
	Used, Left int64
	// Refused is how many requests the key has refused since it entered memory. It is exact up to
	// 4096. Beyond, its standard error is below 1.2 %, and it ends near 2^32.
	Refused int64
	// Blocked is for how much longer some cost is refused, or 0.
	Blocked time.Duration

	text []byte  // of the key, as in the cell
	part float64 // the used part of the limit
}

// Keys lists keys in memory. It visits every key, and locks one at a time.
func (e *Engine) Keys(q KeysQuery) []KeyState {
	compare := byUsed
	if q.Order == ByRefused {
		compare = byRefused
	}
	now := e.clock.Now()
	list := firstOf(e.table, q.N, compare, func(c cell, last *KeyState) (k KeyState, ok bool) {
		penalty := time.Duration(0)
		if q.Penalty != nil && c.client() == nil {
			penalty = e.table.penaltyOf(q.Penalty(c.ID), c.text(), now)
		}
		switch {
		case c.client() != nil, q.Match != nil && !q.Match(c.ID, c.text()),
			q.Blocked && !c.blocks().anyAt(now) && penalty == 0:
			return k, false
		case last != nil && q.Order == ByRefused && c.refused.count() < last.Refused:
			return k, false
		}
		k, ok = c.state(now)
		k.Blocked = max(k.Blocked, penalty)
		return k, ok
	})
	for i := range list {
		list[i].Key = string(list[i].text)
	}
	return list
}

// KeyCounts returns the number of keys in memory for each limit. It visits each key once.
func (e *Engine) KeyCounts() map[storage.LimitID]int64 {
	counts := make(map[storage.LimitID]int64)
	e.table.each(func(c cell) {
		if c.client() != nil {
			return
		}
		c = c.lockPresent()
		defer c.Unlock()
		if c.limit() != nil && !c.Dead() {
			counts[c.ID]++
		}
	})
	return counts
}

// state returns the state of the key at now, without its text as a string. ok reports whether there
// is one.
func (c cell) state(now int64) (k KeyState, ok bool) {
	c = c.lockPresent()
	defer c.Unlock()
	if c.limit() == nil || c.Dead() {
		return KeyState{}, false
	}
	lease := c.leaseLocked()
	left := lease.Quota(&c.limit().Rate, now).Remaining
	k = KeyState{Limit: c.limit(), Used: c.limit().Capacity() - left, Left: left, Refused: c.refused.count(),
		text: c.text()}
	k.part = float64(k.Used) / float64(max(c.limit().Capacity(), 1))
	for b := c.blocks(); b != nil; b = b.older {
		k.Blocked = max(k.Blocked, time.Duration(b.until-now))
	}
	return k, true
}

func byUsed(a, b *KeyState) int {
	if order := cmp.Compare(b.part, a.part); order != 0 {
		return order
	}
	return byName(a, b)
}

func byRefused(a, b *KeyState) int {
	if order := cmp.Compare(b.Refused, a.Refused); order != 0 {
		return order
	}
	return byName(a, b)
}

// byName orders keys that are otherwise equal.
func byName(a, b *KeyState) int {
	return cmp.Or(cmp.Compare(a.Limit.ID, b.Limit.ID), byHash(a.text, b.text))
}

// hashSeed differs in each process.
var hashSeed = maphash.MakeSeed()

// byHash orders keys such that their places in a list tell nothing of them: neighbours' addresses would bracket
// one that is masked.
func byHash(a, b []byte) int {
	return cmp.Or(cmp.Compare(maphash.Bytes(hashSeed, a), maphash.Bytes(hashSeed, b)), bytes.Compare(a, b))
}

// NameOf returns the current name of a key at rest: a key of limit, or a client if limit is nil. An
// error is one of Options.Name.
func (e *Engine) NameOf(limit *Limit, key string) (Name, error) {
	id, retention := namesOf(limit)
	now, _ := e.Lasting()
	return e.opts.Name(id, key, retention, now)
}

// namesOf returns the scope and the retention of the names of a limit's keys, or of clients if limit
// is nil.
func namesOf(limit *Limit) (storage.LimitID, time.Duration) {
	if limit == nil {
		return clientsID, clientRetention
	}
	return limit.ID, limit.Retention()
}

// KeyNamed returns the text of the key with a current name in the store, if memory holds it: a key
// of limit, or a client if limit is nil.
func (e *Engine) KeyNamed(limit *Limit, name storage.Key) (key string, ok bool) {
	id, _ := namesOf(limit)
	now, _ := e.Lasting()
	names := namesIn([]storage.Reset{{Limit: id, Key: name, At: now}})
	e.table.each(func(c cell) {
		if ok || !names.mayHave(c) {
			return
		}
		if found, _ := names.have(c, e.opts.Name); found {
			key, ok = c.key(), true
		}
	})
	return key, ok
}

// ClientsQuery says which clients to list.
type ClientsQuery struct {
	// Match reports whether a client is listed, by its key. It must not change the key. Nil means that all clients are
	// listed.
	Match func(key []byte) bool
	// Banned restricts the list to clients that are banned at the moment.
	Banned bool
	// N is the maximum number of listed clients. Without a positive N none are listed.
	N int
}

// ClientRecord is a client with offenses.
type ClientRecord struct {
	// Key is the full text that identifies the client.
	Key string
	// Record is the client's record.
	Record reputation.Record
	// Banned is how much longer the client is banned, or 0.
	Banned time.Duration
}

// Clients lists clients in memory that have offenses: first the ones banned for longest, then the
// ones with the lowest scores.
func (e *Engine) Clients(q ClientsQuery) []ClientRecord {
	now := e.clock.Now()
	compare := func(a, b *ClientRecord) int {
		return cmp.Or(cmp.Compare(b.Banned, a.Banned), cmp.Compare(a.Record.Score(now), b.Record.Score(now)),
			byHash([]byte(a.Key), []byte(b.Key)))
	}
	return firstOf(e.table, q.N, compare, func(c cell, _ *ClientRecord) (r ClientRecord, ok bool) {
		st := c.client()
		if st == nil || c.ID != clientsID || q.Banned && !st.bannedAt(now) || q.Match != nil && !q.Match(c.text()) {
			return r, false
		}
		record := st.last()
		if record == nil || record.Expires() <= now {
			return r, false
		}
		return ClientRecord{Key: c.key(), Record: *record, Banned: max(time.Duration(record.Until-now), 0)}, true
	})
}

// last returns the client's record, or else the offenses noted before it was read.
func (st *clientState) last() *reputation.Record {
	noted := st.noted.Load() // first, as in bannedUntil
	if record := st.record.Load(); record != nil {
		return record
	}
	return noted
}
