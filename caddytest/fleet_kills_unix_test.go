//go:build unix

package caddytest

import (
	"cmp"
	"slices"
	"sort"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/admissions"
)

// testKills kills Caddys of the fleet, and starts them again, while a limit is hammered on all of them.
func (f *fleet) testKills() {
	zone, kills, lasts := "hammered", 2, time.Duration(0)
	if *long {
		zone, kills, lasts = "minutely", 8, 200*time.Second
	}
	limit, since, began := fleetZones[zone], f.lines(), time.Now()
	l := f.load(8, "kills", 0, zone)
	for i := range kills {
		f.awaitUnits(l, zone, 100)
		m := f.machines[i%len(f.machines)]
		m.kill()
		f.awaitUnits(l, zone, 100)
		m.start()
	}
	whole := time.Now()
	waitFor(f.t, "two windows without a kill", func() bool {
		return time.Since(began) > lasts && time.Since(whole) > 2*limit.Window+limit.Window/10
	})
	l.stop()
	l.check(f.t)
	admitted := l.clone()[zone+" kills"]
	fullest, possible := limit.Fullest(admitted), possibly(admitted, limit.Window)
	f.t.Logf("%v with %d kills: %v; at least %d and at most %d in the fullest window", limit, kills, l, fullest, possible)
	if !slices.Equal(f.lines(), since) {
		f.t.Skip("the computer was so slow that the store was given up for a while; nothing is proved")
	}
	if fullest > limit.Amount {
		f.t.Errorf("%v admitted %d in a window", limit, fullest)
	}
	if possible < limit.Amount*99/100 {
		f.t.Errorf("%v admitted %d at most", limit, possible)
	}
}

// awaitUnits waits until so many more requests of a load were admitted.
func (f *fleet) awaitUnits(l *fleetLoad, zone string, more int) {
	f.t.Helper()
	key := "kills"
	before := l.count(zone, key)
	waitFor(f.t, "requests to be admitted", func() bool { return l.count(zone, key) >= before+more })
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
