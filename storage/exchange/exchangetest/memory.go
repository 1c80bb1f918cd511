// Package exchangetest has a test suite for implementations of [exchange.Exchange], and an
// implementation in memory for tests of its users.
package exchangetest

import (
	"cmp"
	"context"
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
	mu      sync.Mutex
	fault   func(call string) error // guarded by mu, as all below
	id, seq int64
	rows    map[rowKey]row
	bans    map[storage.Key]ban
	members map[region.Component]member
}

type rowKey struct {
	limit storage.LimitID
	key   storage.Key
	group int64
	owner region.Component
}

type row struct{ units, expires, seq int64 }

type ban struct {
	until, seq int64
	region     string
}

type member struct {
	now  int64
	seen time.Time
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
		m.rows, m.bans = make(map[rowKey]row), make(map[storage.Key]ban)
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
	m.members[self.Component] = member{self.Now, now}
	regions := make(map[string]exchange.Neighbor)
	for c, seen := range m.members {
		lag := now.Sub(seen.seen)
		n, known := regions[c.Region]
		if !known || lag < n.Lag {
			n.Lag = lag
		}
		if c.Region == self.Region && lag <= 30*time.Second {
			met.Machines = append(met.Machines, c.Machine)
		}
		n.Region = c.Region
		n.Machines++
		regions[c.Region] = n
	}
	slices.Sort(met.Machines)
	met.ID, met.Seq = m.id, m.seq
	for _, n := range regions {
		met.Regions = append(met.Regions, n)
	}
	slices.SortFunc(met.Regions, func(a, b exchange.Neighbor) int { return cmp.Compare(a.Region, b.Region) })
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
		if b.Until > m.bans[b.Key].until {
			m.seq++
			m.bans[b.Key] = ban{b.Until, m.seq, b.Region}
		}
	}
	return nil
}

// Collect implements [exchange.Exchange].
func (m *Memory) Collect(ctx context.Context, own region.Component, after int64, limit int) (news exchange.News, err error) {
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
			changes = append(changes, change{seq: r.seq, row: &exchange.Row{Limit: key.limit, Key: key.key, Group: key.group, Component: key.owner, Units: r.units, Expires: r.expires}})
		}
	}
	for key, b := range m.bans {
		if b.seq > after && b.region != own.Region {
			changes = append(changes, change{seq: b.seq, ban: &exchange.Ban{Key: key, Until: b.until, Region: b.region}})
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
func (m *Memory) Sweep(ctx context.Context) error {
	leave, err := m.enter(ctx, "sweep")
	if err != nil || len(m.members) == 0 {
		if err == nil {
			leave()
		}
		return err
	}
	defer leave()
	var times []int64
	for _, machine := range m.members {
		times = append(times, machine.now)
	}
	earliest := slices.Min(times)
	for key, r := range m.rows {
		if r.expires <= earliest {
			delete(m.rows, key)
		}
	}
	for key, b := range m.bans {
		if b.until <= earliest {
			delete(m.bans, key)
		}
	}
	return nil
}

// Leave implements [exchange.Exchange].
func (m *Memory) Leave(ctx context.Context, self exchange.Member) error {
	leave, err := m.enter(ctx, "leave")
	if err != nil {
		return err
	}
	defer leave()
	delete(m.members, self.Component)
	return nil
}

// Close implements [exchange.Exchange].
func (m *Memory) Close() error { return nil }

// Interface guard
var _ exchange.Exchange = (*Memory)(nil)
