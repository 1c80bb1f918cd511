//go:build unix

package sqlite

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/admissions"
	"github.com/caddy-tally/caddy-tally/limiter/engine"
	"github.com/caddy-tally/caddy-tally/storage"
)

// ledger is what processes said that they admitted.
type ledger struct {
	t     *testing.T
	books map[limitKey]*book
	lost  int64 // units of each key of longSliding that may be lost, at most

	admitted, degraded int
	refilled           map[string]int   // keys that were looked at in the end, by what they had left
	fullest            map[string]int64 // by limit
	addedByDegraded    map[string]int64 // by limit: what that was above its capacity
}

// limitKey is a key of a limit, by the limit's index.
type limitKey struct {
	limit int
	key   string
}

// book is what was admitted of a key.
type book struct {
	normal   []admissions.Admission
	degraded []admissions.Admission // without the store
}

func newLedger(t *testing.T) *ledger {
	return &ledger{t: t, books: make(map[limitKey]*book), refilled: make(map[string]int),
		fullest: make(map[string]int64), addedByDegraded: make(map[string]int64)}
}

// lose notes that a process has not given back what it held, or was admitting: a lease of
// at most an eighth for each engine, and what was asked for at that moment.
func (l *ledger) lose(p *process) {
	amount := sharedLimits[longSliding].Amount
	l.lost += int64(p.engines) * (amount/8 + comerLoaders*3)
}

// prove holds what processes of a round have admitted against the limits. All of them must
// have ended.
func (l *ledger) prove(c *comings) {
	l.t.Helper()
	for _, file := range c.files {
		l.read(file)
	}
	l.recount(c)
	for of, b := range l.books {
		l.proveKey(of, b, c.may.stop)
		if strings.HasPrefix(of.key, fmt.Sprint(c.round)+" ") {
			delete(l.books, of) // it never comes again
		}
	}
	l.lost = 0
}

// read reads what a process said, but for a line that it didn't come to the end of.
func (l *ledger) read(file string) {
	l.t.Helper()
	content, err := os.ReadFile(file)
	if os.IsNotExist(err) {
		return // it was killed before
	}
	if err != nil {
		l.t.Fatal(err)
	}
	for line := range strings.Lines(string(content)) {
		if !strings.HasSuffix(line, "\n") {
			break
		}
		s, err := parseSaid(strings.TrimSuffix(line, "\n"))
		if err != nil {
			l.t.Fatal(err)
		}
		l.add(s)
	}
	if err := os.Remove(file); err != nil {
		l.t.Error(err)
	}
}

func (l *ledger) add(s said) {
	l.admitted++
	if s.degraded {
		l.degraded++
	}
	for _, limit := range errands[s.errand].limits {
		of := limitKey{limit, s.key}
		b := l.books[of]
		if b == nil {
			b = new(book)
			l.books[of] = b
		}
		if s.degraded {
			b.degraded = append(b.degraded, s.Admission)
		} else {
			b.normal = append(b.normal, s.Admission)
		}
	}
}

// proveKey holds what was admitted of a key against its limit. What is admitted without
// the store may come on top only where processes were stopped.
func (l *ledger) proveKey(of limitKey, b *book, stopped bool) {
	l.t.Helper()
	limit := sharedLimits[of.limit]
	normal := limit.Fullest(b.normal)
	l.fullest[limit.String()] = max(l.fullest[limit.String()], normal)
	if over := normal - limit.Capacity(); over > 0 {
		l.t.Errorf("key %q: %v has admitted %d too many", of.key, limit, over)
	}
	if len(b.degraded) == 0 {
		return
	}
	if over := limit.Fullest(slices.Concat(b.normal, b.degraded)) - limit.Capacity(); over > 0 {
		l.addedByDegraded[limit.String()] = max(l.addedByDegraded[limit.String()], over)
		if !stopped {
			l.t.Errorf("key %q: %v has admitted %d too many, with what was admitted without the store", of.key, limit, over)
		}
	}
}

// recount opens the database again, and looks at what is left of the keys of a long limit.
func (l *ledger) recount(c *comings) {
	l.t.Helper()
	limits, err := engineLimits()
	if err != nil {
		l.t.Fatal(err)
	}
	e, err := engine.New(engine.Options{
		Open:         func(ctx context.Context) (storage.Store, error) { return Open(ctx, Options{Path: c.path}) },
		Name:         hashedName,
		StoreTimeout: time.Minute,
	})
	if err != nil {
		l.t.Fatal(err)
	}
	for of, b := range l.books {
		if of.limit == longSliding && strings.HasPrefix(of.key, fmt.Sprint(c.round)+" ") {
			l.checkLeft(c, of.key, b, l.takeAll(e, limits[longSliding], of.key))
		}
	}
	if err := e.Close(context.Background()); err != nil {
		l.t.Error(err)
	}
}

// takeAll takes all that is left of a key, and returns how much that was.
func (l *ledger) takeAll(e *engine.Engine, limit *engine.Limit, key string) (left int64) {
	l.t.Helper()
	for ; left <= limit.Amount(); left++ {
		d := e.Decide(context.Background(), nil, []engine.Debit{{Limit: limit, Key: []byte(key), Cost: 1}})
		if d.Degraded {
			l.t.Fatalf("key %q: decided without the store when all others were gone", key)
		}
		if !d.Allowed {
			break
		}
	}
	return left
}

// checkLeft checks what was left of a key of longSliding.
func (l *ledger) checkLeft(c *comings, key string, b *book, left int64) {
	l.t.Helper()
	limit := sharedLimits[longSliding]
	normal, all := units(b.normal), units(b.normal)+units(b.degraded)
	most := limit.Amount - all
	if c.may.stop {
		most = limit.Amount - normal
	}
	least := limit.Amount - all - l.lost
	switch {
	case left > max(most, 0):
		l.t.Errorf("key %q: %v has admitted %d, %d of them without the store, and then %d more", key, limit, all, all-normal, left)
	case left < least:
		l.t.Errorf("key %q: %v has admitted %d, at most %d are lost, and %d are left", key, limit, all, l.lost, left)
	case left == 0:
		l.refilled["spent"]++
	case l.lost == 0:
		l.refilled["exact"]++
	default:
		l.refilled["within bounds"]++
	}
}

func units(log []admissions.Admission) (n int64) {
	for _, a := range log {
		n += a.Cost
	}
	return n
}

func (l *ledger) String() string {
	var s strings.Builder
	fmt.Fprintf(&s, "%d admitted, %d of them without the store; what was left in the end: %v", l.admitted, l.degraded, l.refilled)
	for _, limit := range slices.Sorted(maps.Keys(l.fullest)) {
		fmt.Fprintf(&s, "\n%s: %d at the fullest; what was admitted without the store added %d", limit, l.fullest[limit], l.addedByDegraded[limit])
	}
	return s.String()
}
