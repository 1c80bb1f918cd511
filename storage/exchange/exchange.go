package exchange

import (
	"context"
	"errors"
	"time"

	"github.com/caddy-tally/caddy-tally/limiter/region"
	"github.com/caddy-tally/caddy-tally/storage"
)

// Row is a count of one component: units of a key of a limit, in a group.
type Row struct {
	Limit storage.LimitID
	Key   storage.Key
	Group int64
	region.Component
	// Units is the number of units that the component has admitted in the group, at least 1.
	Units int64
	// Expires is the time from which on the group counts in no region, in nanoseconds since the Unix
	// epoch.
	Expires int64
}

// Ban says that a client is banned.
type Ban struct {
	Key storage.Key
	// Until is the end of the ban, in nanoseconds since the Unix epoch.
	Until int64
	// Region is the region that has published the latest end.
	Region string
}

// Member is a machine of a region that uses an exchange.
type Member struct {
	region.Component
	// Now is the machine's time, in nanoseconds since the Unix epoch. Rows that have expired by the times
	// of all members may be deleted.
	Now int64
}

// Neighbor describes a region to the others.
type Neighbor struct {
	Region string
	// Machines is the number of machines of the region that use the exchange.
	Machines int
	// Lag is the time since the last call of Meet by one of them, by the clock of the exchange.
	Lag time.Duration
}

// Met is the result of [Exchange.Meet].
type Met struct {
	// ID identifies the exchange. If it changes, or if Seq is lower than before, the exchange has lost
	// published rows.
	ID, Seq int64
	// Machines are the machines of the member's region that called Meet in the last half minute,
	// including its own, in ascending order.
	Machines []int64
	// Regions are all recently active regions, including the member's own, in the order of their names.
	Regions []Neighbor
}

// News has the changes since a sequence number.
type News struct {
	Rows []Row
	Bans []Ban
	// Seq is the number of the last change: the next Collect continues after it.
	Seq int64
	// More reports whether there are more changes.
	More bool
}

// Exchange carries counts between regions. Its methods are called by one goroutine. They return
// when their context ends.
type Exchange interface {
	// Meet registers a member as present, and returns the others.
	Meet(ctx context.Context, m Member) (Met, error)

	// Publish writes rows and bans, all or none. It doesn't change rows with at least as many units, or
	// bans with a later end. No two rows have the same component, key and group, and no two bans the same
	// key.
	Publish(ctx context.Context, rows []Row, bans []Ban) error

	// Collect returns the changes after a sequence number, at most limit rows and as many bans, in the
	// order of their numbers, without those by the component itself. If a row has changed several times,
	// it returns the last state.
	Collect(ctx context.Context, own region.Component, after int64, limit int) (News, error)

	// Sweep deletes some of the rows and bans that have expired for all members, and members that have
	// gone without calling Leave.
	Sweep(ctx context.Context) error

	// Leave unregisters a member.
	Leave(ctx context.Context, m Member) error

	// Close closes the exchange.
	Close() error
}

// Opener opens an exchange. It is called again after a fault.
type Opener func(ctx context.Context) (Exchange, error)

// ErrForeign says that the place of the exchange has other data, or that of a newer version. It was left as it was.
var ErrForeign = errors.New("not an exchange of this version of caddy-tally")
