package engine

import (
	"context"
	"errors"
	"slices"
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

	cell *cell
}

// Fairness says how a limit and the way its client stands affect each other.
// The engine holds on to the pointer it is given; nobody may change what it
// points to.
type Fairness struct {
	// Levels is the limit for each level of a client: all have one ID, and the
	// first has the full amount.
	Levels [reputation.Levels]*Limit
	// Banned is the limit while the client of the draw is banned, if the request is
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

// standing is what memory knows of the way a client stands.
type standing struct {
	record atomic.Pointer[reputation.Record] // immutable, written under mu; nil until it was read
	asked  uint64                            // guarded by queue.mu: the number of the last batch to read it

	mu       sync.Mutex
	unread   reputation.Record // guarded by mu: what was noted before there is a record
	pending  int               // guarded by mu: offenses that record has and the store may not have
	attempts []attempt         // guarded by mu: for each limit that has refused the client
}

// attempt counts the units that a limit has refused to a client in one window.
type attempt struct {
	id     storage.LimitID
	window int64
	units  int64
}

// maxAttempts bounds the limits that attempts are counted for at a time.
const maxAttempts = 16

// leastWindow is the least time between two violations of one limit. With less,
// a client that is a little too fast for a limit per second would be a criminal
// in half a minute.
const leastWindow = time.Minute

// record returns what is known of the client, or nil if it must be read first.
func (c *Client) record() *reputation.Record {
	if c.cell == nil {
		return nil
	}
	return c.cell.standing.record.Load()
}

// client returns the cell of the draw's client, or nil if it has none.
func (d *Draw) client() *cell {
	if d.Client == nil {
		return nil
	}
	return d.Client.cell
}

// stands scales the draws by the way their clients stand, and refuses all if the
// one that the request is from is banned. It is false if something of that must
// be read first.
func (e *Engine) stands(client *Client, draws []Draw, now int64, d *Decision) (known bool) {
	known = true
	if client != nil {
		record := e.recall(client)
		if record != nil && record.Banned(now) {
			d.Reason, d.Retry = Banned, time.Duration(record.Until-now)
			return true
		}
		known = record != nil
	}
	for i := range draws {
		draw := &draws[i]
		if draw.Client == nil {
			continue
		}
		if record := e.recall(draw.Client); record != nil {
			draw.Limit = draw.Fair.limit(record, now)
		} else {
			known = false
		}
	}
	return known
}

// recall returns what memory knows of a client, or nil.
func (e *Engine) recall(client *Client) *reputation.Record {
	if client.cell == nil {
		client.cell = e.table.find(clientsID, client.Key)
		if client.cell != nil {
			client.cell.touch()
		}
	}
	return client.record()
}

// limit returns the limit for a client.
func (f *Fairness) limit(record *reputation.Record, now int64) *Limit {
	if f.Banned != nil && record.Banned(now) {
		return f.Banned
	}
	return f.Levels[record.LevelAt(now)]
}

// meetAll makes cells for all clients of a request that have none.
func (e *Engine) meetAll(client *Client, draws []Draw) {
	e.meet(client)
	for i := range draws {
		e.meet(draws[i].Client)
	}
}

func (e *Engine) meet(client *Client) {
	if client != nil && e.recall(client) == nil && client.cell == nil {
		c, back := e.table.add(clientsID, client.Key)
		e.giveBack(back)
		client.cell = c
	}
}

// askLocked has it read with the batch, which must be open, how a client stands:
// for the first time, or again, since other processes may have punished it.
func (b *batch) askLocked(client *Client) {
	if client == nil {
		return
	}
	if st := client.cell.standing; st.asked != b.number {
		st.asked = b.number
		b.clients = append(b.clients, client.cell)
	}
}

// readClients reads how the clients of a batch stand, and scales what is claimed
// for them.
func (e *Engine) readClients(b *batch, store storage.Store) error {
	if len(b.clients) == 0 {
		return nil
	}
	names := make([]storage.Client, len(b.clients))
	for i, c := range b.clients {
		var err error
		if names[i], err = e.clientOf(c, b.now); err != nil {
			return err
		}
	}
	records := make([]reputation.Record, len(names))
	if err := store.Standings(context.Background(), names, b.now, records); err != nil {
		return err
	}
	for i, c := range b.clients {
		c.standing.learn(records[i], 0)
	}
	for _, en := range b.entries {
		if en.client != nil {
			en.limit = en.fair.limit(en.client.standing.record.Load(), b.now)
		}
	}
	return nil
}

// clientOf returns a client as the store takes it.
func (e *Engine) clientOf(c *cell, now int64) (client storage.Client, err error) {
	client.Key, client.Former, err = e.opts.Name(c.id, c.key, standingRemembered, now)
	return client, err
}

// standingRemembered is how long a client's standing is known by one name. In
// that time a score of 0 is whole again, and a ban of a day is forgotten. Longer
// bans outlast it if the client comes back in between.
const standingRemembered = 48 * time.Hour

// learn notes what the store knows of a client once it has seen a number of the
// offenses that were pending. While there are more of them, memory knows better,
// as it does where the store has lost what it knew.
func (st *standing) learn(record reputation.Record, seen int) {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.pending -= seen
	known := st.record.Load()
	if known == nil || st.pending == 0 && !known.Exceeds(record) {
		st.record.Store(&record)
		st.unread = reputation.Record{}
	}
}

// forget gives up on offenses of which it is unknown whether the store has seen
// them.
func (st *standing) forget(offenses int) {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.pending -= offenses
}

// blame notes that clients were refused by limits, and punishes them where they
// tried for more than the whole limit of a client that stands well, once for
// each limit and window. It tells whether that changes what can be had.
func (e *Engine) blame(client *Client, draws []Draw, now int64) (changed bool) {
	punished := false
	for i := range draws {
		draw := &draws[i]
		if draw.Client == nil || !draw.refused || draw.Client.record() == nil ||
			draw.Fair.Points == 0 && draw.Fair.Ban.After == 0 || !draw.Client.cell.standing.violates(draw, now) {
			continue
		}
		punished = true
		e.Punish(draw.Client, reputation.Offense{
			Violation: reputation.Violation{At: now, Zone: draw.Fair.Zone, Reason: reputation.OverLimit},
			Points:    draw.Fair.Points,
			Ban:       draw.Fair.Ban,
		})
	}
	return punished && haveChanged(client, draws, now)
}

// haveChanged tells whether clients stand otherwise than they did when it was
// decided about their request.
func haveChanged(client *Client, draws []Draw, now int64) bool {
	if client != nil {
		if record := client.record(); record != nil && record.Banned(now) {
			return true
		}
	}
	for i := range draws {
		draw := &draws[i]
		if draw.Client == nil {
			continue
		}
		if record := draw.Client.record(); record != nil && draw.Fair.limit(record, now) != draw.Limit {
			return true
		}
	}
	return false
}

// violates counts a refused draw, and tells whether it is the one with which the
// client has tried for more than the whole limit in this window.
func (st *standing) violates(d *Draw, now int64) bool {
	whole := d.Fair.Levels[reputation.Low]
	window := now / int64(max(whole.Window(), leastWindow))
	spare := whole.Capacity() - d.Limit.Capacity()

	st.mu.Lock()
	defer st.mu.Unlock()
	a := st.attemptLocked(whole.ID)
	if a.window != window {
		a.window, a.units = window, 0
	}
	before := a.units
	a.units = min(a.units+d.Cost, whole.Capacity()) // it says no more beyond
	if before > spare || a.units <= spare {
		return false
	}
	a.units = whole.Capacity() // more than there is to spare, however the level falls
	return true
}

// attemptLocked returns the count for a limit, in the place of the oldest if
// there are too many.
func (st *standing) attemptLocked(id storage.LimitID) *attempt {
	oldest := 0
	for i := range st.attempts {
		if st.attempts[i].id == id {
			return &st.attempts[i]
		}
		if st.attempts[i].window < st.attempts[oldest].window {
			oldest = i
		}
	}
	if len(st.attempts) < maxAttempts {
		oldest = len(st.attempts)
		st.attempts = append(st.attempts, attempt{})
	}
	st.attempts[oldest] = attempt{id: id, window: -1}
	return &st.attempts[oldest]
}

// leastBetween is the least time between two offenses of one client for one
// reason that are both noted, so that a flood makes no flood of writes.
const leastBetween = time.Second

// Punish commits an offense of a client, at once in memory if it is known how
// the client stands, and soon in the store. It does not wait. A second offense
// for the same reason within a second is one with the first.
func (e *Engine) Punish(client *Client, o reputation.Offense) {
	e.meet(client)
	if o.At == 0 {
		o.At = e.clock.now()
	}
	noted, banned := e.commitOffense(offense{client.cell, o})
	if noted {
		e.queue.poke()
		e.opts.Observer.Punished(o.Reason, banned)
	}
}

// commitOffense notes an offense in memory and for the store, and tells whether
// it did and whether that is known to have led to a ban.
func (e *Engine) commitOffense(o offense) (noted, banned bool) {
	st := o.cell.standing
	st.mu.Lock()
	defer st.mu.Unlock()
	known := st.record.Load()
	record := st.unread
	if known != nil {
		record = *known
	}
	if record.Banned(o.At) || o.At-record.Last(o.Reason) < int64(leastBetween) {
		return false, false
	}
	banned = record.Commit(o.Offense)
	if known != nil {
		st.record.Store(&record)
	} else {
		st.unread, banned = record, false // what else it has done is not known
	}
	if e.offenses.add(o) {
		st.pending++
	}
	return true, banned
}

// offense is one that the store is to be told of.
type offense struct {
	cell *cell
	reputation.Offense
}

// offenses waits for the committer. While the store can't be used it fills up,
// and then what comes is known to memory only.
type offenses struct {
	mu      sync.Mutex
	waiting []offense // guarded by mu
}

const (
	maxOffenses  = 1 << 14 // that wait
	offenseBatch = 256     // that are put to the store in one transaction
)

func (os *offenses) add(o offense) (added bool) {
	os.mu.Lock()
	defer os.mu.Unlock()
	if len(os.waiting) >= maxOffenses {
		return false
	}
	os.waiting = append(os.waiting, o)
	return true
}

// first returns the first of those that wait, which stay.
func (os *offenses) first() []offense {
	os.mu.Lock()
	defer os.mu.Unlock()
	return slices.Clone(os.waiting[:min(len(os.waiting), offenseBatch)])
}

// remove takes the first n away.
func (os *offenses) remove(n int) {
	os.mu.Lock()
	defer os.mu.Unlock()
	os.waiting = slices.Delete(os.waiting, 0, n)
}

// punish tells the store of all offenses that wait.
func (e *Engine) punish() error {
	for {
		if more, err := e.punishSome(); err != nil || !more {
			return err
		}
	}
}

// punishSome tells the store of the first offenses that wait, in one transaction,
// and whether there may be more.
func (e *Engine) punishSome() (more bool, err error) {
	store, waiting := e.store.Load(), e.offenses.first()
	if len(waiting) == 0 {
		return false, nil
	}
	if store == nil {
		return false, errNoStore
	}
	now := e.clock.now()
	told := make([]storage.Offense, len(waiting))
	for i, o := range waiting {
		client, err := e.clientOf(o.cell, now)
		if err != nil {
			return false, err
		}
		told[i] = storage.Offense{Client: client, Offense: o.Offense}
	}
	records := make([]reputation.Record, len(told))
	err = store.Punish(context.Background(), told, records)
	if err != nil && !errors.Is(err, storage.ErrUnknownOutcome) {
		return false, err
	}
	e.offenses.remove(len(waiting))
	for i, o := range waiting {
		if err == nil {
			o.cell.standing.learn(records[i], 1)
		} else {
			o.cell.standing.forget(1)
		}
	}
	return len(waiting) == offenseBatch, err
}

// says tells whether anything bad is known of a client. It is false for a cell
// that is none of a client.
func (st *standing) says() bool {
	if st == nil {
		return false
	}
	record := st.record.Load()
	return record != nil && record.Expires() > 0
}

// bannedAt tells whether a client is known to be banned at now.
func (st *standing) bannedAt(now int64) bool {
	if st == nil {
		return false
	}
	record := st.record.Load()
	return record != nil && record.Banned(now)
}
