package sqlite

import (
	"bytes"
	"cmp"
	"database/sql/driver"
	"fmt"
	"slices"

	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/storage"
	"github.com/caddy-tally/caddy-tally/storage/sqlite/internal/journal"
)

// folding writes records of the journal to the tables.
type folding struct {
	slots  []foldedSlot
	states []foldedBucket

	times, known *stmt
	take, noting *stmt
	upserts      sized
	buckets      sized
}

// knownLimits are the limits of one era.
type knownLimits struct {
	era   int64
	known map[storage.LimitID]limiter.Limit // nil before they are read
}

// foldedSlot has units for one row of counters.
type foldedSlot struct {
	limit        storage.LimitID
	window, slot int64
	key          storage.Key
	units        int64
}

// foldedBucket is a state of a token bucket.
type foldedBucket struct {
	limit storage.LimitID
	key   storage.Key
	n     [4]int64
}

func (f *folding) prepare(db *conn, counters *counters, buckets *buckets) error {
	f.upserts, f.buckets = counters.upserts, buckets.upserts
	return db.prepareAll([]prepared{
		{&f.times, `SELECT now, era FROM clock`, 0, 2},
		{&f.known, `SELECT id, algorithm, window, slots, era FROM limits`, 0, 5},
		{&f.take,
			`UPDATE counters SET used = max(used + ?, 0) WHERE limit_id = ? AND window = ? AND key = ? AND slot = ?`, 5, 0},
		{&f.noting, `UPDATE journal SET folded = ?, upto = ?, below = ?`, 3, 0},
	})
}

// run writes records to the tables, and then the progress. It returns how many rows it wrote.
func (f *folding) run(limits *knownLimits, records []journal.Record, next progress) (written int64, err error) {
	now, err := f.readLimits(limits)
	if err != nil {
		return 0, err
	}
	f.gather(limits, records, now)
	if err := f.writeSlots(); err != nil {
		return 0, fmt.Errorf("fold counters: %w", err)
	}
	if err := f.writeBuckets(); err != nil {
		return 0, fmt.Errorf("fold buckets: %w", err)
	}
	return int64(len(f.slots)+len(f.states)) + 1, f.note(next)
}

// note writes the progress.
func (f *folding) note(p progress) error {
	return f.noting.run(int64(p.folded), int64(p.upto), int64(p.below))
}

// readLimits reads the time, and the limits if they were not read yet in this era. The limits of all sealed
// records are in the database.
func (f *folding) readLimits(limits *knownLimits) (now int64, err error) {
	var era int64
	err = f.times.each(func(row []driver.Value) error { return integers(row, &now, &era) })
	if err != nil || limits.known != nil && limits.era == era {
		return now, err
	}
	known := make(map[storage.LimitID]limiter.Limit)
	err = f.known.each(func(row []driver.Value) error {
		var id, algorithm, window, slots, ofEra int64
		if err := integers(row, &id, &algorithm, &window, &slots, &ofEra); err != nil {
			return err
		}
		if l := stored(algorithm, window, slots); l != nil && ofEra == era {
			known[storage.LimitID(id)] = *l
		}
		return nil
	})
	limits.era, limits.known = era, known
	return now, err
}

// gather collects the changes of rows that still count, in the order of the tables.
func (f *folding) gather(limits *knownLimits, records []journal.Record, now int64) {
	f.slots, f.states = f.slots[:0], f.states[:0]
	for i := range records {
		r := &records[i]
		l, known := limits.known[storage.LimitID(r.Limit)]
		if !known || r.Bucket == l.CountsSlots() {
			continue
		}
		if r.Bucket {
			f.states = append(f.states, foldedBucket{storage.LimitID(r.Limit), r.Key, r.N})
			continue
		}
		oldest := l.Oldest(now - l.ZoneSlack())
		for i := 0; i < len(r.N); i += 2 {
			if slot, units := r.N[i], r.N[i+1]; units != 0 && slot >= oldest {
				f.slots = append(f.slots, foldedSlot{storage.LimitID(r.Limit), l.WindowOf(slot), slot, r.Key, units})
			}
		}
	}
	f.slots, f.states = merged(f.slots), lastStates(f.states)
}

// merged sorts slots by row, and adds up the units of each row.
func merged(slots []foldedSlot) []foldedSlot {
	slices.SortFunc(slots, func(a, b foldedSlot) int {
		if c := cmp.Compare(int64(a.limit), int64(b.limit)); c != 0 {
			return c
		}
		if c := cmp.Compare(a.window, b.window); c != 0 {
			return c
		}
		if c := bytes.Compare(a.key[:], b.key[:]); c != 0 {
			return c
		}
		return cmp.Compare(a.slot, b.slot)
	})
	sums := slots[:0]
	for _, slot := range slots {
		if last := len(sums) - 1; last >= 0 && sums[last].sameRow(&slot) {
			sums[last].units = min(sums[last].units+slot.units, mostUsed)
			continue
		}
		sums = append(sums, slot)
	}
	return sums
}

func (f *foldedSlot) sameRow(b *foldedSlot) bool {
	return f.limit == b.limit && f.window == b.window && f.key == b.key && f.slot == b.slot
}

// lastStates sorts states by row, and keeps the last one of each row.
func lastStates(states []foldedBucket) []foldedBucket {
	slices.SortStableFunc(states, func(a, b foldedBucket) int {
		return cmp.Or(cmp.Compare(int64(a.limit), int64(b.limit)), bytes.Compare(a.key[:], b.key[:]))
	})
	lasts := states[:0]
	for _, state := range states {
		if last := len(lasts) - 1; last >= 0 && lasts[last].limit == state.limit && lasts[last].key == state.key {
			lasts[last] = state
			continue
		}
		lasts = append(lasts, state)
	}
	return lasts
}

func (f *folding) writeSlots() error {
	adds := make([]*foldedSlot, 0, len(f.slots))
	for i := range f.slots {
		w := &f.slots[i]
		switch {
		case w.units > 0:
			adds = append(adds, w)
		case w.units < 0:
			if err := f.take.run(w.units, int64(w.limit), w.window, w.key[:], w.slot); err != nil {
				return err
			}
		}
	}
	return inSizes(&f.upserts, len(adds), func(s *stmt, row, n int) {
		w := adds[n]
		s.bind(5*row, int64(w.limit), w.window, w.key[:], w.slot, w.units)
	})
}

func (f *folding) writeBuckets() error {
	return inSizes(&f.buckets, len(f.states), func(s *stmt, row, n int) {
		b := &f.states[n]
		s.bind(6*row, int64(b.limit), b.key[:], b.n[0], b.n[1], b.n[2], b.n[3])
	})
}
