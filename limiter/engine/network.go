package engine

import (
	"context"
	"math"
	"time"

	"github.com/caddy-tally/caddy-tally/storage"
)

// A store on a network ([storage.Remote]) takes a round trip for each call, and may be out of
// reach for any time, also while a call is under way. So calls of it end, batches of it are
// bounded, what a request will need is claimed before (renew.go), and it is tried more often
// after a fault.
//
// One call is under way at a time. A request that has to wait then waits for the call that is
// under way and for its own: two round trips. With several calls under way it would wait for
// one, but the claims of a key could overtake one another, and what a cell gives back is to
// reach the store before what is claimed for it later.

const (
	// callTimeout is how long a call of a store on a network may take at least, so that the
	// store can find out what has become of a call that was not answered. Requests don't wait as
	// long.
	callTimeout = time.Second
	// lastNetworkProbe is the longest time between two tries to use such a store again.
	lastNetworkProbe = 500 * time.Millisecond
)

// call returns the context of a call of the store, and what ends it.
func (c *connection) call() (context.Context, context.CancelFunc) {
	if !c.onNetwork.Load() {
		return context.Background(), func() {}
	}
	return context.WithTimeout(context.Background(), c.callTimeout())
}

func (c *connection) callTimeout() time.Duration { return max(callTimeout, 2*c.timeout) }

// opening returns the context in which a store is opened. To connect takes several round trips, and
// where these are long, requests are given more time.
func (c *connection) opening() (context.Context, context.CancelFunc) {
	within := openTimeout
	if c.onNetwork.Load() {
		within = max(callTimeout, 10*c.timeout)
	}
	return context.WithTimeout(context.Background(), within)
}

// lastProbe returns the longest time between two tries to use the store again.
func (c *connection) lastProbe() time.Duration {
	if c.onNetwork.Load() {
		return lastNetworkProbe
	}
	return lastProbe
}

// maxBatch returns how many claims, and how many clients, a call of the store may have.
func (c *connection) maxBatch() int {
	if store := c.store.Load(); store != nil && store.remote != nil {
		return max(store.remote.MaxBatch(), 1)
	}
	return math.MaxInt
}

// joint returns the store as one that reads records and answers claims in one call, if that
// saves a round trip.
func (c *connection) joint() (joint storage.Joint, ok bool) {
	if store := c.store.Load(); store != nil && store.remote != nil {
		joint, ok = store.Store.(storage.Joint)
	}
	return joint, ok
}

// noteTrip notes how long a call of a store on a network took. What is kept follows longer ones
// at once, and shorter ones slowly.
func (c *connection) noteTrip(took time.Duration) {
	if store := c.store.Load(); store == nil || store.remote == nil {
		return
	}
	took = min(max(took, 1), maxTrip)
	if known := time.Duration(c.trip.Load()); took < known {
		took = known - (known-took)/16
	}
	c.trip.Store(int64(took))
}

// maxTrip bounds what is taken for a round trip.
const maxTrip = 200 * time.Millisecond

// roundTrip returns how long a call of the store takes, or 0 if it is not on a network.
func (c *connection) roundTrip() int64 { return c.trip.Load() }
