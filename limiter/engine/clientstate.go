package engine

import (
	"sync"
	"sync/atomic"

	"github.com/caddy-tally/caddy-tally/limiter/reputation"
	"github.com/caddy-tally/caddy-tally/storage"
)

// Client is the sender of a request, where that makes a difference: what it has done
// before may scale its limits, or ban it.
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

// Scaling says how a client's record scales a limit, and how violations of the limit
// change the record.
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

// clientState is what memory knows of what a client has done.
type clientState struct {
	record   atomic.Pointer[reputation.Record] // immutable, written under mu; nil until it was read
	noted    atomic.Pointer[reputation.Record] // likewise: the offenses from before it was read; nil if there were none
	readBy   uint64                            // guarded by queue.mu: the number of the last batch that reads it
	reported atomic.Int64                      // the end of the last ban that has refused a request
	period   atomic.Uint32                     // of the store, since when nobody else can have changed the record; or 0

	mu       sync.Mutex
	pending  int       // guarded by mu: offenses that record has and the store may not have
	attempts []attempt // guarded by mu: for each limit that has refused the client
}

// record returns what is known of the client, or nil if it must be read first.
func (c *Client) record() *reputation.Record {
	if c.cell == nil {
		return nil
	}
	return c.cell.client().record.Load()
}

// known reports whether the records of the client and its parent are in memory.
func (c *Client) known() bool {
	return c.record() != nil && (c.Parent == nil || c.Parent.record() != nil)
}

// banned returns the state of the client, or else of its parent, if memory knows it to be
// banned. Otherwise it returns nil.
func (c *Client) banned(now int64) *clientState {
	for ; c != nil; c = c.Parent {
		if c.cell != nil && c.cell.client().bannedAt(now) {
			return c.cell.client()
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

// limit returns the limit for a client and its parent, if it has one. Their
// records must be known.
func (f *Scaling) limit(client, parent *cell, now int64) *Limit {
	record := client.client().record.Load()
	if f.Banned != nil && record.Banned(now) {
		return f.Banned
	}
	level := record.LevelAt(now)
	if parent != nil {
		level = max(level, parent.client().record.Load().LevelAt(now))
	}
	return f.Levels[level]
}

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
		if noted := st.noted.Load(); noted != nil { // the store may not have it yet
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

// isFirstRefusal reports whether a ban that ends at until refuses for the first time.
func (st *clientState) isFirstRefusal(until int64) bool {
	return st.reported.Load() != until && st.reported.Swap(until) != until
}

// hasRecord reports whether anything bad is known of a client. It is false for a cell
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

// bannedAt reports whether a client is known to be banned at now.
func (st *clientState) bannedAt(now int64) bool {
	return st != nil && now < st.bannedUntil()
}
