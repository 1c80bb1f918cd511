package engine // store

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/caddy-tally/caddy-tally/limiter"
)

// batch is a group of claims that go to the store in one transaction.
type batch struct {
	number   uint64        // counted from 1 by the queue; it holds no reference to the batch
	entries  []*entry      // entries that only give back come first, see giveLocked
	gives    int           // the number of those
	renewals int           // the number of renewals, see renewLocked
	clients  []cell        // whose records are read first
	done     chan struct{} // closed when the fields below are final
	now      int64         // the store's time of the decisions
	era      int64         // of that time
	taken    int64         // the elapsed time then
	err      error         // from the store: nothing was granted
}

// maxRenewals is how many leases a batch renews at most, so that its waiting requests don't wait
// for all keys in use. It is half of a usual call ([storage.Network.MaxBatch]); the other half is
// for these requests.
const maxRenewals = 64

// part is the part of a batch that one call of the store answers.
type part struct {
	*batch
	entries []*entry
	clients []cell
}

// first takes a part of the maximum size of a call out of a part.
func (p *part) first(most int) part {
	entries, clients := min(len(p.entries), most), min(len(p.clients), most)
	first := part{p.batch, p.entries[:entries], p.clients[:clients]}
	p.entries, p.clients = p.entries[entries:], p.clients[clients:]
	return first
}

func (p *part) isEmpty() bool { return len(p.entries) == 0 && len(p.clients) == 0 }

// size is the amount of work in a batch.
func (b *batch) size() int { return max(len(b.entries), len(b.clients)) }

// cells returns the cells of a batch, which may be nil. Evicted cells are in no table any more.
func (b *batch) cells() (cells []cell) {
	if b == nil {
		return nil
	}
	for _, en := range b.entries {
		cells = append(cells, en.cell)
	}
	return cells
}

// await waits until the batch is done and returns its error. It returns errTimeout after the
// timeout, and context.Canceled if ctx ends, for whatever reason.
func (b *batch) await(ctx context.Context, timeout *time.Timer) error {
	select {
	case <-b.done:
		return b.err
	case <-ctx.Done():
		return context.Canceled
	case <-timeout.C:
	}
	select {
	case <-b.done:
		timeout.Reset(0) // a request that waits again waits no longer
		return b.err
	default:
		return errTimeout
	}
}

// entry is one claim of a batch. The queue's lock guards it while its batch is open. Then it
// belongs to the committer. After the batch is done it doesn't change any more.
type entry struct {
	cell       cell
	limit      *Limit
	client     cell     // its record scales the limit; none if none does
	parent     cell     // its record scales the limit as well, or nil
	scaling    *Scaling // the way of scaling
	beside     Foreign  // the usage that lowers the limit; nil if there is none
	batch      *batch
	cost       int64 // of every request that waits for this claim
	wanted     int64 // sum of all these requests
	afterwards int64 // part of wanted for requests that don't wait
	counting   Counting
	unawaited  bool // made by such requests alone
	extra      int64
	ahead      int64
	renews     bool // a renewal: no request waits for it
	refunds    bool // fewer units are in use after it than memory knows
	assumed    bool // the limit was chosen before the client's record was read
	give       limiter.Lease
	given      int64 // units of the cell that the batch gives back, noted in the cell's last entry
	charge     limiter.Charge
	news       bool // the charge: memory doesn't count it yet
	grant      limiter.Grant
	name       Name        // of the key, at the time of the batch
	usage      usage       // of the key, if the cell knew it
	period     uint32      // of the store, in which the claim was answered; or 0
	held       int64       // units of the key that this process held when the claim was refused
	fresh      atomic.Bool // the refusal is news, and no decision has reported it yet
}

// refused reports whether the claim is finally refused. It is not if the units that this process
// held of the key may suffice. If they can't suffice, a request that has tried only once still
// claims again: without the held units, its retry time is exact.
func (e *entry) refused(twice bool) bool {
	if e.cost == 0 || e.grant.Units > 0 {
		return false
	}
	return e.held == 0 || twice && e.grant.Lease.Left(&e.limit.Rate)+e.held < e.cost
}

// holdsFor reports whether the claim was made with the limit in force for a debit, now that the
// record of its client is known. Otherwise a refusal means nothing. A request that claims again
// knew the record before.
func (e *entry) holdsFor(d *Debit, again bool) bool {
	return !e.assumed || again || *e.limit == *d.Limit
}

// claimLocked adds a claim for a debit's missing units to the open batch. The cell must be locked
// and stays so.
func (b *batch) claimLocked(c cell, d *Debit, now int64) *entry {
	client := d.client()
	if e := c.rare().open; e != nil && e.batch == b && e.cost == d.Cost &&
		(e.limit == d.Limit || *e.limit == *d.Limit) && e.client == client &&
		(e.ahead == 0 || d.Counting == Always) && !e.renews {
		e.wanted += d.Cost
		e.counting = max(e.counting, d.Counting)
		e.unawaited = false
		return e
	}
	b.chargeLocked(c)
	lease, known := c.leaseLocked(), c.usageLocked()
	ahead := c.headroom.adapt(d.Limit, &lease, now, false)
	if d.Counting != Always {
		ahead = 0
	}
	e := &entry{
		cell: c, limit: d.Limit, batch: b,
		cost: d.Cost, wanted: d.Cost, counting: d.Counting,
		extra: int64(c.headroom.units), ahead: ahead,
		client: client, parent: d.parent(), scaling: d.Scaling, beside: d.Foreign,
		usage: known,
	}
	b.giveWithLocked(e, now)
	c.setLimitLocked(d.Limit)
	c.changeRareLocked(func(r *busy) {
		r.open = e
		r.inFlight++
	})
	b.entries = append(b.entries, e)
	return e
}

// giveWithLocked gives back the lease of a new claim's cell: with the claim if it is the cell's
// first in the batch, and otherwise before all claims.
func (b *batch) giveWithLocked(e *entry, now int64) {
	c := e.cell
	if settles := c.settlesLocked(now); settles > 0 {
		if b.entryOf(c) == nil {
			e.give, e.given = c.takeLeaseLocked(), settles
			return
		}
		b.giveLocked(c, c.limit(), c.takeLeaseLocked(), settles, usage{})
	}
	if last := b.entryOf(c); last != nil {
		e.given = last.given
	}
}

// giveLocked adds a returned lease to the batch, before all claims, so that none of them is refused
// for lack of it. The cell must be locked. known is what the cell knew before the lease left it.
func (b *batch) giveLocked(c cell, limit *Limit, lease limiter.Lease, settles int64, known usage) {
	e := &entry{cell: c, limit: limit, batch: b, give: lease, usage: known}
	b.entries = slices.Insert(b.entries, b.gives, e)
	b.gives++
	if b.entryOf(c) == nil {
		c.changeRareLocked(func(r *busy) { r.open = e })
	}
	c.rare().open.given += settles
}

// entryOf returns the last entry of a locked cell in the batch, or nil.
func (b *batch) entryOf(c cell) *entry {
	if open := c.rare().open; open != nil && open.batch == b {
		return open
	}
	return nil
}

// readLocked schedules the records of a client and its parent to be read with the batch: for the
// first time, or again, because other processes may have punished them. The batch must be open.
func (b *batch) readLocked(client *Client) {
	for ; client != nil; client = client.Parent {
		b.readCellLocked(client.cell)
	}
}

// readCellLocked is readLocked for the cell of a client alone.
func (b *batch) readCellLocked(c cell) {
	if st := c.client(); st.readBy != b.number {
		st.readBy = b.number
		b.clients = append(b.clients, c)
	}
}
