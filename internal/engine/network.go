package engine // fleet

import (
	"context"
	"math"
	"time"

	"github.com/caddy-tally/caddy-tally/storage"
)

// A store on a network ([storage.Network]) takes a round trip for each call, and may become
// unreachable at any time, also while a call is under way. So calls have a timeout, batches have a
// maximum size, units are claimed before a request needs them (renew.go), and a failed store is
// tried more often.
//
// One call is under way at a time. So a request that has to wait waits for two round trips: the
// call under way and its own. With several calls under way it would wait for one. But then the
// claims of a key could overtake one another, and units given back by a cell must reach the store
// before its later claims.

const (
	// callTimeout is the minimum timeout of a call of a store on a network, so that the store can
	// find out the outcome of an unanswered call. Requests wait for a shorter time.
	callTimeout = time.Second
	// lastNetworkProbe is the longest time between two attempts to use such a store again.
	lastNetworkProbe = 500 * time.Millisecond
)

// call returns the context of a call of the store.
func (c *connection) call() (context.Context, context.CancelFunc) {
	if !c.onNetwork.Load() {
		return context.Background(), func() {}
	}
	return context.WithTimeout(context.Background(), c.callTimeout())
}

func (c *connection) callTimeout() time.Duration {
	return max(callTimeout, 2*c.opts.now().StoreTimeout)
}

// opening returns the context in which a store is opened. To connect takes several round trips, and
// where these are long, requests have a longer timeout.
func (c *connection) opening() (context.Context, context.CancelFunc) {
	within := openTimeout
	if c.onNetwork.Load() {
		within = max(callTimeout, 10*c.opts.now().StoreTimeout)
	}
	return context.WithTimeout(context.Background(), within)
}

// lastProbe returns the longest time between two attempts to use the store again.
func (c *connection) lastProbe() time.Duration {
	if c.onNetwork.Load() {
		return lastNetworkProbe
	}
	return lastProbe
}

// maxBatch returns how many claims, and how many clients, a call of the store may have.
func (c *connection) maxBatch() int {
	if network := c.network(); network != nil {
		return max(network.MaxBatch(), 1)
	}
	return math.MaxInt
}

// network returns the store if it is on a network, or nil.
func (c *connection) network() storage.Network {
	if store := c.store.Load(); store != nil {
		return store.network
	}
	return nil
}

// noteTrip notes the duration of a call of a store on a network. The average follows longer calls
// at once, and shorter ones slowly.
func (c *connection) noteTrip(took time.Duration) {
	if c.network() == nil {
		return
	}
	took = min(max(took, 1), maxTrip)
	if known := time.Duration(c.trip.Load()); took < known {
		took = known - (known-took)/16
	}
	c.trip.Store(int64(took))
}

// maxTrip is an upper bound for the round trip.
const maxTrip = 200 * time.Millisecond

// roundTrip returns how long a call of the store takes, or 0 if it is not on a network.
func (c *connection) roundTrip() int64 { return c.trip.Load() }
