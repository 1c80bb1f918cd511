package engine // store

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/engine/clock"
	"github.com/caddy-tally/caddy-tally/storage"
)

// connection is the engine's store, which is opened again after faults, and the store's time.
// reopen, askTime and inTerms may be called by one goroutine at a time, the committer's; the other
// methods by any.
type connection struct {
	opts  *Options
	name  nameFunc
	clock *clock.Clock
	onSet func(by int64, back bool) // called when the store's time was set

	onReset func() error // called after a reset of something that memory may still hold
	resets  atomic.Int64 // the number of the last reset that memory has followed
	newest  int64        // the number of the last reset when the store was opened

	store     atomic.Pointer[opened] // nil while there is none
	onNetwork atomic.Bool            // the present or last store is on a network
	trip      atomic.Int64           // the duration of a call over a network, in nanoseconds; 0 otherwise

	stamp    clock.Stamp // the moment of the last time told by the store
	id       int64       // of this engine among the users of the store, random
	presence atomic.Pointer[storage.Presence]
}

// nameFunc returns the name of a key in the store: see Options.Name.
type nameFunc = func(id storage.LimitID, key string, retention time.Duration, now int64) (Name, error)

// opened is an open store, and the same store as the kind that it is.
type opened struct {
	storage.Store
	local   storage.Local   // nil if it is of another kind
	network storage.Network // nil if it is of another kind
}

// period returns the number of the store's present period, or 0.
func (c *connection) period() uint32 {
	if store := c.store.Load(); store != nil && store.local != nil {
		return store.local.Period()
	}
	return 0
}

// mayShare reports whether other processes may use the store. A store on one machine knows:
// only in a period does no other process charge it. All learn from that at once when others come,
// and when they have gone. The number of processes is known later, at a cleanup, or within a second
// from a store on a network.
func (c *connection) mayShare() bool {
	store := c.store.Load()
	if store == nil || store.local == nil {
		return c.processes() > 1
	}
	return store.local.Period() == 0
}

// openTimeout is how long opening the store may take.
const openTimeout = 10 * time.Second

// reopen replaces the store by a freshly opened one.
func (c *connection) reopen() error {
	if old := c.store.Swap(nil); old != nil {
		old.Close() // its error adds nothing to the fault that led here
	}
	ctx, cancel := c.opening()
	defer cancel()
	store, err := c.opts.now().Open(ctx)
	if err != nil {
		return err
	}
	if err := c.askTime(store); err != nil {
		store.Close()
		return err
	}
	local, _ := store.(storage.Local)
	network, onNetwork := store.(storage.Network)
	if c.onNetwork.Store(onNetwork); !onNetwork {
		c.trip.Store(0)
	}
	c.store.Store(&opened{store, local, network})
	return nil
}

// sweepStep takes one step of a sweep, as of the time of the store. If that was set meanwhile, the
// next cleanup continues.
func (c *connection) sweepStep(ctx context.Context) (storage.Swept, error) {
	store := c.store.Load()
	if store == nil {
		return storage.Swept{}, nil
	}
	if c.onNetwork.Load() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.callTimeout())
		defer cancel()
	}
	term := c.term(new(clock.Stamp))
	swept, err := store.Sweep(ctx, &term)
	if errors.Is(err, storage.ErrTerm) {
		return storage.Swept{}, nil
	}
	return swept, err
}
