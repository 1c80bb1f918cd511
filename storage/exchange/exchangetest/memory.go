// Package exchangetest has a test suite for implementations of [exchange.Exchange], and an
// implementation in memory for tests of its users.
package exchangetest

import (
	"bytes"
	"cmp"
	"context"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/caddy-tally/caddy-tally/limiter/region"
	"github.com/caddy-tally/caddy-tally/storage"
	"github.com/caddy-tally/caddy-tally/storage/exchange"
)

// Memory is an exchange in memory. The zero value is empty. It may be used by several members at
// a time. Its clock is that of the process.
type Memory struct {
	// SweepRows is how many rows a sweep deletes at most; zero means 10,000. It is set before use.
	SweepRows int

	mu      sync.Mutex
	fault   func(call string) error // guarded by mu, as all below
	id, seq int64
	rows    map[rowKey]row
	bans    map[banKey]ban
	members map[region.Component]member
}

type rowKey struct {
	limit storage.LimitID
	key   storage.Key
	group int64
	owner region.Component
}

type row struct{ units, expires, seq int64 }

type banKey struct {
	key    storage.Key
	region string
}

type ban struct {
	exchange.Ban
	seq int64
}

type member struct {
	exchange.Member
	seen time.Time
	gone bool
}

// Fail makes each call return the result of f for its name, before it does anything, unless that is
// nil. A nil f ends this.
func (m *Memory) Fail(f func(call string) error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.fault = f
}

// Lose loses all data, as if the exchange were replaced by an empty one.
func (m *Memory) Lose() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.rows, m.seq = nil, 0
}

// Rows returns the number of rows.
func (m *Memory) Rows() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.rows)
}

// enter locks the exchange for a call, or returns the error of an injected fault.
func (m *Memory) enter(ctx context.Context, call string) (leave func(), err error) {
	m.mu.Lock()
	if err = ctx.Err(); err == nil && m.fault != nil {
		err = m.fault(call)
	}
	if err != nil {
		m.mu.Unlock()
		return nil, err
	}
	if m.rows == nil {
		m.rows, m.bans = make(map[rowKey]row), make(map[banKey]ban)
		m.members = make(map[region.Component]member)
		m.id = rand.Int64()
	}
	return m.mu.Unlock, nil
}

// Meet implements [exchange.Exchange].
func (m *Memory) Meet(ctx context.Context, self exchange.Member) (met exchange.Met, err error) {
	leave, err := m.enter(ctx, "meet")
	if err != nil {
		return met, err
	}
	defer leave()
	now := time.Now()
	m.members[self.Component] = member{Member: self, seen: now}
	type marks struct {
		region           string
		secret, database storage.Key
	}
	neighbors := make(map[marks]exchange.Neighbor)
	for c, seen := range m.members {
		lag, at := now.Sub(seen.seen), marks{c.Region, seen.Secret, seen.Database}
		n, known := neighbors[at]
		n.Region, n.Secret, n.Database = at.region, at.secret, at.database
		if !known || lag < n.Lag {
			n.Lag = lag
		}
		if c.Region == self.Region && lag <= 30*time.Second && !seen.gone {
			met.Machines = append(met.Machines, c.Machine)
		}
		switch {
		case seen.gone:
		case lag >= self.Patience:
			n.Gone++
		default:
			n.Machines++
			if ahead := time.Duration(seen.Now - seen.seen.UnixNano()); ahead.Abs() > n.Ahead.Abs() {
				n.Ahead = ahead
			}
		}
		neighbors[at] = n
	}
	slices.Sort(met.Machines)
	met.ID, met.Seq, met.Now = m.id, m.seq, now.UnixNano()
	met.Neighbors = slices.SortedFunc(maps.Values(neighbors), func(a, b exchange.Neighbor) int {
		return cmp.Or(cmp.Compare(a.Region, b.Region), bytes.Compare(a.Secret[:], b.Secret[:]),
			bytes.Compare(a.Database[:], b.Database[:]))
	})
	return met, nil
}

// Publish implements [exchange.Exchange].
func (m *Memory) Publish(ctx context.Context, rows []exchange.Row, bans []exchange.Ban) error {
	leave, err := m.enter(ctx, "publish")
	if err != nil {
		return err
	}
	defer leave()
	for _, r := range rows {
		key := rowKey{r.Limit, r.Key, r.Group, r.Component}
		if r.Units > m.rows[key].units {
			m.seq++
			m.rows[key] = row{r.Units, r.Expires, m.seq}
		}
	}
	for _, b := range bans {
		was, changed := m.bans[banKey{b.Key, b.Region}].Ban, b
		if was.At >= b.At {
			changed.At, changed.Until = was.At, was.Until
		}
		changed.Lifted, changed.Keep = max(was.Lifted, b.Lifted), max(was.Keep, b.Keep)
		if changed != was {
			m.seq++
			m.bans[banKey{b.Key, b.Region}] = ban{changed, m.seq}
		}
	}
	return nil
}

// Collect implements [exchange.Exchange].
func (m *Memory) Collect(ctx context.Context, own region.Component, after int64, limit int) (news exchange.News,
	err error) {
	leave, err := m.enter(ctx, "collect")
	if err != nil {
		return news, err
	}
	defer leave()
	type change struct {
		seq int64
		row *exchange.Row
		ban *exchange.Ban
	}
	var changes []change
	for key, r := range m.rows {
		if r.seq > after && key.owner != own {
			changes = append(changes,
				change{seq: r.seq, row: &exchange.Row{Limit: key.limit, Key: key.key, Group: key.group,
					Component: key.owner, Units: r.units, Expires: r.expires}})
		}
	}
	for _, b := range m.bans {
		if b.seq > after {
			changes = append(changes, change{seq: b.seq, ban: &b.Ban})
		}
	}
	slices.SortFunc(changes, func(a, b change) int { return cmp.Compare(a.seq, b.seq) })
	news.Seq = m.seq
	if news.More = len(changes) > limit; news.More {
		changes = changes[:limit]
		news.Seq = changes[limit-1].seq
	}
	for _, c := range changes {
		if c.row != nil {
			news.Rows = append(news.Rows, *c.row)
		} else {
			news.Bans = append(news.Bans, *c.ban)
		}
	}
	return news, nil
}

// Sweep implements [exchange.Exchange].
func (m *Memory) Sweep(ctx context.Context) (more bool, err error) {
	leave, err := m.enter(ctx, "sweep")
	if err != nil {
		return false, err
	}
	defer leave()
	now := time.Now()
	earliest, least := int64(math.MaxInt64), now.Add(-exchange.MaxBehind).UnixNano()
	for c, machine := range m.members {
		switch silent := now.Sub(machine.seen); {
		case silent > 24*time.Hour:
			delete(m.members, c)
		case !machine.gone && silent < time.Hour:
			earliest = min(earliest, machine.Now)
		}
	}
	if earliest == math.MaxInt64 {
		earliest = least
	}
	earliest = max(earliest, least)
	deleted, most := 0, cmp.Or(m.SweepRows, 10_000)
	maps.DeleteFunc(m.rows, func(_ rowKey, r row) bool {
		expired := r.expires <= earliest && deleted < most
		if expired {
			deleted++
		}
		return expired
	})
	maps.DeleteFunc(m.bans, func(_ banKey, b ban) bool { return b.Keep <= earliest })
	return deleted == most, nil
}

// Leave implements [exchange.Exchange].
func (m *Memory) Leave(ctx context.Context, self exchange.Member) error {
	leave, err := m.enter(ctx, "leave")
	if err != nil {
		return err
	}
	defer leave()
	if member, known := m.members[self.Component]; known {
		member.gone = true
		m.members[self.Component] = member
	}
	return nil
}

// Close implements [exchange.Exchange].
func (m *Memory) Close() error { return nil }

// Interface guard
var _ exchange.Exchange = (*Memory)(nil)
