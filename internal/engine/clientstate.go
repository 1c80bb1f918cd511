package engine // cells

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddy-tally/caddy-tally/limiter/reputation"
	"github.com/caddy-tally/caddy-tally/storage"
)

// Client is the sender of a request. Its record may scale its limits, or ban it.
type Client struct {
	// Key is the full text that identifies the client. The engine copies it if it keeps it.
	Key []byte

	// Parent is a larger client that contains this one, or nil. A ban of the parent holds for this
	// client as well, and the parent's record also scales this client's limits. The record of this
	// client doesn't affect the parent. A parent has no parent itself, and a key always has the
	// same parent.
	Parent *Client

	cell cell
}

// Scaling says how a client's record scales a limit, and how violations of the limit change the
// record. The engine keeps the pointer; callers must not change the scaling behind it.
type Scaling struct {
	// Levels is the limit for each level of a client: all have one ID, and the
	// first has the full amount.
	Levels [reputation.Levels]*Limit
	// Banned is the limit while the client of the debit is banned, if the request is from another
	// client; for its own, a ban is a refusal. It has the ID of the others. Nil means the limit of
	// the level.
	Banned *Limit
	// Points is how much a violation of the limit lowers the client's score.
	Points int
	// Zone is noted with a violation.
	Zone uint32
	// Ban says when violations ban a client.
	Ban reputation.Ban
}

// Raise returns a copy of the scaling with raised limits.
func (s *Scaling) Raise(percent int) *Scaling {
	raised := *s
	for i, limit := range s.Levels {
		raised.Levels[i] = limit.Raise(percent)
	}
	if s.Banned != nil {
		raised.Banned = s.Banned.Raise(percent)
	}
	return &raised
}

// clientsID is the scope of the names of clients. The chance that a limit has this ID is 1 in 2^64.
const clientsID storage.LimitID = 0

// clientState is the state of a client in memory.
type clientState struct {
	record atomic.Pointer[reputation.Record] // immutable, written under mu; nil until it was read
	// likewise: offenses noted before the record was read; nil if there were none
	noted    atomic.Pointer[reputation.Record]
	readBy   uint64       // guarded by queue.mu: the number of the last batch that reads it
	reported atomic.Int64 // the end of the last ban that refused a request
	// of the store, since which no other process can have changed the record; or 0
	period    atomic.Uint32
	retention atomic.Int64 // of the key that goes over a limit, whose record this is; 0 if it is that of a client

	mu       sync.Mutex
	pending  int       // guarded by mu: offenses in record that the store may not have
	attempts []attempt // guarded by mu: for each limit that has refused the client
}

// recordScope returns the scope and the retention of the name of a record: those of clients, or those of the keys of
// the limit that has a penalty.
func (c cell) recordScope() (storage.LimitID, time.Duration) {
	if retention := c.client().retention.Load(); retention != 0 {
		return ^c.ID, time.Duration(retention)
	}
	return c.ID, clientRetention
}

// record returns the client's record, or nil if it must be read first.
func (c *Client) record() *reputation.Record {
	if !c.cell.exists() {
		return nil
	}
	return c.cell.client().record.Load()
}

// known reports whether the records of the client and its parent are in memory.
func (c *Client) known() bool {
	return c.record() != nil && (c.Parent == nil || c.Parent.record() != nil)
}

// banned returns the state of the client, or else of its parent, if memory knows that it is banned.
// Otherwise it returns nil.
func (c *Client) banned(now int64) *clientState {
	for ; c != nil; c = c.Parent {
		if c.cell.exists() && c.cell.client().bannedAt(now) {
			return c.cell.client()
		}
	}
	return nil
}

// client returns the cell of the debit's client, if it has one.
func (d *Debit) client() cell {
	if d.Client == nil {
		return cell{}
	}
	return d.Client.cell
}

// parent returns the cell of the parent of the debit's client, if it has one.
func (d *Debit) parent() cell {
	if d.Client == nil || d.Client.Parent == nil {
		return cell{}
	}
	return d.Client.Parent.cell
}

// limit returns the limit for a client and its parent, if it has one. Their records must be known.
func (s *Scaling) limit(client, parent cell, now int64) *Limit {
	record := client.client().record.Load()
	if s.Banned != nil && record.Banned(now) {
		return s.Banned
	}
	level := record.LevelAt(now)
	if parent.exists() {
		level = max(level, parent.client().record.Load().LevelAt(now))
	}
	return s.Levels[level]
}

// learn stores the record read from the store, which contains seen of the pending offenses. While
// more of them are pending, or if the store has lost data, the record in memory is better and
// stays.
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

// forget drops pending offenses whose outcome in the store is unknown.
func (st *clientState) forget(offenses int) {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.pending -= offenses
}

// isFirstRefusal reports whether this is the first refusal by the ban that ends at until.
func (st *clientState) isFirstRefusal(until int64) bool {
	return st.reported.Load() != until && st.reported.Swap(until) != until
}

// blockedFor returns for how much longer the key is blocked whose record this is, or 0.
func (st *clientState) blockedFor(now int64) time.Duration {
	if st == nil {
		return 0
	}
	record := st.record.Load()
	if record == nil {
		return 0
	}
	return time.Duration(max(record.Blocked()-now, 0))
}

// hasRecord reports whether the client has offenses. It is false for a cell of a limit.
func (st *clientState) hasRecord() bool {
	if st == nil {
		return false
	}
	if record := st.record.Load(); record != nil {
		return record.Expires() > 0
	}
	return st.noted.Load() != nil
}

// bannedUntil returns the end of the last known ban, or 0. A ban holds from its offense on, even
// before the rest of the client's record is known.
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
