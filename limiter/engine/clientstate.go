package engine

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddy-tally/caddy-tally/limiter/reputation"
	"github.com/caddy-tally/caddy-tally/storage"
)

// Client is whom a request is from, where that makes a difference: what it has
// done before may scale its limits, or ban it.
type Client struct {
	// Key is the full text of what the client is known by. The engine copies it
	// if it keeps it.
	Key []byte

	// Parent is a client that this one is a part of, or nil: a ban of the parent
	// holds for this one as well, and what the parent has done scales its limits. What
	// this one does is no concern of the parent's. A parent has no parent itself, and
	// one key always has the same.
	Parent *Client

	cell *cell
}

// Scaling says how a limit and the way its client stands affect each other.
// The engine holds on to the pointer it is given; nobody may change what it
// points to.
type Scaling struct {
	// Levels is the limit for each level of a client: all have one ID, and the
	// first has the full amount.
	Levels [reputation.Levels]*Limit
	// Banned is the limit while the client of the debit is banned, if the request is
	// from another client; for its own, a ban is a refusal. It has the ID of the
	// others. Nil means that of the level.
	Banned *Limit
	// Points is what a violation of the limit takes off the client's score.
	Points int
	// Zone is noted with a violation.
	Zone uint32
	// Ban is when a client is banned for violations.
	Ban reputation.Ban
}

// clientsID is the scope of the names of clients. It is the ID of no limit, but
// by a chance of one in 2^64.
const clientsID storage.LimitID = 0

// clientState is what memory knows of the way a client stands.
type clientState struct {
	record atomic.Pointer[reputation.Record] // immutable, written under mu; nil until it was read
	noted  atomic.Pointer[reputation.Record] // likewise: the offenses from before it was read; nil if there were none
	asked  uint64                            // guarded by queue.mu: the number of the last batch to read it
	told   atomic.Int64                      // the end of the last ban that has refused a request

	mu       sync.Mutex
	pending  int       // guarded by mu: offenses that record has and the store may not have
	attempts []attempt // guarded by mu: for each limit that has refused the client
}

// record returns what is known of the client, or nil if it must be read first.
func (c *Client) record() *reputation.Record {
	if c.cell == nil {
		return nil
	}
	return c.cell.client.record.Load()
}

// known reports whether it is known how the client and its parent stand.
func (c *Client) known() bool {
	return c.record() != nil && (c.Parent == nil || c.Parent.record() != nil)
}

// banned returns the standing of the client, or else of its parent, if memory knows
// that to be banned, and nil if it doesn't.
func (c *Client) banned(now int64) *clientState {
	for ; c != nil; c = c.Parent {
		if c.cell != nil && c.cell.client.bannedAt(now) {
			return c.cell.client
		}
	}
	return nil
}

// client returns the cell of the debit's client, or nil if it has none.
func (d *Debit) client() *cell {
	if d.Client == nil {
		return nil
	}
	return d.Client.cell
}

// parent returns the cell of the parent of the debit's client, or nil if it has
// none.
func (d *Debit) parent() *cell {
	if d.Client == nil || d.Client.Parent == nil {
		return nil
	}
	return d.Client.Parent.cell
}

// applyClients scales the debits by the way their clients stand, and refuses all if the
// one that the request is from is banned. It notes whether all of that is known.
func (e *Engine) applyClients(r *request) {
	r.known = true
	if r.client != nil {
		e.findClients(r.client)
		r.known = r.client.known()
		if banned := r.client.banned(r.now); banned != nil {
			until := banned.bannedUntil()
			r.Reason, r.Retry = Banned, time.Duration(until-r.now)
			r.Fresh = banned.isFirstRefusal(until)
			return
		}
	}
	for i := range r.debits {
		debit := &r.debits[i]
		if debit.Client == nil {
			continue
		}
		e.findClients(debit.Client)
		if debit.Client.known() {
			debit.Limit = debit.Scaling.limit(debit.client(), debit.parent(), r.now)
		} else {
			r.known = false
		}
	}
}

// findClients finds the cells of a client and its parent.
func (e *Engine) findClients(client *Client) {
	for ; client != nil; client = client.Parent {
		e.findClient(client)
	}
}

// findClient returns what memory knows of a client, or nil.
func (e *Engine) findClient(client *Client) *reputation.Record {
	if client.cell == nil {
		client.cell = e.table.find(clientsID, client.Key)
		if client.cell != nil {
			client.cell.touch()
		}
	}
	return client.record()
}

// CachedRecord returns what memory knows of the way a client stands, or nil if it knows
// nothing. Nobody may change it.
func (e *Engine) CachedRecord(client Client) *reputation.Record {
	if record := e.findClient(&client); record != nil || client.cell == nil {
		return record
	}
	return client.cell.client.noted.Load()
}

// limit returns the limit for a client and its parent, if it has one. It must be
// known how they stand.
func (f *Scaling) limit(client, parent *cell, now int64) *Limit {
	record := client.client.record.Load()
	if f.Banned != nil && record.Banned(now) {
		return f.Banned
	}
	level := record.LevelAt(now)
	if parent != nil {
		level = max(level, parent.client.record.Load().LevelAt(now))
	}
	return f.Levels[level]
}

// ensureClients makes cells for all clients of a request that have none.
func (e *Engine) ensureClients(r *request) {
	e.ensureClient(r.client)
	for i := range r.debits {
		e.ensureClient(r.debits[i].Client)
	}
}

// ensureClient makes cells for a client and its parent, if they have none.
func (e *Engine) ensureClient(client *Client) {
	for ; client != nil; client = client.Parent {
		if e.findClient(client) == nil && client.cell == nil {
			client.cell = e.table.add(clientsID, client.Key)
		}
	}
}

// readLocked has it read with the batch, which must be open, how a client and its
// parent stand: for the first time, or again, since other processes may have
// punished them.
func (b *batch) readLocked(client *Client) {
	for ; client != nil; client = client.Parent {
		if st := client.cell.client; st.asked != b.number {
			st.asked = b.number
			b.clients = append(b.clients, client.cell)
		}
	}
}

// readClients reads how the clients of a batch stand, and scales what is claimed
// for them.
func (e *Engine) readClients(b *batch, store storage.Store, term *storage.Term) error {
	if len(b.clients) == 0 {
		return nil
	}
	names := make([]storage.Client, len(b.clients))
	for i, c := range b.clients {
		var err error
		if names[i], err = e.clientOf(c, term, b.now); err != nil {
			return err
		}
	}
	records := make([]reputation.Record, len(names))
	if err := store.Records(context.Background(), names, b.now, records); err != nil {
		return err
	}
	b.now = term.Time.Now
	for i, c := range b.clients {
		c.client.learn(records[i], 0)
	}
	for _, en := range b.entries {
		if en.client != nil {
			en.limit = en.scaling.limit(en.client, en.parent, b.now)
		}
	}
	return nil
}

// clientOf returns a client as the store takes it.
func (e *Engine) clientOf(c *cell, term *storage.Term, now int64) (client storage.Client, err error) {
	name, err := e.nameOf(c, clientRetention, term, now)
	return storage.Client{Key: name.Key, Former: name.Former}, err
}

// clientRetention is how long a client's standing is known by one name. In
// that time a score of 0 is whole again, and a ban of a day is forgotten. Longer
// bans outlast it if the client comes back in between.
const clientRetention = 48 * time.Hour

// learn notes what the store knows of a client once it has seen a number of the
// offenses that were pending. While there are more of them, memory knows better,
// as it does where the store has lost what it knew.
func (st *clientState) learn(record reputation.Record, seen int) {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.pending -= seen
	known := st.record.Load()
	switch {
	case known == nil:
		if noted := st.noted.Load(); noted != nil { // the store may be about to be told of it
			record.Until = max(record.Until, noted.Until)
		}
	case st.pending > 0 || known.Exceeds(record):
		return
	}
	st.record.Store(&record)
	st.noted.Store(nil)
}

// forget gives up on offenses of which it is unknown whether the store has seen
// them.
func (st *clientState) forget(offenses int) {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.pending -= offenses
}

// isFirstRefusal tells whether a ban that ends at until refuses for the first time.
func (st *clientState) isFirstRefusal(until int64) bool {
	return st.told.Load() != until && st.told.Swap(until) != until
}

// says tells whether anything bad is known of a client. It is false for a cell
// that is none of a client.
func (st *clientState) hasRecord() bool {
	if st == nil {
		return false
	}
	if record := st.record.Load(); record != nil {
		return record.Expires() > 0
	}
	return st.noted.Load() != nil
}

// bannedUntil returns when the last ban ends that is known of, or 0. A ban holds
// from its offense on, also while it is not known what else the client has done.
func (st *clientState) bannedUntil() int64 {
	noted := st.noted.Load() // first: learn replaces it by a record that has its ban
	record := st.record.Load()
	switch {
	case record != nil:
		return record.Until
	case noted != nil:
		return noted.Until
	}
	return 0
}

// bannedAt tells whether a client is known to be banned at now.
func (st *clientState) bannedAt(now int64) bool {
	return st != nil && now < st.bannedUntil()
}
