package limiter_test

import (
	"archive/zip"
	"fmt"
	"math"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/testing/proof"
	"github.com/caddy-tally/caddy-tally/limiter"
)

// places are time zones with peculiarities: clocks set at midnight, a minute after it, over a whole
// day, by half an hour, not at all.
var places = []string{
	"Europe/Berlin", "America/New_York", "America/Havana", "America/St_Johns", "America/Sao_Paulo", "Asia/Beirut",
	"Australia/Lord_Howe", "Asia/Kathmandu", "Pacific/Apia", "Pacific/Kiritimati", "Africa/Casablanca", "UTC",
}

// The years known to the oracle: around the day that Samoa left out (2011-12-30), when St. John's
// still changed its clocks at 00:01.
var (
	firstMinute = time.Date(2010, 6, 1, 0, 0, 0, 0, time.UTC).Unix()
	lastMinute  = time.Date(2012, 6, 1, 0, 0, 0, 0, time.UTC).Unix()
)

// dawn is the first minute at which a calendar on the wall shows a day.
type dawn struct{ unix, day int64 }

// dawns reads the calendar every minute for two years, and never turns a page back.
func dawns(location *time.Location) (all []dawn) {
	for unix := firstMinute; unix < lastMinute; unix += 60 {
		year, month, d := time.Unix(unix, 0).In(location).Date()
		day := time.Date(year, month, d, 0, 0, 0, 0, time.UTC).Unix() / 86400
		if len(all) == 0 || day > all[len(all)-1].day {
			all = append(all, dawn{unix, day})
		}
	}
	return all
}

func loadPlace(t testing.TB, name string) *time.Location {
	t.Helper()
	location, err := time.LoadLocation(name)
	if err != nil {
		t.Skipf("this machine doesn't know the time zone %s", name)
	}
	return location
}

var dawnsOf = func() func(testing.TB, string) (*time.Location, []dawn) {
	var mu sync.Mutex
	known := make(map[string][]dawn)
	return func(t testing.TB, name string) (*time.Location, []dawn) {
		mu.Lock()
		defer mu.Unlock()
		location := loadPlace(t, name)
		if known[name] == nil {
			known[name] = dawns(location)
		}
		return location, known[name]
	}
}()

// A day of a calendar limit is a day on the wall: from the first minute that
// shows it to the first that shows a later one.
func TestCalendarIsTheOneOnTheWall(t *testing.T) {
	for _, name := range places {
		t.Run(name, func(t *testing.T) {
			location, all := dawnsOf(t, name)
			l := mustNew(t, limiter.Params{Algorithm: limiter.Fixed, Amount: 1, Window: 24 * time.Hour, Location: location})
			for i := 1; i+1 < len(all); i++ {
				begin, end := all[i].unix*1e9, all[i+1].unix*1e9
				for _, now := range []int64{begin, begin + 60e9, begin + 3600e9, (begin + end) / 2, end - 3600e9, end - 60e9, end - 1} {
					if slot := l.Slot(now); slot != all[i].day {
						t.Fatalf("%v lies in day %d, want %d", time.Unix(0, now).In(location), slot, all[i].day)
					}
				}
				if got := l.Expiry(all[i].day); got != end {
					t.Fatalf("day %d ends %v, want %v", all[i].day, time.Unix(0, got).In(location), time.Unix(0, end).In(location))
				}
			}
		})
	}
}

// FuzzCalendar compares claims under calendar limits with the calendar on the wall: between the
// first minute of a window and the first minute of the next at most the amount is granted, and the
// retry time is the latter minute.
func FuzzCalendar(f *testing.F) {
	addSeeds(f)
	f.Fuzz(func(t *testing.T, data []byte) { checkCalendar(t, data) })
}

func TestCalendarRandom(t *testing.T) { runRandom(t, 1000, checkCalendar) }

func checkCalendar(t testing.TB, data []byte) {
	s := &source{data}
	location, all := dawnsOf(t, places[s.pick(len(places))])
	days := int64(s.pick(9))
	p := limiter.Params{Algorithm: limiter.Fixed, Amount: 1 + s.upTo(100), Window: time.Duration(days) * 24 * time.Hour, Location: location}
	if days == 0 {
		p.Window = limiter.Month
	}
	l := mustNew(t, p)
	now := all[20+s.pick(200)].unix*1e9 + s.upTo(int64(24*time.Hour))
	var state limiter.State
	used := make(map[int64]int64)
	for range 60 {
		now += s.upTo(int64(40 * time.Hour))
		window, end := windowOnTheWall(all, now, days)
		if end == 0 {
			return
		}
		cost := 1 + s.upTo(p.Amount-1)
		c := limiter.Claim{Now: now, Min: cost, Want: cost}
		before := cloneState(state)
		g := l.Claim(&state, c)
		if fits := used[window]+cost <= p.Amount; fits == g.Refused(c) {
			t.Fatalf("%v, %d days: %d of %d at %v, after %d: %+v", location, days, cost, p.Amount, time.Unix(0, now).In(location), used[window], g)
		} else if fits {
			used[window] += cost
			continue
		}
		if g.Retry != time.Duration(end-now) {
			t.Fatalf("%v, %d days: retry at %v, want %v", location, days, time.Unix(0, now+int64(g.Retry)).In(location), time.Unix(0, end).In(location))
		}
		checkRetry(t, l, before, c, g)
	}
}

// windowOnTheWall returns the window of some days, or for 0 the month, that a time lies in, and when the
// next begins, or 0 if the oracle has not looked that far.
func windowOnTheWall(all []dawn, now, days int64) (window, end int64) {
	i, found := slices.BinarySearchFunc(all, now, func(d dawn, now int64) int { return int(min(max(d.unix*1e9-now, -1), 1)) })
	if !found {
		i--
	}
	windowOf := func(d dawn) int64 {
		if days > 0 {
			return d.day / days
		}
		year, month, _ := time.Unix(d.day*86400, 0).UTC().Date()
		return int64(year)*100 + int64(month)
	}
	window = windowOf(all[i])
	for ; i < len(all); i++ {
		if windowOf(all[i]) > window {
			return window, all[i].unix * 1e9
		}
	}
	return window, 0
}

func TestMonthsHaveTheirOwnLengths(t *testing.T) {
	berlin := loadPlace(t, "Europe/Berlin")
	for _, location := range []*time.Location{nil, time.UTC, berlin} {
		l := mustNew(t, limiter.Params{Algorithm: limiter.Fixed, Amount: 1, Window: limiter.Month, Location: location})
		on := location
		if on == nil {
			on = time.UTC
		}
		for months := range 12 * 40 {
			begin, end := time.Date(2020, time.Month(1+months), 1, 0, 0, 0, 0, on), time.Date(2020, time.Month(2+months), 1, 0, 0, 0, 0, on)
			for _, now := range []time.Time{begin, begin.AddDate(0, 0, 27), end.Add(-1)} {
				var s limiter.State
				l.Claim(&s, limiter.Claim{Now: now.UnixNano(), Min: 1, Want: 1})
				if g := l.Claim(&s, limiter.Claim{Now: now.UnixNano(), Min: 1, Want: 1}); g.Retry != end.Sub(now) {
					t.Fatalf("%v: at %v the retry time is %v, want %v", location, now, g.Retry, end.Sub(now))
				}
				if g := l.Claim(&s, limiter.Claim{Now: end.UnixNano(), Min: 1, Want: 1}); g.Units != 1 {
					t.Fatalf("%v: nothing is granted at %v", location, end)
				}
			}
		}
	}
}

func TestDaysOfDaylightSaving(t *testing.T) {
	berlin := loadPlace(t, "Europe/Berlin")
	l := mustNew(t, limiter.Params{Algorithm: limiter.Fixed, Amount: 1, Window: 24 * time.Hour, Location: berlin})
	for _, tt := range []struct {
		day  time.Time
		want time.Duration
	}{
		{time.Date(2026, 3, 29, 0, 0, 0, 0, berlin), 23 * time.Hour},
		{time.Date(2026, 10, 25, 0, 0, 0, 0, berlin), 25 * time.Hour},
		{time.Date(2026, 11, 21, 0, 0, 0, 0, berlin), 24 * time.Hour},
		{time.Date(2040, 12, 31, 0, 0, 0, 0, berlin), 24 * time.Hour}, // of which package time knows no end
	} {
		var s limiter.State
		l.Claim(&s, limiter.Claim{Now: tt.day.UnixNano(), Min: 1, Want: 1})
		if g := l.Claim(&s, limiter.Claim{Now: tt.day.UnixNano(), Min: 1, Want: 1}); g.Retry != tt.want {
			t.Errorf("%s is %v long, want %v", tt.day.Format(time.DateOnly), g.Retry, tt.want)
		}
	}
}

func TestCalendarErrors(t *testing.T) {
	for _, tt := range []struct {
		p    limiter.Params
		want string
	}{
		{limiter.Params{Window: 24 * time.Hour}, "a time zone belongs to a fixed limit, not to sliding"},
		{limiter.Params{Algorithm: limiter.TokenBucket, Window: 24 * time.Hour}, "a time zone belongs to a fixed limit, not to token_bucket"},
		{limiter.Params{Algorithm: limiter.Fixed, Window: 36 * time.Hour}, "a window in a time zone must be whole days or a month, got 36h0m0s: write 24h"},
		{limiter.Params{Window: limiter.Month}, "a time zone belongs to a fixed limit, not to sliding"},
	} {
		tt.p.Amount, tt.p.Location = 1, time.UTC
		if _, err := limiter.New(tt.p); err == nil || err.Error() != tt.want {
			t.Errorf("%+v: error is %v, want %s", tt.p, err, tt.want)
		}
	}
}

// Slots never run backwards, in any zone and at any time that clocks know.
func TestCalendarNeverRunsBackwards(t *testing.T) {
	for _, name := range append([]string{"Asia/Manila", "America/Juneau"}, places...) {
		location := loadPlace(t, name)
		for i := range proof.Times(10_000, 40_000) {
			l := mustNew(t, limiter.Params{Algorithm: limiter.Fixed, Amount: 1, Window: []time.Duration{24 * time.Hour, limiter.Month}[i%2], Location: location})
			now := time.Date(1840, 1, 1, 0, 0, 0, 0, time.UTC).Add(rand.N(200 * 365 * 24 * time.Hour)).UnixNano()
			slot := l.Slot(now)
			if later := l.Slot(now + int64(rand.N(2*time.Hour))); later < slot {
				t.Fatalf("%s: slot %d is followed by %d, about %v", name, slot, later, time.Unix(0, now))
			}
			if end := l.Expiry(slot); end <= now || l.Slot(end-1) != slot || l.Slot(end) <= slot {
				t.Fatalf("%s: %v lies in slot %d, which ends %v", name, time.Unix(0, now), slot, time.Unix(0, end))
			}
		}
	}
}

// In every time zone, each day from 1970 to 2040 begins at the first time at which the clocks show it, or a
// later day. The oracle follows the clocks from change to change: between two changes they only run ahead.
func TestDaysOfAllTimeZones(t *testing.T) {
	var zones []*time.Location
	known := make(map[string]bool)
	for _, name := range zoneNames(t) {
		zone, err := time.LoadLocation(name)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if changes := fmt.Sprint(changesOf(zone)); !known[changes] { // many names are of one zone
			known[changes] = true
			zones = append(zones, zone)
		}
	}
	if len(zones) < 200 {
		t.Fatalf("this machine knows only %d time zones", len(zones))
	}
	for i := 0; i < len(zones); i += proof.Sample(6, 1) {
		zone := zones[i]
		l := mustNew(t, limiter.Params{Algorithm: limiter.Fixed, Amount: 1, Window: 24 * time.Hour, Location: zone})
		changes, latest := changesOf(zone), int64(math.MinInt64) // the latest day shown so far
		for day := int64(1); day < 71*365; day++ {
			begins := l.Ends(day - 1)
			for len(changes) > 0 && changes[0].at <= begins {
				latest = max(latest, changes[0].before)
				changes = changes[1:]
			}
			latest = max(latest, shownDay(zone, begins-1))
			if shown := shownDay(zone, begins); latest >= day || shown < day {
				t.Fatalf("%v: day %d begins at %v, and %d was shown before", zone, day, time.Unix(0, begins).In(zone), latest)
			}
			if slot := l.Slot(begins); slot < day || l.Ends(slot) <= begins || l.Slot(begins-1) >= day {
				t.Fatalf("%v: %v lies in day %d, want %d, and %v in %d", zone, time.Unix(0, begins).In(zone), slot, day, time.Unix(0, begins-1).In(zone), l.Slot(begins-1))
			}
		}
	}
	t.Logf("%d time zones", len(zones))
}

// change is a time at which clocks are changed, and the day that they show just before.
type change struct{ at, before int64 }

// changesOf returns the changes of clocks from 1970 to 2041.
func changesOf(zone *time.Location) (all []change) {
	last := time.Date(2041, 1, 1, 0, 0, 0, 0, time.UTC)
	for at := time.Unix(0, 0).In(zone); at.Before(last); {
		_, next := at.ZoneBounds()
		if next.IsZero() || !next.After(at) {
			break
		}
		all = append(all, change{next.UnixNano(), shownDay(zone, next.UnixNano()-1)})
		at = next
	}
	return all
}

// shownDay returns the day that clocks show, counted from 1970-01-01.
func shownDay(zone *time.Location, at int64) int64 {
	_, offset := time.Unix(0, at).In(zone).Zone()
	shown := at + int64(offset)*1e9
	day := shown / int64(24*time.Hour)
	if shown%int64(24*time.Hour) < 0 {
		day--
	}
	return day
}

// zoneNames returns the names of all time zones that Go brings along.
func zoneNames(t *testing.T) (names []string) {
	t.Helper()
	root, err := exec.CommandContext(t.Context(), "go", "env", "GOROOT").Output()
	if err != nil {
		t.Skipf("there is no go command: %v", err)
	}
	files, err := zip.OpenReader(filepath.Join(strings.TrimSpace(string(root)), "lib", "time", "zoneinfo.zip"))
	if err != nil {
		t.Skipf("this machine has no Go sources: %v", err)
	}
	defer files.Close()
	for _, f := range files.File {
		if !strings.HasSuffix(f.Name, "/") {
			names = append(names, f.Name)
		}
	}
	return names
}
