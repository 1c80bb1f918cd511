package regions

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/engine"
	"github.com/caddy-tally/caddy-tally/limiter/region"
	"github.com/caddy-tally/caddy-tally/storage/exchange"
)

// Regions shares counts with other regions. It may be used from any number of goroutines.
type Regions struct {
	opts       Options
	me         region.Component
	began      int64 // time of the start
	table      *table
	publishing publishing
	bans       bans
	untracked  atomic.Int64 // times without room for a key
	apart      atomic.Int64 // how far the exchange's clock is ahead of the engine's; written under bans.mu

	ctx       context.Context // ends the calls of the exchange
	cancel    context.CancelFunc
	closeOnce sync.Once
	stop      chan struct{} // closed to stop the loop
	done      chan struct{} // closed when the loop has ended

	mu    sync.Mutex
	state state // guarded by mu; written by the loop

	// These are for the loop only.
	exchange exchange.Exchange // nil while there is none
	id       int64             // identifies the exchange of the marks of published rows
	after    int64             // the number of the last collected row
	caughtUp bool              // everything was collected at least once
	others   int               // other machines
	machines []int64           // of this region, in ascending order
	due      time.Time         // when the next sync is due, without jitter
	failures int               // of syncs, since the last success
	failing  time.Time         // time of the first of them
	reminded time.Time         // time of the last report
	swept    time.Time         // time of the last sweep of the exchange and memory
	unswept  bool              // the exchange may have more to sweep
}

// New starts sharing. It opens nothing itself: the loop does.
func New(opts Options) *Regions {
	opts.Interval = cmp.Or(opts.Interval, defaultInterval)
	opts.MaxKeys = cmp.Or(opts.MaxKeys, engine.DefaultMaxKeys)
	r := &Regions{
		opts:  opts,
		me:    region.Component{Region: opts.Region, Machine: time.Now().UnixNano()&^0xffff | rand.Int64N(1<<16)},
		began: opts.Engine.Now(),
		table: newTable(opts.MaxKeys), stop: make(chan struct{}), done: make(chan struct{}),
		state: state{began: time.Now()},
	}
	r.bans.urgent = make(chan struct{}, 1)
	r.ctx, r.cancel = context.WithCancel(context.Background())
	go r.loop()
	return r
}

// Close publishes the admitted units once more and stops sharing. If the exchange doesn't answer,
// Close gives up after two seconds, or when ctx ends.
func (r *Regions) Close(ctx context.Context) error {
	r.closeOnce.Do(func() { close(r.stop); r.cancel() })
	select {
	case <-r.done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("regions: close: %w", ctx.Err())
	}
}
