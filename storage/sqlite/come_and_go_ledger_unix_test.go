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

	"github.com/caddy-tally/caddy-tally/internal/engine"
	"github.com/caddy-tally/caddy-tally/internal/testing/admissions"
	"github.com/caddy-tally/caddy-tally/storage"
)

// ledger has the admissions that processes have written to their files.
type ledger struct {
	t     *testing.T
	books map[limitKey]book
	lost  int64 // units of each key of longSliding that may be lost, at most

	admitted, degraded int
	left               map[string]int   // keys that were looked at in the end, by what they had left
	fullest            map[string]int64 // by limit
	added              map[string]int64 // by limit: what went beyond it without the store, or by what was damaged
}

// limitKey is a key of a limit, by the limit's index.
type limitKey struct {
	limit int
	key   string
}

// book has the admissions of a key.
type book []entry

// entry is an admission by a process.
type entry struct {
	said
	process int
}

// of returns the admissions that meet a condition.
func (b book) of(match func(entry) bool) (log []admissions.Admission) {
	for _, e := range b {
		if match(e) {
			log = append(log, e.Admission)
		}
	}
	return log
}

func isNormal(e entry) bool { return !e.degraded }
func isAnyEntry(entry) bool { return true }

func newLedger(t *testing.T) *ledger {
	return &ledger{t: t, books: make(map[limitKey]book), left: make(map[string]int),
		fullest: make(map[string]int64), added: make(map[string]int64)}
}

// lose adds the possible loss of an engine that has not given back its units, or whose calls at a
// moment may be lost: a lease of at most an eighth, as much that was granted or returned at that
// moment, and the requested units.
func (l *ledger) lose(engines int) {
	l.lost += int64(engines) * (sharedLimits[longSliding].Amount/4 + comerLoaders*3)
}

// prove compares the admissions of a round with the limits. All processes of the round must have
// ended.
func (l *ledger) prove(c *comings) {
	l.t.Helper()
	for process, file := range c.files {
		l.read(process, file)
	}
	l.recount(c)
	for k, b := range l.books {
		l.proveKey(c, k, b)
		if strings.HasPrefix(k.key, fmt.Sprint(c.round)+" ") || c.may.damage {
			delete(l.books, k) // it never comes again, or is lost
		}
	}
	l.lost = 0
}

// read reads the file of a process, except for an incomplete last line.
func (l *ledger) read(process int, file string) {
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
		l.add(entry{s, process})
	}
	if err := os.Remove(file); err != nil {
		l.t.Error(err)
	}
}

func (l *ledger) add(e entry) {
	l.admitted++
	if e.degraded {
		l.degraded++
	}
	for _, limit := range errands[e.errand].limits {
		k := limitKey{limit, e.key}
		l.books[k] = append(l.books[k], e)
	}
}

// proveKey compares the admissions of a key with its limit. Admissions without the store may exceed
// it only if processes were stopped.
func (l *ledger) proveKey(c *comings, k limitKey, b book) {
	l.t.Helper()
	limit := sharedLimits[k.limit]
	for _, kept := range c.damages.kept() {
		normal := limit.Fullest(b.of(func(e entry) bool { return isNormal(e) && kept(e) }))
		l.fullest[limit.String()] = max(l.fullest[limit.String()], normal)
		if over := normal - limit.Capacity(); over > 0 {
			l.t.Errorf("key %q: %v has admitted %d too many", k.key, limit, over)
		}
	}
	if over := limit.Fullest(b.of(isAnyEntry)) - limit.Capacity(); over > 0 {
		l.added[limit.String()] = max(l.added[limit.String()], over)
		if !c.may.stop && !c.may.damage {
			l.t.Errorf("key %q: %v has admitted %d too many, with what was admitted without the store", k.key, limit, over)
		}
	}
}

// recount opens the database again, and checks the rest of the keys of a long limit.
func (l *ledger) recount(c *comings) {
	l.t.Helper()
	limits, err := engineLimits()
	if err != nil {
		l.t.Fatal(err)
	}
	e := engine.New(engine.Options{
		Open:         func(ctx context.Context) (storage.Store, error) { return Open(ctx, Options{Path: c.path}) },
		Name:         hashedName,
		NameAtOnce:   hashedNameAtOnce,
		StoreTimeout: time.Minute,
	})
	for k, b := range l.books {
		if k.limit == longSliding && strings.HasPrefix(k.key, fmt.Sprint(c.round)+" ") {
			l.checkLeft(c, k.key, b, l.takeAll(e, limits[longSliding], k.key))
		}
	}
	if err := e.Close(context.Background()); err != nil {
		l.t.Error(err)
	}
}

// takeAll uses up a key, and returns the number of units that were left.
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

// checkLeft checks the number of units that were left of a key of longSliding.
func (l *ledger) checkLeft(c *comings, key string, b book, left int64) {
	l.t.Helper()
	amount := sharedLimits[longSliding].Amount
	all := units(b.of(isAnyEntry))
	charged := all
	if c.may.stop || c.may.damage {
		kept := c.damages.keptLast()
		charged = units(b.of(func(e entry) bool { return isNormal(e) && kept(e) }))
	}
	switch {
	case left > max(amount-charged, 0):
		l.t.Errorf("key %q: of %d a day, %d were admitted and certainly charged, and then %d more", key, amount, charged, left)
	case left < amount-all-l.lost:
		l.t.Errorf("key %q: of %d a day, %d were admitted, at most %d were lost by processes, and %d are left", key, amount, all, l.lost, left)
	case left == 0:
		l.left["spent"]++
	case left == amount-all:
		l.left["exact"]++
	default:
		l.left["within bounds"]++
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
	fmt.Fprintf(&s, "%d admitted, %d of them without the store; what was left in the end: %v", l.admitted, l.degraded, l.left)
	for _, limit := range slices.Sorted(maps.Keys(l.fullest)) {
		fmt.Fprintf(&s, "\n%s: %d at the fullest; without the store, or by damage, at most %d beyond", limit, l.fullest[limit], l.added[limit])
	}
	return s.String()
}
