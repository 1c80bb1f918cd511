package rows

import (
	"context"
	"encoding/binary"
	"math"
	"sync/atomic"
	"time"

	"github.com/caddy-tally/caddy-tally/storage"
)

// Backend keeps rows.
type Backend interface {
	// Update reads the rows with some names, calls decide, which replaces values in the map, and writes the
	// changed ones, in one transaction. A row without a value is not stored. Values must not be changed in
	// place. decide is called again, with the rows read again, if the transaction is repeated, even one that
	// took effect and was not answered.
	Update(ctx context.Context, doing string, names []string, decide func(rows map[string][]byte)) error

	// Scan calls f with the rows of a range. f doesn't keep the values.
	Scan(ctx context.Context, doing string, r Range, f func(name string, value []byte)) error

	// Remove deletes rows of ranges, at most most, and returns how many it has deleted.
	Remove(ctx context.Context, doing string, ranges []Range, most int) (removed int, err error)
}

// Range selects the rows with From ≤ name < End.
type Range struct {
	From, End string
	Rest      string // of the name after the number of a period; "" selects all
	Newest    int    // if not 0, so many rows at the end of the range, the last one first
	Skip      int    // of these, so many are left out
}

// Side implements [storage.Auditor] and [storage.Historian] over backends.
type Side struct {
	history, acts Backend
	added         [storage.Logs]atomic.Int64
}

// New returns side data in two backends, which may be the same.
func New(history, acts Backend) *Side { return &Side{history: history, acts: acts} }

// kind is a kind of rows.
type kind struct{ unit, keep time.Duration } // of the number in a name, and how long a row is kept after its period

// The first letters of names. Those of points and sketches are followed by those of the other rollups.
const (
	ofZones      = 'a' // points of zones
	ofLimits     = 'e' // points of limits
	ofSketches   = 'i' // of periods that somebody may still add to; for older ones only the estimate stays
	ofHeaviest   = 'm' // the heaviest keys of an hour
	ofCandidates = 'n' // the next ones, which may still become some of the heaviest
	ofSeries     = 'o' // the number of series of a day
	ofWriters    = 'p' // the number of a writer's last report in a week
	ofActs       = 'q' // followed by those of the other lists
)

var kinds = kindsOfRows()

func kindsOfRows() map[byte]kind {
	kinds := map[byte]kind{
		ofHeaviest:   {time.Hour, storage.KeepHeaviest},
		ofCandidates: {time.Hour, openFor},
		ofSeries:     {storage.Day, storage.KeepDays},
		ofWriters:    {week, week},
	}
	for i, r := range storage.Rollups {
		kinds[ofZones+byte(i)], kinds[ofLimits+byte(i)] = kind{r.Resolution, r.Keep}, kind{r.Resolution, r.Keep}
		kinds[ofSketches+byte(i)] = kind{r.Resolution, openFor}
	}
	for log := range storage.Logs {
		kinds[ofActs+byte(log)] = kind{time.Nanosecond, storage.KeepActs}
	}
	return kinds
}

const week = 7 * storage.Day

// openFor is how long a period stays open after its end, because processes report late.
const openFor = 5 * time.Minute

// nameOf returns the name of a row, or the beginning of a range.
func nameOf(letter byte, number int64, rest string) string {
	name := []byte{letter}
	if kinds[letter].unit == time.Nanosecond {
		name = binary.BigEndian.AppendUint64(name, uint64(number)^1<<63) // sorts as the number does
	} else {
		name = binary.BigEndian.AppendUint32(name, uint32(number)^1<<31) // times have fewer than 2^32 minutes
	}
	return string(append(name, rest...))
}

// periodOf returns the number in a name with a period.
func periodOf(name string) int64 {
	return int64(int32(binary.BigEndian.Uint32([]byte(name[1:5])) ^ 1<<31))
}

// allOf returns the range of all rows of a kind.
func allOf(letter byte) Range {
	return Range{From: string(rune(letter)), End: string(rune(letter + 1))}
}

// bounds returns the numbers of the first and the last rows of a kind that are kept at a time: older ones have
// expired, and later ones come from a wrong clock.
func (k kind) bounds(now int64) (first, last int64) {
	const day = int64(storage.Day)
	return storage.Period(max(now, math.MinInt64+int64(k.keep))-int64(k.keep),
		k.unit), storage.Period(min(now, math.MaxInt64-day)+day, k.unit)
}

// keptName returns the name of a row, or "" if it isn't kept at now.
func keptName(letter byte, at int64, rest string, now int64) string {
	number := storage.Period(at, kinds[letter].unit)
	if first, last := kinds[letter].bounds(now); number < first || number > last {
		return ""
	}
	return nameOf(letter, number, rest)
}

// Expired returns the ranges of all rows that are not kept at a time. A sweep deletes them.
func Expired(now int64) (ranges []Range) {
	for letter, k := range kinds {
		first, last := k.bounds(now)
		all := allOf(letter)
		ranges = append(ranges, Range{From: all.From, End: nameOf(letter, first, "")},
			Range{From: nameOf(letter, last+1, ""), End: all.End})
	}
	return ranges
}
