package sqlite

import (
	"math"
	"time"

	"github.com/caddy-tally/caddy-tally/storage"
)

// pastTables are the tables of the history and the lists of acts: their key columns, the unit of their times, and how
// long rows are kept.
var pastTables = [...]struct {
	name, key  string
	unit, keep time.Duration
}{
	{"minutes", "at, series", time.Minute, storage.KeepMinutes},
	{"hours", "at, series", time.Hour, storage.KeepHours},
	{"days", "at, series", storage.Day, storage.KeepDays},
	{"heaviest", "at, series, key", time.Hour, storage.KeepHeaviest},
	{"audit", "at", time.Nanosecond, storage.KeepActs},
	{"charges", "at", time.Nanosecond, storage.KeepActs},
}

func (sw *sweeper) preparePast() (err error) {
	for i, t := range pastTables {
		sw.past[i], err = sw.db.prepare(`DELETE FROM `+t.name+` WHERE (`+t.key+`) IN
			(SELECT `+t.key+` FROM `+t.name+` WHERE at < ? OR at > ? ORDER BY `+t.key+` LIMIT ?)`, 3, 0)
		if err != nil {
			return err
		}
	}
	return nil
}

// history deletes rows that are too old or, because of a wrong clock, too far in the future.
func (sw *sweeper) history() (done bool, err error) {
	for i, t := range pastTables {
		if sw.left() <= 0 {
			return false, nil
		}
		most := sw.deleted + sw.left()
		first := storage.Period(subtractCapped(sw.now, int64(t.keep)), t.unit)
		last := storage.Period(addCapped(sw.now, farFuture), t.unit)
		if err := sw.delete(sw.past[i], first, last, sw.left()); err != nil || sw.deleted == most {
			return false, err
		}
	}
	return true, nil
}

func subtractCapped(a, b int64) int64 {
	if a < math.MinInt64+b {
		return math.MinInt64
	}
	return a - b
}
