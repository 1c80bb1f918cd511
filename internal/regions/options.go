package regions

import (
	"time"

	"github.com/caddy-tally/caddy-tally/internal/engine"
	"github.com/caddy-tally/caddy-tally/storage"
	"github.com/caddy-tally/caddy-tally/storage/exchange"
)

// Options configure [Regions]. All but Interval and MaxKeys are required.
type Options struct {
	// Region is the name of this region.
	Region string

	// Open opens the exchange. The loop calls it when it first needs it and after faults.
	Open exchange.Opener

	// Engine decides, using the store of this region.
	Engine *engine.Engine

	// Name names a key of a limit for the exchange, identically in all regions, in the period with
	// a number. It returns false if that isn't possible yet. It must not block.
	Name func(limit storage.LimitID, key []byte, period int64) (storage.Key, bool)

	// Database returns a mark of the database of this region's store, the same on all machines that use
	// it and on no others, or zero if it isn't known yet. The loop calls it.
	Database func() storage.Key

	// Interval is the time between exchanges of counts. Each varies by up to a fifth, up or down.
	// Zero means 5 seconds.
	Interval time.Duration

	// MaxKeys is the most shared keys. Zero means [engine.DefaultMaxKeys].
	MaxKeys int

	// Observer is notified of the loop's events.
	Observer Observer
}

// defaultInterval is the default time between exchanges of counts.
const defaultInterval = 5 * time.Second

// Observer receives the loop's events. The loop calls its methods, without locks held.
type Observer interface {
	// Published reports the number of rows that the exchange has taken.
	Published(rows int)
	// Collected reports the number of rows collected in one turn, the number of rows with new
	// information, and the number of new keys.
	Collected(rows, applied, made int)
	// Failed reports that the exchange can't be used: once when that begins, and about once a
	// minute while it lasts.
	Failed(since time.Duration, err error)
	// Recovered reports that the exchange is in use again.
	Recovered(after time.Duration)
	// Erred counts an error of the exchange, in a step of a sync: open, meet, publish or collect.
	Erred(step string)
}
