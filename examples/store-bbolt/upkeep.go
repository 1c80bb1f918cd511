package bboltstore

import (
	"context"
	"slices"

	bolt "go.etcd.io/bbolt"

	"github.com/caddy-tally/caddy-tally/limiter/reputation"
	"github.com/caddy-tally/caddy-tally/storage"
)

// step is how many rows a step of a sweep looks at, and a page of a list has.
const step = 1000

// Sweep implements [storage.Store]. It goes through the buckets in the order of keys.
func (s *Store) Sweep(ctx context.Context, term *storage.Term) (done storage.Swept, err error) {
	err = s.within(ctx, "sweep", term, func(c *call) error {
		at := &s.db.sweeping
		bucket, now := swept[at.bucket].name, c.time.Now
		if swept[at.bucket].unset {
			now -= c.time.Shift
		}
		keys, expired := page(c.Tx, bucket, at.after,
			func(_, row []byte) bool { return len(row) < 8 || expiresOf(row) <= now })
		for _, key := range expired {
			c.remove(bucket, key)
		}
		if at.after = nil; len(keys) == step {
			at.after = keys[step-1]
		} else {
			at.bucket = (at.bucket + 1) % len(swept)
		}
		done = storage.Swept{Rows: int64(len(expired)), More: at.bucket > 0 || at.after != nil}
		return nil
	})
	return done, err
}

// page returns the keys of the next rows of a bucket, and of those that are selected.
func page(tx *bolt.Tx, bucket, after []byte, selects func(key, row []byte) bool) (keys, selected [][]byte) {
	cursor := tx.Bucket(bucket).Cursor()
	for key, row := cursor.Seek(append(slices.Clone(after), 0)); key != nil &&
		len(keys) < step; key, row = cursor.Next() {
		key = slices.Clone(key) // bbolt's is valid until the next change
		keys = append(keys, key)
		if selects(key, row) {
			selected = append(selected, key)
		}
	}
	return keys, selected
}

// Banned implements [storage.Store].
func (s *Store) Banned(ctx context.Context, now int64, most int) (map[storage.Key]reputation.Record, error) {
	banned := make(map[storage.Key]reputation.Record)
	for keys := make([][]byte, step); len(keys) == step; {
		after := keys[step-1]
		err := s.look(ctx, "bans", func(tx *bolt.Tx) error {
			keys, _ = page(tx, clients, after, func(key, row []byte) bool {
				var r reputation.Record
				if _, found := read(row, &r); found && r.Banned(now) && len(banned) < most &&
					len(key) == len(storage.Key{}) {
					r.Clamp(now)
					banned[storage.Key(key)] = r
				}
				return false
			})
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return banned, nil
}

// Reset implements [storage.Store].
func (s *Store) Reset(ctx context.Context, term *storage.Term, wanted []storage.Reset) error {
	return s.within(ctx, "reset", term, func(c *call) error {
		known := make(map[int64]storage.Reset)
		for _, r := range resetsAfter(c.Tx, 0) {
			known[r.ID] = r
		}
		for i := range wanted {
			r := &wanted[i]
			if before, again := known[r.ID]; again {
				r.Number, r.At, r.Found = before.Number, before.At, before.Found
				continue
			}
			c.time.Resets++
			r.Number, r.At = c.time.Resets, c.time.Now-c.time.Shift
			r.Found = c.forget(r, r.Key)
			if r.Former != (storage.Key{}) {
				r.Found = c.forget(r, r.Former) || r.Found
			}
			known[r.ID] = *r
			c.put(resets, number(r.Number), r, r.At+int64(storage.KeepResets))
			c.remove(resets, number(r.Number-storage.MaxResets))
		}
		term.Time.Resets = c.time.Resets
		return nil
	})
}

// forget removes what a reset is about, under one name, and reports whether there was anything.
func (c *call) forget(r *storage.Reset, name storage.Key) bool {
	if r.Client {
		return c.remove(clients, name[:])
	}
	return c.remove(counts, countKey(r.Limit, name))
}

// Resets implements [storage.Store].
func (s *Store) Resets(ctx context.Context, after int64) (known storage.Resets, err error) {
	err = s.look(ctx, "resets", func(tx *bolt.Tx) error {
		var t storage.TimeRecord
		read(tx.Bucket(about).Get([]byte("time")), &t)
		known.Newest, known.List = t.Resets, resetsAfter(tx, after)
		known.Lost = int64(len(known.List)) != known.Newest-after
		return nil
	})
	return known, err
}

func resetsAfter(tx *bolt.Tx, after int64) (list []storage.Reset) {
	cursor := tx.Bucket(resets).Cursor()
	for key, row := cursor.Seek(number(after + 1)); key != nil; key, row = cursor.Next() {
		var r storage.Reset
		if _, found := read(row, &r); found {
			list = append(list, r)
		}
	}
	return list
}

// trimEvery is how many acts are added to a list before it is cut to its bound again.
const trimEvery = 256

// Audit implements [storage.Auditor].
func (s *Store) Audit(ctx context.Context, log storage.Log, act *storage.Act) error {
	return s.change(ctx, "audit", func(c *call) error {
		b := c.Bucket(list(log))
		for act.Cut(); b.Get(number(act.At)) != nil; {
			act.At++
		}
		c.put(list(log), number(act.At), act, act.At+int64(storage.KeepActs))
		if n, err := b.NextSequence(); err != nil || n%trimEvery != 0 {
			return err
		}
		for more := b.Stats().KeyN - storage.MaxActsKept; more > 0; more-- {
			oldest, _ := b.Cursor().First()
			c.remove(list(log), oldest)
		}
		return nil
	})
}

// Acts implements [storage.Auditor].
func (s *Store) Acts(ctx context.Context, log storage.Log, before int64, n int) (acts []storage.Act, err error) {
	err = s.look(ctx, "acts", func(tx *bolt.Tx) error {
		cursor := tx.Bucket(list(log)).Cursor()
		first := cursor.Prev
		if key, _ := cursor.Seek(number(before)); key == nil {
			first = cursor.Last
		}
		for key, row := first(); key != nil && len(acts) < min(n, storage.MaxActs); key, row = cursor.Prev() {
			var act storage.Act
			if _, found := read(row, &act); found {
				acts = append(acts, act)
			}
		}
		return nil
	})
	return acts, err
}

// Mark implements [storage.Local].
func (s *Store) Mark(ctx context.Context, _ int64, marks ...int64) (former, kept int64, err error) {
	err = s.change(ctx, "mark", func(c *call) error {
		read(c.Bucket(about).Get([]byte("mark")), &former)
		if kept = former; len(marks) > 0 && !slices.Contains(marks, former) {
			kept = marks[0]
			c.put(about, []byte("mark"), kept, never)
		}
		return nil
	})
	return former, kept, err
}

// Stats implements [storage.Store].
func (s *Store) Stats(ctx context.Context) (stats storage.Stats, err error) {
	err = s.look(ctx, "stats", func(tx *bolt.Tx) error {
		stats.Bytes = tx.Size()
		return nil
	})
	return stats, err
}

// Only one process can use the file, so none is counted.

// Join implements [storage.Store].
func (s *Store) Join(context.Context, int64, int64, int64) (storage.Presence, error) {
	return storage.Presence{}, nil
}

// Leave implements [storage.Store].
func (s *Store) Leave(context.Context, int64) error { return nil }

// A store without periods grants nothing at once: the engine claims in batches then.

// Period implements [storage.Local].
func (s *Store) Period() uint32 { return 0 }

// IsNew implements [storage.Local].
func (s *Store) IsNew(storage.LimitID, int64, storage.Key) bool { return false }

// ClaimAtOnce implements [storage.Local].
func (s *Store) ClaimAtOnce(uint32, int64, []storage.KnownClaim) error { return storage.ErrNotAtOnce }

// OnDisk implements [storage.Local].
func (s *Store) OnDisk() bool { return true }

var _ storage.Local = (*Store)(nil)
