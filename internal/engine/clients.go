package engine // decision

import (
	"time"

	"github.com/caddy-tally/caddy-tally/limiter/reputation"
)

// applyClients ends raises, scales the debits by the records of their clients, and refuses the request if its
// client is banned. It notes whether all records are known. It lowers limits by their usage
// elsewhere.
func (r *request) applyClients(e *Engine) {
	r.known = true
	if r.client != nil {
		e.table.findClients(r.client)
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
		debit.endRaise(r.now)
		r.known = e.table.findPenalty(debit) && r.known
		if debit.Client == nil {
			continue
		}
		e.table.findClients(debit.Client)
		if debit.Client.known() {
			debit.Limit, debit.whole = debit.Scaling.limit(debit.client(), debit.parent(), r.now), nil
		} else {
			r.known = false
		}
	}
	r.lower()
}

// CachedRecord returns the record of a client in memory, or nil if there is none. Callers must not
// change it.
func (e *Engine) CachedRecord(client Client) *reputation.Record {
	if record := e.table.findClient(&client); record != nil || !client.cell.exists() {
		return record
	}
	return client.cell.client().noted.Load()
}

// findClients finds the cells of a client and its parent.
func (t *cells) findClients(client *Client) {
	for ; client != nil; client = client.Parent {
		t.findClient(client)
	}
}

// findClient returns the record of a client in memory, or nil.
func (t *cells) findClient(client *Client) *reputation.Record {
	if !client.cell.exists() {
		client.cell = t.find(clientsID, client.Key)
		if client.cell.exists() {
			client.cell.Touch()
		}
	}
	return client.record()
}

// ensureClients adds missing cells for all clients of a request, and for the records of its keys.
func (t *cells) ensureClients(r *request) {
	t.ensureClient(r.client)
	for i := range r.debits {
		t.ensureClient(r.debits[i].Client)
		t.ensurePenalty(&r.debits[i])
	}
}

// ensureClient adds missing cells for a client and its parent.
func (t *cells) ensureClient(client *Client) {
	for ; client != nil; client = client.Parent {
		if t.findClient(client) == nil && !client.cell.exists() {
			client.cell = t.add(ofClient, clientsID, client.Key)
		}
	}
}
