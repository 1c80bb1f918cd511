package engine // cells

import (
	"math"
	"math/bits"
	"math/rand/v2"
	"sync/atomic"
	"unsafe"

	"github.com/caddy-tally/caddy-tally/internal/engine/table"
	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/storage"
)

// cells are the cells of an engine, and what few of them need.
type cells struct {
	table.Table
	rares  table.Numbered[rare]
	limits limits
	give   func(cell) *batch // gives back the lease of a locked cell that is to be removed
	claims claimCount
}

func newCells(max int, give func(cell) *batch) *cells {
	t := &cells{give: give}
	t.Init(max, t,
		table.Kind{Text: unsafe.Offsetof(slotBody{}.first)},
		table.Kind{Text: unsafe.Sizeof(bucketBody{})},
		table.Kind{Text: unsafe.Offsetof(clientBody{}.text), New: func(text []byte) *table.Entry {
			return &(&clientBody{text: text}).Entry
		}})
	return t
}

// cell is the state of one key of one limit in memory. The zero cell is none.
//
// Invariants: the units of lease are charged to the store and not spent. In the store period named
// by the cell, the used units of its lease are at least all that are in use of the key, for as long
// as they count. Exceptions are claims of the cell that are under way, and units admitted by
// memory. A dead cell is in no table, holds no lease, and is not used again. A cell with claims in
// flight is neither evicted nor moved.
type cell struct {
	*body
	table *cells // where the body is, or was
}

// body is what memory holds of every cell.
//
// The fields used by most decisions come first, and there are no pointers: see [table.Entry]. What few
// cells need is in the table's rares, and found by its number. What only some kinds of cells need follows
// the body in memory, see ofSlots.
//
// A cell may move to a new body. Everything that keeps a cell while it isn't locked takes this into account:
//
//   - Requests, and pending ones, take another body for a dead one: the present body of the key
//     (request.lock, cells.lock).
//   - Entries of batches, notes of lent leases, and walks through the table follow a moved cell
//     (cell.lockPresent). So an answer of the store reaches the cell, and a walk misses none.
//   - Readers of blocks follow it without a lock (cell.blocks).
//   - Cells with claims in flight or held units are pinned, and those of clients have bodies of
//     their own. They are not moved.
//   - A use or a refusal counted during the move may be lost.
type body struct {
	table.Entry

	lease    lease // guarded by the lock, like all below except refused: unspent units, and the known state of the rest
	known    knowledge
	headroom headroom
	refused  tally  // requests, since the cell was made
	lapsed   uint32 // of the lease; only renewals have a span, and at most maxRenewal units
	limitIs  uint16 // the number of the last limit of a request, or of the last chosen one; 0 if there was none
}

// The kinds of cells: what they count, and so what follows their bodies.
const (
	ofSlots  uint8 = iota // the rest of a slotBody, with the text
	ofBucket              // leaseParts, and the text
	ofClient              // clientState, see clientBody
)

// kindOf returns the kind of a limit's cells. All limits with one ID have the same.
func kindOf(limit *Limit) uint8 {
	if limit.CountsSlots() {
		return ofSlots
	}
	return ofBucket
}

// slotBody, bucketBody and clientBody are the bodies of these kinds with what follows them.
type (
	slotBody struct {
		body
		// guarded by the lock, like span and phase: the number of slots that the last lease was charged ahead, up to
		// 255
		ahead uint8
		span  uint8   // of the lease
		phase uint8   // when in its slot the lease was granted, in 256ths
		first [5]byte // of the text
	}
	bucketBody struct {
		body
		parts leaseParts // guarded by the lock
	}
	clientBody struct {
		body
		clientState
		text []byte
	}
)

// knowledge says in which period of the store the lease of a cell counts all units in use of the
// key. name is then the name of the key, until a time in seconds since the Unix epoch that was
// never set; 0 if the name never changes. For a client it is the name under which its record was
// read.
type knowledge struct {
	period, until uint32
	name          storage.Key
}

// of returns the cell of an entry, which may be nil.
func (t *cells) of(e *table.Entry) cell { return cell{(*body)(unsafe.Pointer(e)), t} }

// find returns the cell of a key, if there is one. It takes no lock.
func (t *cells) find(id storage.LimitID, key []byte) cell { return t.of(t.Find(id, key)) }

// add returns the cell of a key. It makes one if there is none, and may evict another one for it.
func (t *cells) add(kind uint8, id storage.LimitID, key []byte) cell {
	return t.of(t.Add(kind, id, key))
}

// lock locks a cell and returns it. If it was moved or evicted, lock returns the present cell of its key.
func (t *cells) lock(c cell) cell { return t.of(t.LockAdded(&c.Entry)) }

// each calls f for every cell, see [table.Table.Each].
func (t *cells) each(f func(cell)) { t.Each(func(e *table.Entry) { f(t.of(e)) }) }

// text returns the text of the key. Callers must not change it.
func (c cell) text() []byte { return c.table.Text(&c.Entry) }

// key returns a copy of the key's text.
func (c cell) key() string { return string(c.text()) }

// client returns the state of a client, or nil if the cell is one of a limit.
func (b *body) client() *clientState {
	if b.Kind() != ofClient {
		return nil
	}
	return &(*clientBody)(unsafe.Pointer(b)).clientState
}

// slotsLocked returns the rest of the body of a limit with slots, or nil.
func (b *body) slotsLocked() *slotBody {
	if b.Kind() != ofSlots {
		return nil
	}
	return (*slotBody)(unsafe.Pointer(b))
}

// partsLocked returns the parts of units in the lease of a token bucket, or nil.
func (b *body) partsLocked() *leaseParts {
	if b.Kind() != ofBucket {
		return nil
	}
	return &(*bucketBody)(unsafe.Pointer(b)).parts
}

// isSame reports whether two cells are those of one key.
func (c cell) isSame(other cell) bool { return c.table.IsSame(&c.Entry, &other.Entry) }

// exists reports whether there is a cell.
func (c cell) exists() bool { return c.body != nil }

// lockPresent locks a cell, and returns it with its present body if it was moved. The cell is dead
// if it was evicted.
func (c cell) lockPresent() cell { return c.table.of(c.table.LockMoved(&c.Entry)) }

// limit returns the last limit of a request, or the last chosen one, or nil if nothing was ever
// claimed. The cell must be locked.
func (c cell) limit() *Limit {
	if c.limitIs != otherLimit {
		return c.table.limits.at(c.limitIs)
	}
	return c.rare().limit // of a dead cell nil
}

// setLimitLocked sets the limit.
func (c cell) setLimitLocked(limit *Limit) {
	if current := c.limit(); c.Dead() || current != nil && *current == *limit {
		return
	}
	was := c.limitIs
	if c.limitIs = c.table.limits.number(limit); c.limitIs == otherLimit || was == otherLimit {
		c.changeRareLocked(func(r *busy) {
			if r.limit = nil; c.limitIs == otherLimit {
				r.limit = limit
			}
		})
	}
}

// setLocalLocked sets the state of decisions without the store.
func (c cell) setLocalLocked(local *local) {
	if c.Dead() {
		return
	}
	c.changeRareLocked(func(r *busy) { r.local = local })
}

// spendableLocked reports whether the lease covers a debit. Units that may be given back are spent
// in the slot they are charged to, and not from a lease that was charged ahead or spread: giving that
// back would move them.
func (b *body) spendableLocked(d *Debit, now int64) bool {
	lease := b.leaseLocked()
	return lease.Worth(&d.Limit.Rate, now) >= d.Cost &&
		(d.Counting == Always || !d.Limit.CountsSlots() || lease.At <= d.Limit.Slot(now) && lease.Span == 0)
}

// spendLocked takes a debit from the lease, which must cover it.
func (b *body) spendLocked(d *Debit, now int64) {
	lease := b.leaseLocked()
	lease.SpendWorth(&d.Limit.Rate, now, d.Cost)
	b.setLeaseLocked(lease)
	d.Known, d.at = true, lease.SpentAt(&d.Limit.Rate, now)
	d.Quota = lease.Quota(&d.Limit.Rate, now)
}

// settlesLocked returns how many units giving the lease back makes free.
func (c cell) settlesLocked(now int64) int64 {
	limit := c.limit()
	if limit == nil {
		return 0 // nothing was ever claimed
	}
	return c.leaseLocked().Settles(&limit.Rate, now)
}

// takeLeaseLocked takes the lease out of the cell, for giving it back.
func (c cell) takeLeaseLocked() limiter.Lease {
	limit := c.limit()
	if limit == nil {
		return limiter.Lease{} // nothing was ever claimed
	}
	lease := c.leaseLocked()
	taken := lease.Take(&limit.Rate)
	c.setLeaseLocked(lease)
	return taken
}

// tally counts events, even very many of them on all processors at a time. It is exact up to
// exactTally. Beyond, it counts a random sample with a higher weight, so that few events write to
// shared memory. Its standard error is then less than 1.2 %. It stops at the largest value that
// fits.
type tally struct{ counted atomic.Uint32 }

// exactTally is the number of events up to which a tally is exact.
const exactTally = 1 << 12

// add counts one event.
func (t *tally) add() { t.addBy(rand.Uint32) }

// addBy counts one event with a source of random numbers.
func (t *tally) addBy(random func() uint32) {
	counted := t.counted.Load()
	if counted < exactTally {
		t.counted.Add(1)
		return
	}
	step := uint32(1) << (bits.Len32(counted/exactTally) - 1) // the power of two up to that part
	if random()%step == 0 && counted < math.MaxUint32-2*step {
		t.counted.Add(step)
	}
}

// count returns the number of events.
func (t *tally) count() int64 { return int64(t.counted.Load()) }

// claimCount counts claims that were granted at once, in parts that processors don't share.
type claimCount [64]struct {
	n atomic.Int64
	_ [56]byte
}

func (cc *claimCount) add() { cc[rand.Uint32()%uint32(len(cc))].n.Add(1) }

// sum returns the number of claims.
func (cc *claimCount) sum() (n int64) {
	for i := range cc {
		n += cc[i].n.Load()
	}
	return n
}
