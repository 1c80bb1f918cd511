package regions

import (
	"cmp"
	"errors"
	"time"

	"github.com/caddy-tally/caddy-tally/exchange"
	"github.com/caddy-tally/caddy-tally/limiter/engine"
	"github.com/caddy-tally/caddy-tally/storage"
)

// Options configure [Regions]. Region, Open, Engine and Name are required.
type Options struct {
	// Region is the name of this region.
	Region string

	// Open opens the exchange. The loop calls it when it first needs it and after faults.
	Open exchange.Opener

	// Engine decides, with the store of this region.
	Engine *engine.Engine

	// Name names a key of a limit for the exchange, alike in all regions, in a period of time
	// that has a number. It returns false if that isn't possible yet. It must not wait.
	Name func(limit storage.LimitID, key []byte, period int64) (storage.Key, bool)

	// Interval is how often counts are published and collected; each time up to a fifth sooner
	// or later. Zero means [DefaultInterval].
	Interval time.Duration

	// MaxKeys is how many keys are shared at most. Zero means [engine.DefaultMaxKeys].
	MaxKeys int

	// Observer hears what the loop does. Nil means that nobody does.
	Observer Observer
}

// DefaultInterval is how often counts are exchanged unless configured otherwise.
const DefaultInterval = 5 * time.Second

// Observer is told what the loop does. Its methods are called from the loop, without locks held.
type Observer interface {
	// Published reports how many rows the exchange has taken.
	Published(rows int)
	// Collected reports how many rows were collected in one turn, how many of them said
	// something new, and how many keys came to be known by them.
	Collected(rows, applied, made int)
	// Failed reports that the exchange can't be used, once when that begins and about once a
	// minute while it lasts.
	Failed(since time.Duration, err error)
	// Recovered reports that the exchange is in use again.
	Recovered(after time.Duration)
	// Erred counts an error of the exchange.
	Erred()
}

type noObserver struct{}

func (noObserver) Published(int)               {}
func (noObserver) Collected(int, int, int)     {}
func (noObserver) Failed(time.Duration, error) {}
func (noObserver) Recovered(time.Duration)     {}
func (noObserver) Erred()                      {}

func (o Options) withDefaults() (Options, error) {
	if o.Region == "" || o.Open == nil || o.Engine == nil || o.Name == nil {
		return o, errors.New("regions: Region, Open, Engine and Name are required")
	}
	o.Interval = cmp.Or(o.Interval, DefaultInterval)
	o.MaxKeys = cmp.Or(o.MaxKeys, engine.DefaultMaxKeys)
	if o.Observer == nil {
		o.Observer = noObserver{}
	}
	return o, nil
}
