package storage

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/distinct"
	"github.com/caddy-tally/caddy-tally/internal/outcomes"
)

// Historian is a store that also keeps counts of decisions per minute, hour and day, and the heaviest
// keys per hour. All processes that use the store add to it. It is optional because Redis keeps
// all of its data in memory, and the history of months doesn't belong there.
//
// # Invariant
//
// Each report is added once: to its minutes, their hours and their days, in one transaction. So the
// counts of an hour or day are the sums of its minutes, as long as all of them are kept. A process
// that is killed loses its unreported counts.
type Historian interface {
	// Report adds the counts of a process. now is nanoseconds since the Unix epoch. A report whose
	// number isn't above the last one of its writer changes nothing, so after [ErrUnknownOutcome]
	// the same report can be sent again, for up to a week.
	//
	// Sweeps drop old counts.
	Report(ctx context.Context, now int64, report Report) error

	// History returns counts of decisions, in the order of time. There are no points for times
	// without decisions.
	History(ctx context.Context, q HistoryQuery) ([]Point, error)

	// Heaviest returns the n keys with the highest demand, the heaviest first.
	Heaviest(ctx context.Context, q HistoryQuery, n int) ([]Heavy, error)
}

// Series names a series of counts.
type Series struct {
	Zone string
	// Limit is a limit of the zone; "" counts the zone's requests, each once.
	Limit string
}

// Tally counts decisions about requests.
type Tally struct {
	outcomes.Counts
	Units int64 // charged
}

// Add adds another tally.
func (t *Tally) Add(other Tally) {
	t.Counts.Add(other.Counts)
	t.Units += other.Units
}

// Minute has the counts of a process in one minute.
type Minute struct {
	// At is any time in the minute, in nanoseconds since the Unix epoch.
	At int64
	Series
	Tally
	// Keys counts the different keys, by hashes that all processes make under one key.
	Keys distinct.Sketch
	// Heaviest are the keys with the highest demand, no key twice, at most MaxHeaviest.
	Heaviest []HeavyKey
}

// HeavyKey is a key with high demand.
type HeavyKey struct {
	Key     Key   // a keyed hash, as everywhere in a store
	Units   int64 // charged
	Refused int64 // requests; for a shadow limit, requests that it would have refused
}

// Report has the counts of a process since its last report.
type Report struct {
	// Writer is chosen at random by the process.
	Writer int64
	// Number counts the reports of the writer, from 1.
	Number  int64
	Minutes []Minute
}

// HistoryQuery selects counts of the history.
type HistoryQuery struct {
	// Series is the selected series. A Zone of "" adds up all zones; then Limit is "".
	Series
	// From and To bound the time, in nanoseconds since the Unix epoch, From ≤ at < To.
	From, To int64
	// Resolution is a [time.Minute], a [time.Hour] or a [Day].
	Resolution time.Duration
}

// Point counts the decisions of the minute, hour or day that begins at a time.
type Point struct {
	At int64 // nanoseconds since the Unix epoch
	Tally
	// Keys is the estimated number of different keys; for several series, that of the largest.
	Keys int64
}

// Heavy is a key with high demand of a limit.
type Heavy struct {
	Series
	HeavyKey
}

// Day is 24 hours, in UTC.
const Day = 24 * time.Hour

// Bounds of the history, and of the answer to a query.
const (
	KeepMinutes  = 48 * time.Hour
	KeepHours    = 90 * Day
	KeepDays     = 2 * 366 * Day
	KeepHeaviest = 7 * Day

	MaxHeaviest = 20     // keys of a limit and hour
	MaxSeries   = 10_000 // of a day; further ones are not counted
	MaxPoints   = 3000   // of a query
)

// Rollups are the resolutions of the history, and how long each is kept.
var Rollups = [...]struct{ Resolution, Keep time.Duration }{
	{time.Minute, KeepMinutes}, {time.Hour, KeepHours}, {Day, KeepDays},
}

// Period returns the number of the minute, hour or day that contains a time, counted from the Unix
// epoch.
func Period(at int64, resolution time.Duration) int64 {
	n := at / int64(resolution)
	if at%int64(resolution) < 0 {
		n--
	}
	return n
}

// Periods returns the numbers of the query's first period and of the first period after it. It
// returns an error if there are too many, or if the query makes no sense.
func (q HistoryQuery) Periods() (first, end int64, err error) {
	known := false
	for _, r := range Rollups {
		known = known || r.Resolution == q.Resolution
	}
	switch {
	case !known:
		return 0, 0, fmt.Errorf("resolution: expected 1m, 1h or 24h, got %v", q.Resolution)
	case q.Zone == "" && q.Limit != "":
		return 0, 0, fmt.Errorf("limit: expected a zone as well, got only %q", q.Limit)
	case q.From > q.To:
		return 0, 0, errors.New("expected a time that begins before it ends")
	}
	first, end = Period(q.From, q.Resolution), Period(q.To-1, q.Resolution)+1
	if end-first > MaxPoints {
		return 0, 0, fmt.Errorf("expected at most %d points, got %d: choose a shorter time or a coarser resolution",
			MaxPoints, end-first)
	}
	return first, end, nil
}
