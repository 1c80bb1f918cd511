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

// history has the history and the audit. It has its own lock, so that no claim waits for it, and its own bound.
type history struct {
	mu      sync.Mutex
	points  map[past.PointAt]past.Point // guarded by mu, like all below
	heavy   map[past.HeavyAt][]storage.HeavyKey
	writers map[int64]int64             // the number of each writer's last report
	acts    [storage.Logs][]storage.Act // in the order of time
}

// maxHistory bounds the number of points and heavy keys, some 30 MB. At the bound, reports are not counted until
// others expire.
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
		for name, p := range rows.Points {
			h.points[name] = *p
		}
		maps.Copy(h.heavy, rows.Heavy)
	})
}

// readLocked reads rows, or removes all from rows if there is no room.
func (h *history) readLocked(rows *past.Rows) {
	rows.Number = h.writers[rows.Writer]
	if h.sizeLocked() > maxHistory {
		clear(rows.Points)
		clear(rows.Heavy)
	}
	for name := range rows.Points {
		p := h.points[name]
		rows.Points[name] = &p
	}
	for name := range rows.Heavy {
		rows.Heavy[name] = slices.Clone(h.heavy[name])
	}
}

func (h *history) sizeLocked() (size int) {
	for _, keys := range h.heavy {
		size += len(keys)
	}
	return size + len(h.points)
}

// dropLocked drops old points, heavy keys and acts, and the sketches of closed periods.
func (h *history) dropLocked(now int64) {
	for name, p := range h.points {
		r := storage.Rollups[name.Rollup]
		if !past.IsKept(name.Period, r.Resolution, r.Keep, now) {
			delete(h.points, name)
		} else if first, _ := past.Open(name.Rollup, now); name.Period < first && p.Sketch != nil {
			p.Sketch = nil
			h.points[name] = p
		}
	}
	for name, keys := range h.heavy {
		if !past.IsKept(name.Hour, time.Hour, storage.KeepHeaviest, now) {
			delete(h.heavy, name)
		} else if first, _ := past.Open(past.Hours, now); name.Hour < first && len(keys) > storage.MaxHeaviest {
			h.heavy[name] = slices.Clone(keys[:storage.MaxHeaviest])
		}
	}
	for i, acts := range h.acts {
		h.acts[i] = slices.DeleteFunc(acts, func(a storage.Act) bool { return !past.IsKept(a.At, time.Nanosecond, storage.KeepActs, now) })
	}
}

// EachPoint implements [past.Keeper].
func (hr historyRows) EachPoint(ctx context.Context, from past.PointAt, end int64, f func(past.PointAt, *past.Point)) error {
	return hr.look(ctx, "history", func(h *history) {
		for name, p := range h.points {
			if name.Rollup == from.Rollup && name.Period >= from.Period && name.Period < end {
				f(name, &p)
			}
		}
	})
}

// EachHeavy implements [past.Keeper].
func (hr historyRows) EachHeavy(ctx context.Context, from past.HeavyAt, end int64, f func(storage.Heavy)) error {
	return hr.look(ctx, "heaviest", func(h *history) {
		for name, keys := range h.heavy {
			if name.Hour < from.Hour || name.Hour >= end {
				continue
			}
			for _, k := range keys {
				f(storage.Heavy{Series: name.Series, HeavyKey: k})
			}
		}
	})
}

var _ past.Keeper = historyRows{}
