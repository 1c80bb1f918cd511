package memory

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/caddy-tally/caddy-tally/storage"
	"github.com/caddy-tally/caddy-tally/storage/internal/past"
)

// history is the history and the audit. It is apart from the counts, so that no claim waits for it,
// and has a bound of its own.
type history struct {
	mu      sync.Mutex
	points  map[past.PointAt]past.Point // guarded by mu, like all below
	heavy   map[past.HeavyAt][]storage.HeavyKey
	writers map[int64]int64 // the number of the last report of each
	acts    []storage.Act   // in the order of time
}

// maxHistory is how many points and heavy keys there are at most, some 30 MB. What comes then
// is not counted until others are too old.
const maxHistory = 1 << 17

// look runs f with the history locked, unless the store is closed or the context is done.
func (s *Store) look(ctx context.Context, doing string, f func(h *history)) error {
	if err := s.with(ctx, doing, func(*Database) error { return nil }); err != nil {
		return err
	}
	s.db.history.mu.Lock()
	defer s.db.history.mu.Unlock()
	f(&s.db.history)
	return nil
}

// historyRows implements [past.Keeper].
type historyRows struct{ *Store }

// ChangeHistory implements [past.Keeper].
func (hr historyRows) ChangeHistory(ctx context.Context, now int64, rows *past.Rows, add func() bool) error {
	return hr.look(ctx, "report", func(h *history) {
		if h.writers == nil {
			h.points, h.heavy, h.writers = make(map[past.PointAt]past.Point), make(map[past.HeavyAt][]storage.HeavyKey), make(map[int64]int64)
		}
		h.dropLocked(now)
		h.readLocked(rows)
		if !add() {
			return
		}
		h.writers[rows.Writer] = rows.Number
		for at, p := range rows.Points {
			h.points[at] = *p
		}
		maps.Copy(h.heavy, rows.Heavy)
	})
}

// readLocked reads rows, or names none of them if there is no room.
func (h *history) readLocked(rows *past.Rows) {
	rows.Number = h.writers[rows.Writer]
	if h.sizeLocked() > maxHistory {
		clear(rows.Points)
		clear(rows.Heavy)
	}
	for at := range rows.Points {
		p := h.points[at]
		rows.Points[at] = &p
	}
	for at := range rows.Heavy {
		rows.Heavy[at] = slices.Clone(h.heavy[at])
	}
}

func (h *history) sizeLocked() (size int) {
	for _, keys := range h.heavy {
		size += len(keys)
	}
	return size + len(h.points)
}

// dropLocked drops old points and unused writers.
func (h *history) dropLocked(now int64) {
	for at, p := range h.points {
		r := storage.Rollups[at.Rollup]
		if !past.IsKept(at.Period, r.Resolution, r.Keep, now) {
			delete(h.points, at)
		} else if first, _ := past.Open(at.Rollup, now); at.Period < first && p.Sketch != nil {
			p.Sketch = nil
			h.points[at] = p
		}
	}
	for at, keys := range h.heavy {
		if !past.IsKept(at.Hour, time.Hour, storage.KeepHeaviest, now) {
			delete(h.heavy, at)
		} else if first, _ := past.Open(past.Hours, now); at.Hour < first && len(keys) > storage.MaxHeaviest {
			h.heavy[at] = slices.Clone(keys[:storage.MaxHeaviest])
		}
	}
	h.acts = slices.DeleteFunc(h.acts, func(a storage.Act) bool { return !past.IsKept(a.At, time.Nanosecond, storage.KeepActs, now) })
}

// EachPoint implements [past.Keeper].
func (hr historyRows) EachPoint(ctx context.Context, from past.PointAt, end int64, f func(past.PointAt, *past.Point)) error {
	return hr.look(ctx, "history", func(h *history) {
		for at, p := range h.points {
			if at.Rollup == from.Rollup && at.Period >= from.Period && at.Period < end {
				f(at, &p)
			}
		}
	})
}

// EachHeavy implements [past.Keeper].
func (hr historyRows) EachHeavy(ctx context.Context, from past.HeavyAt, end int64, f func(storage.Heavy)) error {
	return hr.look(ctx, "heaviest", func(h *history) {
		for at, keys := range h.heavy {
			if at.Hour < from.Hour || at.Hour >= end {
				continue
			}
			for _, k := range keys {
				f(storage.Heavy{Series: at.Series, HeavyKey: k})
			}
		}
	})
}

var _ past.Keeper = historyRows{}
