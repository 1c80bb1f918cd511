package instance

import (
	"fmt"
	"hash/maphash"
	"math"
	"strings"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/caddy-tally/caddy-tally/identity/reference"
	"github.com/caddy-tally/caddy-tally/internal/notify"
)

// RefusalLog logs the refusals of a zone: a line when a client becomes blocked, at most
// linesPerSecond of them, and a summary of all refusals at each cleanup. So clients can't flood the
// log.
type RefusalLog struct {
	Zone    string
	Refused atomic.Int64 // since the last summary
	lines   PerSecond    // about clients that became blocked

	// Guarded by the instance's mu.
	seen    time.Time // the last summary
	mean    float64   // refusals a minute in the last hour, roughly
	unusual bool      // whether there are far more than that
	began   float64   // the refusals a minute that were unusual when that began; 0 once they are over
}

// A zone refuses unusually much if it refuses at least unusualFrom requests a minute, and unusualTimes
// as many as in the last hour on average.
const (
	unusualFrom  = 100
	unusualTimes = 10
)

// observe takes the number of refusals since the last call. It returns [notify.Refusals] if the zone begins to refuse
// unusually much, [notify.Calm] once it refuses less than half of what began that, and "" otherwise.
func (l *RefusalLog) observe(refused int64, now time.Time) (perMinute int64, kind string) {
	minutes := 1.
	if !l.seen.IsZero() {
		minutes = max(now.Sub(l.seen).Minutes(), 1./60)
	}
	rate, was := float64(refused)/minutes, l.unusual
	least := max(unusualFrom, unusualTimes*l.mean)
	switch {
	case rate >= least:
		l.unusual = true
	case rate < least/2:
		l.unusual = false
	}
	kept := math.Exp(-minutes / 60)
	l.seen, l.mean = now, l.mean*kept+rate*(1-kept)
	switch {
	case l.unusual && !was:
		kind, l.began = notify.Refusals, least
	case !l.unusual && l.began > 0 && rate < l.began/2:
		kind, l.began = notify.Calm, 0
	}
	return int64(rate), kind
}

const linesPerSecond = 10

// Admits reports whether another line about a newly blocked client is admitted now.
func (l *RefusalLog) Admits(now time.Time) bool { return l.lines.Admits(now, linesPerSecond) }

// summarize logs the number of requests refused since the last summary, if any.
func (l *RefusalLog) summarize(log *zap.Logger) (refused int64) {
	refused = l.Refused.Swap(0)
	if refused == 0 {
		return 0
	}
	log.Info("requests refused",
		zap.String("zone", l.Zone),
		zap.Int64("requests", refused),
		zap.Int64("clients_not_logged", l.lines.takeOmitted()))
	return refused
}

// Bounds of the recent refusals in memory: 8192 of less than 400 bytes each.
const (
	recentSets   = 512
	recentPerSet = 16
)

// Recent is the data in memory about a refusal whose reference was sent.
type Recent struct {
	Reference  string
	Request    string // method and class of the path
	Cost, Left int64  // units
	Capacity   int64  // of the limit in full
}

// RecentByReference finds recent refusals by their references, or by prefixes of them. The zero
// value is empty. A key has one set of 16, so that no client displaces the refusals of many others.
// It may be used from any number of goroutines, which never wait for each other.
type RecentByReference struct {
	sets [recentSets]struct {
		next     atomic.Uint32
		refusals [recentPerSet]atomic.Pointer[Recent]
	}
}

// recentSeed keeps clients from choosing another client's set.
var recentSeed = maphash.MakeSeed()

// Add adds a refusal with a reference. A nil key stands for a key that all clients share.
func (recent *RecentByReference) Add(key []byte, r Recent) {
	if r.Reference == "" {
		return
	}
	hash := maphash.Bytes(recentSeed, key)
	if len(key) == 0 {
		hash = maphash.String(recentSeed, r.Reference)
	}
	set := &recent.sets[hash%recentSets]
	set.refusals[set.next.Add(1)%recentPerSet].Store(&r)
}

// Find returns the refusal with a reference, or with the short form that people see. The result is
// nil if memory doesn't hold it. A short form that is ambiguous or not found is an error.
func (recent *RecentByReference) Find(text string) (found *Recent, err error) {
	text = reference.Canonical(text)
	if len(text) < reference.ShortSize {
		return nil, nil
	}
	for i := range recent.sets {
		for j := range recent.sets[i].refusals {
			r := recent.sets[i].refusals[j].Load()
			if r == nil || !strings.HasPrefix(r.Reference, text) {
				continue
			}
			if found != nil {
				return nil,
					fmt.Errorf(
						"reference: several refusals begin with %s: expected the whole reference of %d characters",
						text, reference.TextSize)
			}
			found = r
		}
	}
	if found == nil && len(text) == reference.ShortSize {
		return nil, fmt.Errorf("reference: this Caddy's memory doesn't hold %s (any more): look in the decision log for the line whose reference begins with %[1]s, or ask with the whole reference of %d characters", text, reference.TextSize)
	}
	return found, nil
}

// Text describes the refusal and its reason in a sentence.
func (r *Recent) Text() string {
	switch {
	case r.Cost == 0:
		return r.Request
	case r.Cost > r.Capacity:
		return fmt.Sprintf("%s: it cost %d, and the limit is %d", r.Request, r.Cost, r.Capacity)
	case r.Left == 1:
		return fmt.Sprintf("%s: it cost %d, 1 was left", r.Request, r.Cost)
	}
	return fmt.Sprintf("%s: it cost %d, %d were left", r.Request, r.Cost, r.Left)
}
