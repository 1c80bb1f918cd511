package sqlite

import (
	"fmt"
	"time"

	"github.com/caddy-tally/caddy-tally/storage"
)

const (
	// seenEvery is the precision of limits.seen.
	seenEvery = int64(time.Hour)
	// unseenFor is how long a limit without rows is remembered.
	unseenFor = int64(24 * time.Hour)
)

// limits maintains the table from which the sweeps of all processes learn how the rows of a limit expire. A
// limit is written with its first row, and again in every hour with new rows. It is deleted when it has no
// rows and was not written for a day.
type limits struct {
	upsert *stmt
	seen   map[storage.LimitID]int64 // when this process last wrote each limit
}

func (ls *limits) prepare(db *conn) (err error) {
	ls.seen = make(map[storage.LimitID]int64)
	ls.upsert, err = db.prepare(`INSERT INTO limits (id, algorithm, window, slots, seen, era) VALUES (?, ?, ?, ?, ?, ?)
		ON CONFLICT (id) DO UPDATE SET algorithm = excluded.algorithm, window = excluded.window,
		    slots = excluded.slots, seen = max(seen, excluded.seen), era = excluded.era`, 6, 0)
	return err
}

// see writes the limits of written cells, unless it did so lately.
func (ls *limits) see(claims []storage.Claim, cells []cell, era int64) error {
	for from := range groups(cells) {
		claim, id := &claims[cells[from].claims[0]], cells[from].id
		seen, ok := ls.seen[id]
		if ok && claim.Now < seen+seenEvery {
			continue
		}
		l := claim.Limit
		if err := ls.upsert.run(int64(id), int64(l.Algorithm()), int64(l.Window()), l.Slots(), claim.Now,
			era); err != nil {
			return fmt.Errorf("write limits: %w", err)
		}
		ls.seen[id] = claim.Now
	}
	return nil
}

// forget forgets the writes, which may have been rolled back.
func (ls *limits) forget() { clear(ls.seen) }
