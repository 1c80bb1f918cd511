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

// Ban is what a region knows of its bans of a client, and of those that its operators have lifted. A region
// has one row for each client. All times are by the clock of the exchange, in nanoseconds since the Unix
// epoch; see [Met].
type Ban struct {
	Key    storage.Key
	Region string
	// At is when the region last banned the client, and Until the end of that ban.
	At, Until int64
	// Lifted is when an operator of the region last lifted the client's bans. It ends those of all regions
	// that aren't later.
	Lifted int64
	// Keep is when the row may be deleted: when the bans have ended that it says something about.
	Keep int64
}

// Member is a machine of a region that uses an exchange.
type Member struct {
	region.Component
	// Now is the machine's time, in nanoseconds since the Unix epoch. Rows that have expired by the times
	// of all members may be deleted.
	Now int64
	// Secret and Database are marks: equal for machines with the same secret, and with the same database.
	Secret, Database storage.Key
	// Patience is for how long another member may be silent before it counts as gone.
	Patience time.Duration
}

// Neighbor describes the machines of a region with one secret and one database.
type Neighbor struct {
	Region           string
	Secret, Database storage.Key
	// Machines is the number of machines that use the exchange, and Gone the number of those that have
	// gone within a day without calling Leave.
	Machines, Gone int
	// Lag is the time since the last call of Meet by one of them, by the clock of the exchange.
	Lag time.Duration
	// Ahead is how far the clock of a machine is ahead of the exchange's, negative if it is behind: of
	// those that use the exchange, the one that differs most.
	Ahead time.Duration
}

// Met is the result of [Exchange.Meet].
type Met struct {
	// ID identifies the exchange. If it changes, or if Seq is lower than before, the exchange has lost
	// published rows.
	ID, Seq int64
	// Now is the time of the exchange, in nanoseconds since the Unix epoch.
	Now int64
	// Machines are the machines of the member's region that called Meet in the last half minute,
	// including its own, in ascending order.
	Machines []int64
	// Neighbors are all machines that were active within a day, including the member's own, in the
	// order of their regions.
	Neighbors []Neighbor
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

	// Publish writes rows and bans, all or none. It doesn't change rows with at least as many units. Of a
	// ban it takes the later one with its end, and the latest Lifted and Keep. No two rows have the same
	// component, key and group, and no two bans the same key and region.
	Publish(ctx context.Context, rows []Row, bans []Ban) error

	// Collect returns the changes after a sequence number, at most limit rows and as many bans, in the
	// order of their numbers, without rows of the component itself. If a row has changed several times,
	// it returns the last state.
	Collect(ctx context.Context, own region.Component, after int64, limit int) (News, error)

	// Sweep deletes some of the rows and bans that have expired for all members, and members that were
	// silent for a day. It reports whether there may be more. Members whose clock is behind the exchange's
	// by more than MaxBehind delay nothing further.
	Sweep(ctx context.Context) (more bool, err error)

	// Leave notes that a member has published everything and is no longer active.
	Leave(ctx context.Context, m Member) error

	// Close closes the exchange.
	Close() error
}

// MaxBehind is for how long after their end rows are kept for members whose clock is behind.
const MaxBehind = time.Hour

// Opener opens an exchange. It is called again after a fault.
type Opener func(ctx context.Context) (Exchange, error)

// ErrForeign says that the place of the exchange has other data, or that of a newer version. It was left as it was.
var ErrForeign = errors.New("not an exchange of this version of caddy-tally")
