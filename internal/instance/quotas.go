package instance

import (
	"fmt"
	"sync"
	"time"

	"github.com/caddy-tally/caddy-tally/identity"
	"github.com/caddy-tally/caddy-tally/internal/engine"
	"github.com/caddy-tally/caddy-tally/internal/notify"
	"github.com/caddy-tally/caddy-tally/internal/wording"
	"github.com/caddy-tally/caddy-tally/storage"
)

// quotas remembers the keys that have used most of a quota, so that each is notified of once per window, and again if
// its amount has grown. The zero value is ready for use.
type quotas struct {
	mu       sync.Mutex
	notified map[quota]window     // guarded by mu
	next     map[string]time.Time // guarded by mu: when a zone may be notified of again
}

type quota struct {
	limit storage.LimitID
	key   string
}

// window is a slot of a limit, with its amount in force.
type window struct{ slot, amount int64 }

// maxNotified bounds the keys in memory. When there are more, all are forgotten, and may be notified of again.
const maxNotified = 10_000

// admits reports whether a key is to be notified of now, and notes it. If another one of its zone was within the last
// minute, or another goroutine is here, the next request of the key asks again: nobody waits.
func (q *quotas) admits(zone string, limit storage.LimitID, key []byte, in window, now time.Time) bool {
	if !q.mu.TryLock() {
		return false
	}
	defer q.mu.Unlock()
	before, ok := q.notified[quota{limit, string(key)}]
	if ok && before.slot == in.slot && before.amount >= in.amount || now.Before(q.next[zone]) {
		return false
	}
	if q.notified == nil {
		q.notified, q.next = make(map[quota]window), make(map[string]time.Time)
	}
	if len(q.notified) >= maxNotified {
		clear(q.notified)
	}
	q.notified[quota{limit, string(key)}], q.next[zone] = in, now.Add(notify.Spacing+time.Second)
	return true
}

// maxClient bounds the text of a key in a notification, in bytes.
const maxClient = 100

// NotifyOfQuota notifies, once per window, of a debit after which its key has used most of a quota of a zone: a fixed
// limit of at least a day.
func (inst *Instance) NotifyOfQuota(zone, limit string, d *engine.Debit) {
	whole, now := d.Whole(), time.Unix(0, inst.Engine.Now())
	// The window is the one of the decision, which may be over.
	slot := whole.Slot(now.Add(d.Quota.Reset - whole.Window()/2).UnixNano())
	if inst.Engine.Degraded() || d.Quota.Reset <= 0 || !inst.quotas.admits(zone, whole.ID, d.Key, window{slot, whole.Amount()}, time.Now()) {
		return
	}
	end := time.Unix(0, whole.Ends(slot)).UTC()
	client := wording.Printable(wording.Shortened(identity.MaskedText(d.Key), maxClient), "")
	e := notify.Event{Kind: notify.Quota, Zone: zone, Limit: limit, Client: client, Until: &end,
		Count: whole.Amount() - d.Quota.Remaining, Amount: whole.Amount()}
	if e.Text = "All together have used"; client != "" {
		e.Text = client + " has used"
	}
	e.Text += fmt.Sprintf(" %d %% of the limit %s of the zone %s: %s of %s units, until %s.", e.Count*100/e.Amount,
		limit, zone, wording.Number(e.Count), wording.Number(e.Amount), end.Format("2006-01-02 15:04 UTC"))
	inst.notify(e)
}
