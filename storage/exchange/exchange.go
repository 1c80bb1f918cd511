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
	// Units is how many the component has admitted in the group, at least 1.
	Units int64
	// Expires is the time from which on the group counts nowhere, in nanoseconds since the Unix
	// epoch.
	Expires int64
}

// Ban says that a client is banned.
type Ban struct {
	Key storage.Key
	// Until is when the ban ends, in nanoseconds since the Unix epoch.
	Until int64
	// Region is the one that has published the latest end.
	Region string
}

// Member is a machine of a region that uses an exchange.
type Member struct {
	region.Component
	// Now is the time that the machine goes by, in nanoseconds since the Unix epoch. What has
	// expired by the time of every member may be deleted.
	Now int64
}

// Neighbor is a region, as another one sees it.
type Neighbor struct {
	Region string
	// Machines is how many machines of the region use the exchange.
	Machines int
	// Lag is how long ago the last of them was heard of, by the clock of the exchange.
	Lag time.Duration
}

// Met is what a member learns when it says that it is there.
type Met struct {
	// ID is the exchange's own. Another one has lost what was published, and so has one whose
	// Seq is lower than before.
	ID, Seq int64
	// Machines is the machines of the member's region that were heard of in the last half minute,
	// its own among them, in ascending order.
	Machines []int64
	// Regions is all regions that were heard of lately, in the order of their names. The
	// member's own is among them.
	Regions []Neighbor
}

// News is what has changed since a sequence number.
type News struct {
	Rows []Row
	Bans []Ban
	// Seq is the number that all of that goes up to: the one to collect after next time.
	Seq int64
	// More reports whether there is more than was asked for.
	More bool
}

// Exchange carries counts between regions. Its methods are called by one goroutine. They return
// when their context ends.
type Exchange interface {
	// Meet notes that a member is there, and returns who is.
	Meet(ctx context.Context, m Member) (Met, error)

	// Publish writes rows and bans, all or none. A row that is there with as many units or more
	// stays as it is, and so does a ban with a later end. No two rows are of one component, key
	// and group, and no two bans of one key.
	Publish(ctx context.Context, rows []Row, bans []Ban) error

	// Collect returns what has changed after a sequence number, at most limit rows and as many
	// bans, in the order of their numbers. It leaves out what the component has written itself.
	// Of a row that has changed several times, it returns the last state.
	Collect(ctx context.Context, own region.Component, after int64, limit int) (News, error)

	// Sweep deletes some of the rows and bans that have expired for every member, and members
	// that have left without a word.
	Sweep(ctx context.Context) error

	// Leave notes that a member is not there any more.
	Leave(ctx context.Context, m Member) error

	// Close gives up the exchange.
	Close() error
}

// Opener opens an exchange. It is called again after a fault.
type Opener func(ctx context.Context) (Exchange, error)

// ErrForeign says that what was found in the place of the exchange is not one, or is a newer
// version's. It was left as it was.
var ErrForeign = errors.New("not an exchange of this version of caddy-tally")
