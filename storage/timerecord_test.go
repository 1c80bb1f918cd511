package storage

import (
	"math"
	"testing"
	"time"
)

// reading returns the reading of a machine that has run for some time, and whose wall clock is
// wrong by an offset.
func reading(passed, wrong time.Duration) Reading {
	const begun = int64(1_800_000_000e9)
	return Reading{Wall: begun + int64(passed+wrong), Steady: int64(passed), Source: Source{1}, Shared: true}
}

// told returns the record at a reading, as it would be stored.
func told(k TimeRecord, r Reading) TimeRecord {
	record, must := k.Tell(r, TimeRecord{})
	if must || k.Due(record, r) {
		record = record.Measured(r)
	}
	return record
}

func TestTimeRecord(t *testing.T) {
	const hour = time.Hour
	now := func(d time.Duration) int64 { return reading(d, 0).Wall }
	first := told(TimeRecord{}, reading(0, 0))
	if first.Now != now(0) || first.Apart != 0 {
		t.Fatalf("a new store has %+v, want the wall clock", first)
	}
	for name, c := range map[string]struct {
		readings []Reading
		want     int64 // Now
		shift    time.Duration
		era      int64
	}{
		"time passes":             {[]Reading{reading(hour, 0)}, now(hour), 0, 0},
		"a wall clock 1ms off":    {[]Reading{reading(hour, time.Millisecond-1)}, now(hour), 0, 0},
		"set ahead, at once":      {[]Reading{reading(hour, hour)}, now(hour), 0, 0},
		"set ahead, slewed":       {[]Reading{reading(hour, hour), reading(2*hour, hour)}, now(2*hour + hour/Slew), 0, 0},
		"set back, slewed":        {[]Reading{reading(hour, -hour), reading(2*hour, -hour)}, now(2*hour - hour/Slew), 0, 0},
		"slewed, and then right":  {[]Reading{reading(hour, time.Second), reading(2*hour, time.Second)}, now(2*hour + time.Second), 0, 0},
		"too far ahead, at once":  {[]Reading{reading(hour, 2*hour)}, now(hour), 0, 0},
		"too far ahead, a minute": {[]Reading{reading(hour, 2*hour), reading(hour+time.Minute, 2*hour)}, now(3*hour + time.Minute), 2*hour - time.Minute/Slew, 0},
		"too far back, a minute":  {[]Reading{reading(hour, -2*hour), reading(hour+time.Minute, -2*hour)}, now(hour + time.Minute - time.Minute/Slew), 0, 0},
		"too far back, two hours": {[]Reading{reading(hour, -2*hour), reading(3*hour, -2*hour)}, now(hour), -2*hour + 2*hour/Slew, 1},
		"somebody agrees": {
			[]Reading{reading(hour, -2*hour), reading(hour+time.Minute, 0), reading(3*hour, -2*hour)},
			now(3*hour) - int64(time.Minute/Slew) + int64(time.Minute/Slew), 0, 0,
		},
		"a steady clock that went back": {[]Reading{{Wall: now(-hour), Steady: -1, Source: Source{1}, Shared: true}}, now(0), 0, 0},
		"another machine start, behind": {[]Reading{{Wall: now(-hour), Source: Source{2}, Shared: true}}, now(0), 0, 0},
		"another machine start, ahead":  {[]Reading{{Wall: now(9 * hour), Source: Source{2}, Shared: true}}, now(9 * hour), 0, 0},
	} {
		k := first
		for _, r := range c.readings {
			k = told(k, r)
		}
		if k.Now != c.want || k.Shift != int64(c.shift) || k.Era != c.era {
			t.Errorf("%s: %+v, want %v later, a shift of %v and era %d", name, k, time.Duration(c.want-k.Now), c.shift, c.era)
		}
	}
}

// Processes whose wall clocks are hours apart don't set the time to and fro.
func TestTimeIsNotSetToAndFro(t *testing.T) {
	k, steps := told(TimeRecord{}, reading(0, 0)), 0
	for minute := range 6000 {
		was := k.Shift
		k = told(k, reading(time.Duration(minute)*time.Minute, time.Duration(minute%2)*3*time.Hour))
		if k.Shift != was {
			steps++
		}
	}
	if steps > 0 {
		t.Errorf("the time was set %d times in 100 hours", steps)
	}
}

// A process that can't read the steady clock of another one continues by its own.
func TestTimeOfPrivateClocks(t *testing.T) {
	own := func(source byte, passed time.Duration) Reading {
		r := reading(passed, 0)
		r.Source, r.Shared, r.Steady = Source{source}, false, r.Steady+int64(source)*1e15
		return r
	}
	var k TimeRecord
	var kept [3]TimeRecord
	last := int64(0)
	for i := range 1000 {
		who, passed := i%3, time.Duration(i)*time.Second
		r := own(byte(who+1), passed)
		if i > 3 {
			r.Wall -= int64(time.Hour) // is set back
		}
		record, must := k.Tell(r, kept[who])
		if must || k.Due(record, r) {
			record = record.Measured(r)
			k = record
		}
		kept[who] = record
		if record.Now < last || i > 3 && record.Now-last < int64(time.Second-2*time.Second/Slew*3) {
			t.Fatalf("after %v the time went on by %v", passed, time.Duration(record.Now-last))
		}
		last = record.Now
	}
}

// For any record and reading the time advances as the record says, and never overflows.
func FuzzTimeRecord(f *testing.F) {
	f.Add(int64(0), int64(0), int64(0), int64(0), int64(0), int64(0), int64(0), int64(0), int64(1))
	f.Add(int64(1), int64(-5), int64(3), int64(2), int64(10), int64(7), int64(1e18), int64(20), int64(1e9))
	f.Add(int64(math.MaxInt64), int64(math.MaxInt64), int64(math.MinInt64), int64(9), int64(math.MinInt64), int64(math.MaxInt64), int64(math.MinInt64), int64(math.MaxInt64), int64(1e18))
	f.Fuzz(func(t *testing.T, now, apart, shift, era, steady, astray, wall, read, passed int64) {
		k := TimeRecord{Time: Time{Now: now, Apart: apart, Shift: shift, Era: era}, Steady: steady, Source: Source{1}, Astray: astray}
		r := Reading{Wall: wall, Steady: read, Source: Source{1}, Shared: true}
		record, _ := k.Tell(r, TimeRecord{})
		if record.Now < 0 || record.Now > lastTime+int64(Heals) {
			t.Fatalf("%+v at %+v tells %+v", k, r, record)
		}
		if clamped := min(max(now, 0), lastTime); record.Now < clamped && record.Era == era {
			t.Fatalf("%+v at %+v tells %+v, which is earlier", k, r, record)
		}
		record = record.Measured(r)
		passed &= math.MaxInt64 >> 2
		before, after := record.After(passed/2), record.After(passed)
		if before.Now < record.Now || after.Now < before.Now {
			t.Fatalf("time runs backwards: %+v, %+v, %+v after %d", record.Time, before, after, passed)
		}
		if record.Now < lastTime/2 && passed < lastTime/4 {
			if gained := after.Now - record.Now - passed; gained < -passed/Slew || gained > passed/Slew {
				t.Fatalf("%+v gains %d in %d", record.Time, gained, passed)
			}
			d := time.Duration(passed)
			if waited := record.After(int64(record.Takes(d))); record.Apart < 0 && waited.Now-record.Now < passed {
				t.Fatalf("%+v: %v take %v, and are %v then", record.Time, d, record.Takes(d), time.Duration(waited.Now-record.Now))
			}
		}
	})
}
