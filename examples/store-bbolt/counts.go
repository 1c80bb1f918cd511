package bboltstore

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/limiter/reputation"
	"github.com/caddy-tally/caddy-tally/storage"
)

// Claim implements [storage.Store].
func (s *Store) Claim(ctx context.Context, term *storage.Term, claims []storage.Claim, grants []limiter.Grant) error {
	return s.answer(ctx, "claim", term, claims, grants, true)
}

// Probe implements [storage.Store].
func (s *Store) Probe(ctx context.Context, term *storage.Term, claims []storage.Claim, grants []limiter.Grant) error {
	return s.answer(ctx, "probe", term, claims, grants, false)
}

// answer answers claims, and keeps what they have changed if keep is true.
func (s *Store) answer(ctx context.Context, doing string, term *storage.Term, claims []storage.Claim,
	grants []limiter.Grant, keep bool) error {
	return s.within(ctx, doing, term, func(c *call) error {
		if err := cmp.Or(storage.CheckClaims(claims, grants), s.checkRoom(c)); err != nil {
			return err
		}
		usages := make(map[string]*usage) // those of the batch
		for i := range claims {
			claim := &claims[i]
			claim.Now = c.time.Now
			u := c.usage(usages, claim.ID, claim.Key)
			if claim.IsRenamed() {
				former := c.usage(usages, claim.ID, claim.Former)
				u.Merge(&claim.Limit, former.State, claim.Now)
				*former = usage{}
			}
			grants[i] = claim.Limit.Claim(&u.State, claim.Claim)
			u.settle(&claim.Limit, claim.Now)
		}
		for key, u := range usages {
			switch {
			case !keep:
			case u.isEmpty():
				c.remove(counts, []byte(key))
			default:
				c.put(counts, []byte(key), u.State, u.expires)
			}
		}
		return nil
	})
}

// usage is the usage of a limit by a key.
type usage struct {
	limiter.State
	expires int64
}

func (u *usage) isEmpty() bool { return len(u.Slots) == 0 && u.Bucket == (limiter.Bucket{}) }

// settle drops slots that don't count any more, and computes when nothing counts. With slots that is never
// earlier than before: in another time zone, a slot may begin and end later.
func (u *usage) settle(l *limiter.Limit, now int64) {
	u.Trim(l, now)
	expires := u.Expires(l, now)
	if l.CountsSlots() {
		expires = max(expires, u.expires)
	}
	u.expires = expires
}

// countKey returns the key of a row.
func countKey(id storage.LimitID, key storage.Key) []byte {
	return append(binary.BigEndian.AppendUint64(nil, uint64(id)), key[:]...)
}

// usage returns the usage of a key, which claims of one batch share. The slots of a damaged row are put in order.
func (c *call) usage(usages map[string]*usage, id storage.LimitID, key storage.Key) *usage {
	name := countKey(id, key)
	u := usages[string(name)]
	if u == nil {
		u = new(usage)
		u.expires, _ = read(c.Bucket(counts).Get(name), &u.State)
		for i := range u.Slots {
			u.Slots[i].Used = limiter.Clamp(u.Slots[i].Used)
		}
		slices.SortFunc(u.Slots, func(a, b limiter.Slot) int { return cmp.Compare(a.Index, b.Index) })
		usages[string(name)] = u
	}
	return u
}

// Records implements [storage.Store].
func (s *Store) Records(ctx context.Context, term *storage.Term, clients []storage.Client,
	records []reputation.Record) error {
	return s.within(ctx, "records", term, func(c *call) error {
		if err := storage.CheckRecords(len(clients), records); err != nil {
			return err
		}
		for i, client := range clients {
			records[i] = c.record(client, c.time.Now)
		}
		return nil
	})
}

// Punish implements [storage.Store].
func (s *Store) Punish(ctx context.Context, term *storage.Term, offenses []storage.Offense,
	records []reputation.Record) error {
	return s.within(ctx, "punish", term, func(c *call) error {
		if err := cmp.Or(storage.CheckRecords(len(offenses), records), s.checkRoom(c)); err != nil {
			return err
		}
		for i, o := range offenses {
			r := c.record(o.Client, o.At)
			r.Commit(o.Offense)
			c.keepRecord(o.Key, r)
			records[i] = r
		}
		return nil
	})
}

// record returns the record of a client at a time. It moves one under a former name.
func (c *call) record(client storage.Client, now int64) reputation.Record {
	r, _ := c.recordOf(client.Key, now)
	if !client.IsRenamed() {
		return r
	}
	if former, found := c.recordOf(client.Former, now); found {
		r = r.Merge(former)
		c.remove(clients, client.Former[:])
		c.keepRecord(client.Key, r)
	}
	return r
}

func (c *call) recordOf(key storage.Key, now int64) (r reputation.Record, found bool) {
	_, found = read(c.Bucket(clients).Get(key[:]), &r)
	r.Move(c.time.Shift)
	r.Clamp(now)
	return r, found
}

func (c *call) keepRecord(key storage.Key, r reputation.Record) {
	r.Move(-c.time.Shift)
	c.put(clients, key[:], r, r.Expires())
}

func (o Options) maxSize() int64 { return cmp.Or(o.MaxSize, 1<<30) }

// checkRoom returns an error if the file is full.
func (s *Store) checkRoom(c *call) error {
	if used := c.Size() - int64(s.db.Stats().FreeAlloc); used > s.maxSize {
		return fmt.Errorf(
			"the counts take %d bytes of the file, and may take %d: there is room again when some have expired",
			used, s.maxSize)
	}
	return nil
}
