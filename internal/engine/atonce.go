package engine // store

import (
	"errors"
	"slices"

	"github.com/caddy-tally/caddy-tally/internal/engine/clock"
	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/storage"
)

// While this process has the store to itself, the store may charge units at once that memory knows
// to be free. If the store is in memory no request waits: it claims the missing units while it holds
// the locks of its cells. A disk may hang, so a store that has one is asked by the committer, for all
// entries of a batch that know the usage of their keys ([writer.claimAtOnce]).

// atOnce is a moment at which claims may be granted at once.
type atOnce struct {
	store  storage.Local
	period uint32
	opts   *Options
	now    int64
	line   *clock.Line
}

// atOnce returns the current moment, if claims may be granted at once without waiting for a disk.
func (l *leases) atOnce() (at atOnce, ok bool) {
	at, ok = l.alone()
	return at, ok && !at.store.OnDisk()
}

// alone returns the current moment, if claims may be granted at once by whoever may wait for a disk.
func (l *leases) alone() (at atOnce, ok bool) {
	store := l.conn.store.Load()
	if store == nil || store.local == nil || l.degraded.Load() {
		return at, false
	}
	period := store.local.Period()
	if period == 0 {
		return at, false
	}
	now, line, ahead := l.clock.Moment()
	return atOnce{store: store.local, period: period, opts: l.opts, now: now, line: line}, !ahead
}

// spendAtOnceLocked claims at once the units that the leases lack, and allows the request if all
// are granted. The decision is then as of this moment. If only some were granted, they stay in the
// leases.
func (r *request) spendAtOnceLocked(e *Engine) bool {
	at, ok := e.committer.leases.atOnce()
	if !ok || !at.knowsClients(r) {
		return false
	}
	for i := range r.held {
		h := &r.held[i]
		debit := &r.debits[h.debit]
		if h.cell.spendableLocked(debit, at.now) {
			continue
		}
		if !at.claimLocked(h.cell, debit) {
			return false
		}
		e.table.claims.add()
	}
	r.now = at.now
	return r.spendLocked()
}

// knowsClients reports whether no other process can have punished a client of the request since its
// record was read.
func (at *atOnce) knowsClients(r *request) bool {
	if !at.knowsClient(r.client) {
		return false
	}
	for i := range r.debits {
		if d := &r.debits[i]; !at.knowsClient(d.Client) || d.Penalty != nil && (!d.record.exists() || !at.knowsRecord(d.record)) {
			return false
		}
	}
	return true
}

func (at *atOnce) knowsClient(client *Client) bool {
	for ; client != nil; client = client.Parent {
		if !client.cell.exists() || !at.knowsRecord(client.cell) {
			return false
		}
	}
	return true
}

// knowsRecord reports whether memory has the record of a client, or of none, and no other process can have
// changed it.
func (at *atOnce) knowsRecord(c cell) bool {
	return !c.exists() || c.client().record.Load() != nil && c.client().period.Load() == at.period
}

// learnLocked makes the short cells of a request, which are locked, know their keys if these are new.
func (at *atOnce) learnLocked(r *request) {
	for i := range r.held {
		if h := &r.held[i]; h.short {
			at.knowsLocked(h.cell, r.debits[h.debit].Limit)
		}
	}
}

// usage is what a cell knew about its key when it joined a batch.
type usage struct {
	knowledge
	lease limiter.Lease // counts all units in use in the period of the knowledge; no period if they are unknown
}

// usageLocked returns what a locked cell knows about its key. It knows nothing while others of its
// claims, charges or returned units are under way.
func (c cell) usageLocked() usage {
	if c.known.period == 0 || c.rare().open != nil || c.rare().inFlight > 0 || c.rare().local != nil {
		return usage{}
	}
	return usage{c.known, c.leaseLocked()}
}

// claimAtOnce claims at once for the entries of a batch that know the usage of their keys, delivers
// the grants, and returns the rest of the batch: the other entries, and the clients whose records others may
// have changed.
func (w *writer) claimAtOnce(b *batch) (rest part) {
	all := part{b, b.entries, b.clients}
	at, ok := w.leases.alone()
	if !ok || !at.store.OnDisk() {
		return all
	}
	known, claims := w.known[:0], w.knownClaims[:0]
	for _, en := range b.entries {
		if at.knowsEntry(en) {
			known, claims = append(known, en), append(claims, w.knownClaimOf(en, at.now))
		}
	}
	w.known, w.knownClaims = known, claims
	if len(known) == 0 {
		return all
	}
	err := at.store.ClaimAtOnce(at.period, at.line.Era, claims)
	b.now, b.era, b.taken = at.now, at.line.Era, w.clock.Elapsed()
	for _, en := range b.entries {
		var c *storage.KnownClaim
		if len(known) > 0 && known[0] == en {
			c, known, claims = &claims[0], known[1:], claims[1:]
		}
		switch {
		case c != nil && c.Done:
			en.grant, en.period, en.name = c.Grant, at.period, Name{Key: c.Key, Until: int64(en.usage.until) * second}
			w.leases.deliver(en, at.now)
			w.table.claims.add()
			w.answers.Add(1)
		default:
			if c != nil && errors.Is(err, storage.ErrUnknownOutcome) {
				en.give = limiter.Lease{} // the returned units may be free already
				en.forgetUsage()
			}
			rest.entries = append(rest.entries, en)
		}
	}
	if err == nil { // the period goes on
		b.clients = slices.DeleteFunc(b.clients, at.knowsRecord)
	}
	rest.batch, rest.clients = b, b.clients
	return rest
}

// forgetUsage makes the cell of an entry look its usage up again.
func (e *entry) forgetUsage() {
	c := e.lock()
	defer c.Unlock()
	c.known.period = 0
}

// knowsEntry reports whether an entry of a batch can be claimed at once.
func (at *atOnce) knowsEntry(en *entry) bool {
	if en.usage.period != at.period || en.charge.Units > 0 || en.renews || !at.knowsRecord(en.client) ||
		!at.knowsRecord(en.parent) {
		return false
	}
	return en.usage.until == 0 || at.now-at.line.Shift < int64(en.usage.until)*second
}

// knownClaimOf returns the claim of an entry that knows its key.
func (w *writer) knownClaimOf(en *entry, now int64) storage.KnownClaim {
	en.scale(now, false)
	claim := limiter.Claim{Now: now, Min: en.cost, Want: en.wanted, Extra: w.extraOf(en), Ahead: en.ahead,
		Return: en.give}
	return storage.KnownClaim{Known: en.usage.lease,
		Claim: storage.Claim{ID: en.cell.ID, Key: en.usage.name, Limit: en.limit.Rate, Claim: claim}}
}

// claimLocked claims for a debit that the lease of a locked cell does not cover.
func (at *atOnce) claimLocked(c cell, d *Debit) bool {
	if c.rare().open != nil || c.rare().inFlight > 0 || c.rare().local != nil || !at.knowsLocked(c, d.Limit) {
		return false
	}
	was, known := c.headroom, c.leaseLocked()
	claim := storage.Claim{ID: c.ID, Key: c.known.name, Limit: d.Limit.Rate}
	claim.Now, claim.Min, claim.Want = at.now, d.Cost, d.Cost
	if claim.Ahead = c.headroom.adapt(d.Limit, &known, at.now, true); d.Counting != Always {
		claim.Ahead = 0
	}
	claim.Extra = int64(c.headroom.units)
	if c.settlesLocked(at.now) > 0 {
		claim.Return = c.takeLeaseLocked()
	}
	done, changed := at.putLocked(c, d.Limit, claim, known)
	if !changed {
		c.headroom = was
	}
	return done
}

// giveBackLocked gives back the lease of a locked cell, which isn't empty, and reports whether the
// store has it. If not, the caller gives back the rest.
func (at *atOnce) giveBackLocked(c cell) bool {
	if c.known.period != at.period || c.rare().open != nil || c.rare().inFlight > 0 || c.rare().local != nil ||
		!at.knowsLocked(c, c.limit()) {
		return false
	}
	claim := storage.Claim{ID: c.ID, Key: c.known.name, Limit: c.limit().Rate}
	known := c.leaseLocked()
	claim.Now, claim.Return = at.now, c.takeLeaseLocked()
	done, _ := at.putLocked(c, c.limit(), claim, known)
	return done
}

// putLocked sends a claim of a locked cell to the store. The claim gives back the units taken out
// of the cell's lease. It reports whether the claim was granted, and whether it may have changed
// anything.
func (at *atOnce) putLocked(c cell, limit *Limit, claim storage.Claim, known limiter.Lease) (granted, changed bool) {
	claims := [1]storage.KnownClaim{{Claim: claim, Known: known}}
	err := at.store.ClaimAtOnce(at.period, at.line.Era, claims[:])
	switch grant := claims[0].Grant; {
	case claims[0].Done:
		c.setLimitLocked(limit)
		c.liftBlocksLocked(grant.InUse(), at.now)
		c.joinLocked(limit, grant.Lease)
		return true, true
	case err == nil || errors.Is(err, storage.ErrNotAtOnce):
		c.setLeaseLocked(known)
		return false, false
	default: // the returned units may be free already
		c.known.period = 0
		return false, true
	}
}

// knowsLocked reports whether a cell knows the name of its key and all units in use of it.
func (at *atOnce) knowsLocked(c cell, limit *Limit) bool {
	lasting := at.now - at.line.Shift
	if c.known.period == at.period {
		return c.known.until == 0 || lasting < int64(c.known.until)*second
	}
	if c.limit() != nil {
		return false // there were claims before this period
	}
	name, ok := at.nameAtOnce(c, limit, lasting)
	if !ok || name.Former != (storage.Key{}) && !at.store.IsNew(c.ID, at.line.Era, name.Former) ||
		!at.store.IsNew(c.ID, at.line.Era, name.Key) {
		return false
	}
	c.known = knowledgeOf(at.period, name)
	return true
}

const second = int64(1e9)

// knowledgeOf returns the knowledge of a cell whose lease, from now on and within a period, counts
// at least all units in use of its key.
func knowledgeOf(period uint32, name Name) knowledge {
	return knowledge{period: period, name: name.Key, until: uint32(min(name.Until/second, maxUntil))}
}

// maxUntil is the latest time that fits knowledge.until; the name is looked up again then.
const maxUntil = int64(1<<32 - 1)

// nameAtOnce returns the name of a cell's key, if it is available without waiting.
func (at *atOnce) nameAtOnce(c cell, limit *Limit, now int64) (Name, bool) {
	if at.opts.NameAtOnce == nil {
		return Name{}, false
	}
	return at.opts.NameAtOnce(c.ID, c.key(), limit.Retention(), now)
}
