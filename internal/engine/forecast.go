package engine // operators

import (
	"context"
	"slices"
	"time"

	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/limiter/reputation"
	"github.com/caddy-tally/caddy-tally/storage"
)

// Forecast returns the decision that Decide would return, and changes nothing: it charges no unit
// and records no violation. It sets the same fields of the debits as Decide.
//
// It decides on copies of the state in memory, and asks the store for the grants of its claims. The
// forecast is true as long as no other request takes from the same keys meanwhile. If the store
// can't answer, the forecast is the decision of memory alone.
func (e *Engine) Forecast(ctx context.Context, client *Client, debits []Debit) Decision {
	e.committer.awaitOpen(ctx)
	r, err := beginForecast(ctx, e, keysOf(client, debits))
	if err != nil {
		return Decision{Reason: Abandoned}
	}
	go r.answer()
	defer r.end()
	unbind(client, debits)
	defer unbind(client, debits)
	return r.Decide(ctx, client, debits)
}

// unbind clears the cells of a request, for a decision by another engine.
func unbind(client *Client, debits []Debit) {
	client.unbind()
	for i := range debits {
		debits[i].cell, debits[i].record, debits[i].Pending = cell{}, cell{}, nil
		debits[i].Client.unbind()
	}
}

func (c *Client) unbind() {
	for ; c != nil; c = c.Parent {
		c.cell = cell{}
	}
}

// cellKey identifies a cell.
type cellKey struct {
	id  storage.LimitID
	key string
}

// keysOf returns copies of the keys of all cells that a request needs.
func keysOf(client *Client, debits []Debit) (keys []cellKey) {
	keys = client.appendKeys(nil)
	for i := range debits {
		keys = debits[i].Client.appendKeys(keys)
		keys = append(keys, cellKey{debits[i].Limit.ID, string(debits[i].Key)})
		if p := debits[i].Penalty; p != nil {
			keys = append(keys, cellKey{^p.Scope, string(debits[i].Key)})
		}
	}
	return keys
}

func (c *Client) appendKeys(keys []cellKey) []cellKey {
	for ; c != nil; c = c.Parent {
		keys = append(keys, cellKey{clientsID, string(c.Key)})
	}
	return keys
}

// forecastTimeout is how long a forecast waits for the store before memory decides alone.
const forecastTimeout = 2 * time.Second

// forecast is an engine on copies. The store answers its claims without charging them.
type forecast struct {
	Engine
	ended chan struct{}
}

// beginForecast returns a forecast of a request that needs some keys. It copies the state in
// memory while no call of the store is under way and nothing waits to be written, so that no unit
// counts twice. The error is that of ctx.
func beginForecast(ctx context.Context, e *Engine, keys []cellKey) (r *forecast, err error) {
	err = e.committer.queue.run(ctx, func() error {
		e.committer.tell()
		r = newForecast(e, keys)
		return nil
	})
	switch {
	case err == ErrUnavailable:
		return newForecast(e, keys), nil
	case err != nil:
		return nil, err
	}
	return r, nil
}

// tell writes everything that waits: offenses and the open batch.
func (cm *committer) tell() {
	if err := cm.writer.punish(); err != nil {
		cm.degrade(err)
	}
	if b := cm.queue.take(); b != nil {
		cm.commit(b)
	}
}

// newForecast returns a forecast with copies of the cells of some keys.
func newForecast(e *Engine, keys []cellKey) *forecast {
	r := &forecast{Engine: Engine{opts: e.opts, clock: e.clock.Copy(), stop: make(chan struct{})},
		ended: make(chan struct{})}
	r.opts.Observer, r.opts.StoreTimeout = noObserver{}, forecastTimeout
	r.opts.follow()

	m := &r.committer
	r.table = newCells(DefaultMaxKeys, m.leases.giveBackLocked)
	m.init(&r.opts, r.clock, r.table, r.stop, nil)
	m.starting.Stop()
	close(m.ready)
	m.outage.next.Store(e.committer.outage.next.Load())
	m.conn.presence.Store(e.committer.conn.presence.Load())
	m.conn.onNetwork.Store(e.committer.conn.onNetwork.Load())
	m.conn.resets.Store(e.committer.conn.resets.Load())
	m.conn.onReset = func() error { return storage.ErrTerm } // the next forecast takes the reset into account
	if store := e.committer.conn.store.Load(); store != nil && !e.committer.degraded.Load() {
		m.conn.store.Store(
			&opened{Store: &forecastStore{Store: store.Store, offenses: make(map[storage.Key][]reputation.Offense)}})
	} else {
		m.degraded.Store(true)
		m.queue.setClosed(true)
	}

	for _, k := range keys {
		c := e.table.find(k.id, []byte(k.key))
		switch {
		case !c.exists():
		case c.client() != nil:
			c.client().copyTo(r.table.add(c.Kind(), k.id, []byte(k.key)).client())
		default:
			c.copyTo(r.table.add(c.Kind(), k.id, []byte(k.key)))
		}
	}
	return r
}

// answer commits the claims of a forecast until the forecast ends.
func (r *forecast) answer() {
	defer close(r.ended)
	m := &r.committer
	for {
		select {
		case <-m.queue.woken:
			m.drain()
		case <-r.stop:
			return
		}
	}
}

func (r *forecast) end() {
	close(r.stop)
	<-r.ended
	m := &r.committer
	m.looking.Stop()
	m.reminder.Stop()
	m.gathering.Stop()
	m.probe.Stop()
}

// copyTo copies the state of a key, except for claims that are under way.
func (c cell) copyTo(to cell) {
	c = c.lockPresent()
	defer c.Unlock()
	to.headroom = c.headroom
	if limit := c.limit(); limit != nil {
		to.setLimitLocked(limit)
	}
	to.setLeaseLocked(c.leaseLocked())
	to.setBlocksLocked(c.blocks())
	if held := c.rare().holds; held != nil {
		to.changeRareLocked(func(r *busy) { r.holds = held.copied() })
	}
	if known := c.rare().local; known != nil {
		copied := &local{state: known.state, debts: slices.Clone(known.debts)}
		copied.state.Slots = slices.Clone(known.state.Slots)
		to.setLocalLocked(copied)
	}
}

// copyTo copies the state of a client.
func (st *clientState) copyTo(to *clientState) {
	st.mu.Lock()
	defer st.mu.Unlock()
	to.record.Store(st.record.Load())
	to.noted.Store(st.noted.Load())
	to.retention.Store(st.retention.Load())
	to.attempts = slices.Clone(st.attempts)
}

// forecastStore is a store that changes nothing. It remembers the offenses that it is given.
type forecastStore struct {
	storage.Store
	offenses map[storage.Key][]reputation.Offense
}

// Claim implements storage.Store.
func (p *forecastStore) Claim(ctx context.Context, term *storage.Term, claims []storage.Claim,
	grants []limiter.Grant) error {
	return p.Probe(ctx, term, claims, grants)
}

// Records implements storage.Store.
func (p *forecastStore) Records(ctx context.Context, term *storage.Term, clients []storage.Client,
	records []reputation.Record) error {
	if err := p.Store.Records(ctx, term, clients, records); err != nil {
		return err
	}
	for i, c := range clients {
		for _, o := range p.offenses[c.Key] {
			records[i].Commit(o)
		}
	}
	return nil
}

// Punish implements storage.Store.
func (p *forecastStore) Punish(ctx context.Context, term *storage.Term, offenses []storage.Offense,
	records []reputation.Record) error {
	for i, o := range offenses {
		if err := p.Records(ctx, term, []storage.Client{o.Client}, records[i:i+1]); err != nil {
			return err
		}
		records[i].Commit(o.Offense)
		p.offenses[o.Key] = append(p.offenses[o.Key], o.Offense)
	}
	return nil
}
