package instance

import (
	"fmt"
	"hash/maphash"
	"strings"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/caddy-tally/caddy-tally/identity/reference"
)

// RefusalLog logs the refusals of a zone: a line when a client becomes blocked, at most
// linesPerSecond of them, and a summary of all refusals at each cleanup. So clients can't
// flood the log.
type RefusalLog struct {
	Zone    string
	Refused atomic.Int64 // since the last summary
	lines   PerSecond    // about clients that became blocked
}

const linesPerSecond = 10

// Admits reports whether there may be a line now about a client that became
// blocked.
func (l *RefusalLog) Admits(now time.Time) bool { return l.lines.Admits(now, linesPerSecond) }

// summarize writes how many requests were refused since the last time, if any.
func (l *RefusalLog) summarize(log *zap.Logger) {
	refused := l.Refused.Swap(0)
	if refused == 0 {
		return
	}
	log.Info("requests refused",
		zap.String("zone", l.Zone),
		zap.Int64("requests", refused),
		zap.Int64("clients_not_logged", l.lines.takeOmitted()))
}

// Bounds of the recent refusals in memory: 8192 of less than 400 bytes each.
const (
	recentSets   = 512
	recentPerSet = 16
)

// Recent is what memory holds of a refusal that somebody was told the reference of.
type Recent struct {
	Reference  string
	Request    string // method and class of the path
	Cost, Left int64  // units
	Capacity   int64  // of the limit in full
}

// RecentByReference finds recent refusals by their references, or by the beginnings of these. The
// zero value is empty. A key has one set of 16, so that no client pushes
// out the refusals of many others.
// It may be used from any number of goroutines, and none waits for another.
type RecentByReference struct {
	sets [recentSets]struct {
		next     atomic.Uint32
		refusals [recentPerSet]atomic.Pointer[Recent]
	}
}

// recentSeed keeps clients from choosing the set of somebody else.
var recentSeed = maphash.MakeSeed()

// Add adds a refusal that has a reference, of a key; nil is one that all clients share.
func (m *RecentByReference) Add(key []byte, r Recent) {
	if r.Reference == "" {
		return
	}
	of := maphash.Bytes(recentSeed, key)
	if len(key) == 0 {
		of = maphash.String(recentSeed, r.Reference)
	}
	set := &m.sets[of%recentSets]
	set.refusals[set.next.Add(1)%recentPerSet].Store(&r)
}

// Find returns the refusal with a reference, which may be only the beginning that people are shown.
// The result is nil if memory doesn't hold it, and the error says so if that is all there is.
func (m *RecentByReference) Find(text string) (found *Recent, err error) {
	text = reference.Canonical(text)
	if len(text) < reference.ShortSize {
		return nil, nil
	}
	for i := range m.sets {
		for j := range m.sets[i].refusals {
			r := m.sets[i].refusals[j].Load()
			if r == nil || !strings.HasPrefix(r.Reference, text) {
				continue
			}
			if found != nil {
				return nil, fmt.Errorf("reference: several refusals begin with %s: expected the whole reference of %d characters", text, reference.TextSize)
			}
			found = r
		}
	}
	if found == nil && len(text) == reference.ShortSize {
		return nil, fmt.Errorf("reference: this Caddy's memory doesn't hold %s (any more): look in the decision log for the line whose reference begins with %[1]s, or ask with the whole reference of %d characters", text, reference.TextSize)
	}
	return found, nil
}

// Text says in a sentence what was refused and why.
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
