//go:build unix

package caddytest

import (
	"cmp"
	"slices"
	"sort"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/testing/admissions"
	"github.com/caddy-tally/caddy-tally/internal/testing/proof"
)

// testKills kills Caddys of the fleet, and starts them again, while a limit is hammered on all of them.
func (f *fleet) testKills() {
	zone, clients := "hammered", 4
	if isWhole() {
		zone, clients = "minutely", 8
	}
	limit := fleetZones[zone]
	l := f.load(clients, "kills", 0, zone)
	for i := range proof.Times(1, 12) {
		f.awaitAnswers(l, 100)
		m := f.machines[i%len(f.machines)]
		m.kill()
		f.awaitAnswers(l, 100)
		m.start()
	}
	whole, windows := time.Now().UnixNano(), 2*limit.Window+limit.Window/10
	waitUpTo(f.t, windows+patience, "two windows without a kill", func() bool { return l.newest(zone, "kills") > whole+int64(windows) })
	l.stop()
	l.check(f.t)
	admitted := l.admittedOf(zone, "kills")
	fullest, possible := limit.Fullest(admitted), possibly(admitted, limit.Window)
	proof.Figure(f.t, "%v with kills: %v; at least %d and at most %d in the fullest window", limit, l, fullest, possible)
	if fullest > limit.Amount {
		f.t.Errorf("%v admitted %d in a window", limit, fullest)
	}
	if _, refused, _ := l.total(); refused < len(admitted) {
		f.t.Logf("only %d requests were refused: the computer is too slow to show that all of a limit can be used", refused)
	} else if possible < limit.Amount*99/100 {
		f.t.Errorf("%v admitted %d at most", limit, possible)
	}
}

// awaitAnswers waits until so many more requests of a load were answered.
func (f *fleet) awaitAnswers(l *fleetLoad, more int) {
	f.t.Helper()
	before := l.answered()
	waitFor(f.t, "requests to be answered", func() bool { return l.answered() >= before+more })
}

// possibly returns how many of some requests one window may have had, whenever exactly each of them
// was decided. They cost 1 each.
func possibly(log []admissions.Admission, window time.Duration) (most int64) {
	log = slices.Clone(log)
	slices.SortFunc(log, func(a, b admissions.Admission) int { return cmp.Compare(a.Latest(), b.Latest()) })
	var sent []int64
	for _, a := range log {
		sent = append(sent, a.Earliest())
	}
	slices.Sort(sent)
	for i, first := range log {
		begun := sort.Search(len(sent), func(i int) bool { return sent[i] >= first.Latest()+int64(window) })
		most = max(most, int64(begun-i))
	}
	return most
}
