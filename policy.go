package tally

import (
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/caddy-tally/caddy-tally/internal/httpfield"
	"github.com/caddy-tally/caddy-tally/internal/meter"
	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/limiter/engine"
	"github.com/caddy-tally/caddy-tally/storage"
)

// newPolicy prepares what is written about a limit into header fields.
func newPolicy(name string, limit engine.Limit) *policy {
	quoted := httpfield.String(name)
	p := &policy{
		Limit:  limit,
		name:   name,
		item:   quoted + ";r=",
		legacy: strconv.FormatInt(limit.Amount(), 10),
	}
	p.field = fmt.Sprintf("%s;q=%d;w=%d", quoted, limit.Amount(), httpfield.Seconds(limit.Window()))
	if limit.Capacity() != limit.Amount() {
		p.field += fmt.Sprintf(";burst=%d", limit.Capacity())
	}
	return p
}

// add adds a limit to the set.
func (s *limitSet) add(p *policy) {
	if p.shadow {
		s.shadows = append(s.shadows, p)
	} else {
		s.policies = append(s.policies, p)
	}
}

// joinFields returns the value of RateLimit-Policy for several limits.
func joinFields(policies []*policy) string {
	items := make([]string, len(policies))
	for i, p := range policies {
		items[i] = p.field
	}
	return strings.Join(items, ", ")
}

// limit returns a limit that counts together with all others of its ID, however
// much their amounts differ: all of them have the same names for their keys.
func (a *App) limit(id storage.LimitID, l limiter.Limit) engine.Limit {
	if a.retentions == nil {
		a.retentions = make(map[storage.LimitID]*time.Duration)
	}
	if a.retentions[id] == nil {
		a.retentions[id] = new(time.Duration)
	}
	*a.retentions[id] = max(*a.retentions[id], l.Retention())
	return engine.Limit{ID: id, Limit: l, LongestRetention: a.retentions[id]}
}

// limitID names a limit by all that its counts depend on. nth tells limits apart
// that are alike in all of it.
func limitID(zone string, kind Limit, nth uint64) storage.LimitID {
	id := binary.BigEndian.AppendUint64(nil, uint64(len(zone)))
	id = append(id, zone...)
	id = append(id, kind.Algorithm...)
	for _, n := range []uint64{uint64(kind.Window), uint64(kind.Slots), nth} {
		id = binary.BigEndian.AppendUint64(id, n)
	}
	id = append(id, kind.Timezone...)
	return storage.LimitID(xxhash.Sum64(id))
}

// newMeter returns the counters of a limit.
func (p *policy) newMeter() meter.Limit {
	if p.shadow {
		return meter.NewShadow(p.zone.Name, p.name)
	}
	return meter.NewLimit(p.zone.Name, p.name)
}
