package engine

import (
	"context"
	"time"

	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/limiter/reputation"
	"github.com/caddy-tally/caddy-tally/storage"
)

// claim asks the store for what the entries of a batch want, and sets the time of
// the batch.
func (m *committer) claim(b *batch) error {
	m.current = b
	defer func() { m.current = nil }()
	b.era = m.clock.line.Load().Era
	t, err := m.conn.inTerms(func(in storage.Store, term *storage.Term) error {
		if b.now = term.Time.Now; b.era != term.Era {
			b.era = term.Era
			b.beginEra(b.now)
		}
		return m.claimIn(b, in, term)
	})
	b.now, b.taken = t.Now, m.conn.stamp.elapsed
	if err != nil {
		b.now, b.taken = m.clock.now(), m.opts.Clock.Elapsed()
	}
	return err
}

// claimIn is a claim within a term, of which nothing is known if it fails.
func (m *committer) claimIn(b *batch, store storage.Store, term *storage.Term) error {
	period := m.conn.period()
	if err := m.readClients(b, store, term); err != nil {
		return err
	}
	claims := m.claims[:0]
	for _, entry := range b.entries {
		claim, err := m.claimOf(entry, term, b.now)
		if err != nil {
			return err
		}
		claims = append(claims, claim)
	}
	m.claims = claims
	if cap(m.grants) < len(claims) {
		m.grants = make([]limiter.Grant, len(claims), 2*len(claims))
	}
	grants := m.grants[:len(claims)]
	if err := store.Claim(context.Background(), claims, grants); err != nil {
		return err
	}
	m.answers.Add(1)
	m.claimed.Add(int64(len(claims)))
	if period != m.conn.period() {
		period = 0
	}
	for i, entry := range b.entries {
		entry.grant, entry.period = grants[i], period
	}
	for _, c := range b.clients {
		c.client().period.Store(period)
	}
	return nil
}

// readClients reads the records of the clients of a batch, and scales what is claimed
// for them.
func (m *committer) readClients(b *batch, store storage.Store, term *storage.Term) error {
	if len(b.clients) == 0 {
		return nil
	}
	names := make([]storage.Client, len(b.clients))
	for i, c := range b.clients {
		var err error
		if names[i], err = m.clientOf(c, term, b.now); err != nil {
			return err
		}
	}
	records := make([]reputation.Record, len(names))
	if err := store.Records(context.Background(), names, b.now, records); err != nil {
		return err
	}
	b.now = term.Time.Now
	for i, c := range b.clients {
		c.client().learn(records[i], 0)
	}
	for _, en := range b.entries {
		if en.client != nil {
			en.limit = lowered(en.scaling.limit(en.client, en.parent, b.now), en.beside, b.now)
		}
	}
	return nil
}

// claimOf returns an entry as the store takes it.
func (m *committer) claimOf(en *entry, term *storage.Term, now int64) (storage.Claim, error) {
	c := en.cell
	name, err := m.conn.nameOf(c.id, c.key(), en.limit.Retention(), term, now)
	en.name = name
	return storage.Claim{
		ID: c.id, Key: name.Key, Former: name.Former, Limit: en.limit.Limit,
		Claim: limiter.Claim{
			Now: now, Min: en.cost, Want: en.wanted, Extra: en.extra, Ahead: en.ahead,
			Return: en.give, Charge: en.charge,
		},
	}, err
}

// clientOf returns a client as the store takes it.
func (m *committer) clientOf(c *cell, term *storage.Term, now int64) (client storage.Client, err error) {
	name, err := m.conn.nameOf(c.id, c.key(), clientRetention, term, now)
	return storage.Client{Key: name.Key, Former: name.Former}, err
}

// clientRetention is how long a client's record is known by one name. In
// that time a score of 0 is whole again, and a ban of a day is forgotten. Longer
// bans outlast it if the client comes back in between.
const clientRetention = 48 * time.Hour
