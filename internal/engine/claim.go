package engine // store

import (
	"time"

	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/limiter/reputation"
	"github.com/caddy-tally/caddy-tally/storage"
)

// claim sends the claims of a part of a batch to the store, and sets the time of the batch.
func (w *writer) claim(p *part) error {
	b := p.batch
	w.current = b
	defer func() { w.current = nil }()
	b.era = w.clock.Line().Era
	t, err := w.conn.inTerms(func(store storage.Store, term *storage.Term) error {
		if b.now = term.Time.Now; b.era != term.Era {
			b.era = term.Era
			b.beginEra(b.now)
		}
		return w.claimIn(p, store, term)
	})
	b.now, b.taken = t.Now, w.conn.stamp.Elapsed
	if err != nil {
		b.now, b.taken = w.clock.Now(), w.opts.Clock.Elapsed()
	}
	return err
}

// claimIn is claim within a term. A failure leaves no results. Records are read first, or together
// with the claims if that saves a round trip.
func (w *writer) claimIn(p *part, store storage.Store, term *storage.Term) error {
	period := w.conn.period()
	network := w.conn.network()
	together := network != nil
	read, err := w.namesOf(p, term)
	if err != nil {
		return err
	}
	records := make([]reputation.Record, len(read))
	if !together {
		if err := w.readClients(p, store, term, read, records); err != nil {
			return err
		}
	}
	p.scale(together)
	claims, err := w.claimsOf(p, term)
	if err != nil {
		return err
	}
	grants := w.grants[:len(claims)]
	ctx, cancel := w.conn.call()
	defer cancel()
	start := time.Now()
	if together {
		err = network.ClaimFor(ctx, term, read, records, claims, grants)
	} else {
		err = store.Claim(ctx, term, claims, grants)
	}
	if err != nil {
		return err
	}
	w.conn.noteTrip(time.Since(start))
	w.answers.Add(1)
	w.claimed.Add(int64(len(claims)))
	if together {
		p.learn(read, records)
	}
	if period != w.conn.period() {
		period = 0
	}
	for i, entry := range p.entries {
		entry.grant, entry.period = grants[i], period
	}
	for _, c := range p.clients {
		c.client().period.Store(period)
	}
	return nil
}

// namesOf returns the names of the clients whose records are to be read.
func (w *writer) namesOf(p *part, term *storage.Term) (names []storage.Client, err error) {
	if len(p.clients) == 0 {
		return nil, nil
	}
	names = make([]storage.Client, len(p.clients))
	for i, c := range p.clients {
		if names[i], err = w.clientOf(c, term, p.now); err != nil {
			return nil, err
		}
	}
	return names, nil
}

// readClients reads the records of clients.
func (w *writer) readClients(p *part, store storage.Store, term *storage.Term, names []storage.Client,
	records []reputation.Record) error {
	if len(names) == 0 {
		return nil
	}
	ctx, cancel := w.conn.call()
	defer cancel()
	if err := store.Records(ctx, term, names, records); err != nil {
		return err
	}
	p.now = term.Time.Now
	p.learn(names, records)
	return nil
}

// learn notes the store's records of the clients of a part.
func (p *part) learn(names []storage.Client, records []reputation.Record) {
	for i, c := range p.clients {
		c.Lock()
		c.known.name = names[i].Key
		c.Unlock()
		c.client().learn(records[i], 0)
	}
}

// scale chooses the limits of the entries by the records of their clients, as far as these are
// known. If records are read together with the claims, a request whose client's record makes a
// difference claims again.
func (p *part) scale(together bool) {
	for _, en := range p.entries {
		en.scale(p.now, together)
	}
}

// scale chooses the limit of an entry by the records of its clients.
func (e *entry) scale(now int64, together bool) {
	if !e.client.exists() {
		return
	}
	known := e.knowsClients()
	if e.assumed = together || !known; known {
		e.limit = lowered(e.scaling.limit(e.client, e.parent, now), e.beside, now)
	}
}

// knowsClients reports whether the records that scale the limit are in memory.
func (e *entry) knowsClients() bool {
	return e.client.client().record.Load() != nil && (!e.parent.exists() || e.parent.client().record.Load() != nil)
}

// claimsOf returns the claims of a part's entries, and makes room for as many grants.
func (w *writer) claimsOf(p *part, term *storage.Term) ([]storage.Claim, error) {
	claims := w.claims[:0]
	for _, entry := range p.entries {
		claim, err := w.claimOf(entry, term, p.now)
		if err != nil {
			return nil, err
		}
		claims = append(claims, claim)
	}
	w.claims = claims
	if cap(w.grants) < len(claims) {
		w.grants = make([]limiter.Grant, len(claims), 2*len(claims))
	}
	return claims, nil
}

// claimOf returns the claim of an entry.
func (w *writer) claimOf(en *entry, term *storage.Term, now int64) (storage.Claim, error) {
	c := en.cell
	name, err := w.conn.nameOf(c.ID, c.key(), en.limit.Retention(), term, now)
	en.name = name
	return storage.Claim{
		ID: c.ID, Key: name.Key, Former: name.Former, Limit: en.limit.Rate,
		Claim: limiter.Claim{
			Now: now, Min: en.cost, Want: en.wanted, Extra: w.extraOf(en), Ahead: en.ahead, Spread: en.renews,
			Processes: w.conn.processes(), Lasts: w.lastsOf(en),
			Return: en.give, Charge: en.charge,
		},
	}, err
}

// extraOf returns how many units an entry claims for later use.
func (w *writer) extraOf(en *entry) int64 {
	if en.extra == 0 || w.conn.roundTrip() == 0 || en.limit.CountsSlots() {
		return en.extra
	}
	refill := refillOf(en.limit)
	if processes := w.conn.processes(); processes <= 1 {
		return min(en.extra, refill.in(int64(lasts))) // more would drain before it is spent
	} else if !en.renews {
		return min(en.extra, refill.in(en.limit.MaxLasts())/processes) // this machine's rate is unknown
	}
	return en.extra
}

// lastsOf returns how long the lease of an entry's token bucket should not drain. If a machine has
// the bucket for itself, drained units are not wasted.
func (w *writer) lastsOf(en *entry) int64 {
	if w.conn.roundTrip() == 0 || w.conn.processes() <= 1 {
		return 0
	}
	return en.limit.MaxLasts()
}

// clientOf returns a client as an argument for the store.
func (w *writer) clientOf(c cell, term *storage.Term, now int64) (client storage.Client, err error) {
	id, retention := c.recordScope()
	name, err := w.conn.nameOf(id, c.key(), retention, term, now)
	return storage.Client{Key: name.Key, Former: name.Former}, err
}

// clientRetention is how long one name of a client finds its record. In that time a score of 0
// recovers completely, and a ban of a day is forgotten. Longer bans outlast it if the client comes
// back in between.
const clientRetention = 48 * time.Hour
