package storage

import "time"

const (
	// Heals is the largest difference between the time of a store and the wall clock that slewing
	// corrects. Beyond it the time is set.
	Heals = 90 * time.Minute
	// The time is set only if all wall clocks read during this time differ. A wall clock that is behind
	// was often not set yet after the start of a machine without a clock of its own, so it has more time.
	patienceAhead  = time.Minute
	patienceBehind = time.Hour
	// near is a difference that is not slewed, because the two clocks are not read at the same moment.
	near = time.Millisecond
	// keepEvery is the maximum age of a record while a store is written to.
	keepEvery = time.Second

	firstTime, lastTime = 1, int64(1) << 62 // bounds of values from a file, which may be damaged
)

// TimeRecord is the time of a store at a reading of a steady clock. The store keeps it between calls, and reads
// and writes it inside its transactions. The zero value is that of a new store. TimeRecord is arithmetic only.
type TimeRecord struct {
	Time
	// Steady and Source are those of the reading at which the time was Now.
	Steady int64
	Source Source
	// Astray is the time since which all wall clocks that were read differed by more than Heals, or 0.
	Astray int64
}

// Tell returns the time at a reading as a record, and whether the store must write it even if the call changes
// nothing else. own is the caller's last record, or zero: time continues from it if the store's record is that
// of a clock that the caller can't read.
func (t TimeRecord) Tell(r Reading, own TimeRecord) (next TimeRecord, must bool) {
	t.clamp()
	r.Wall = min(max(r.Wall, firstTime), lastTime)
	next, known := t.at(r)
	if !known {
		next = t
		if mine, ok := own.at(r); ok {
			next.Now = max(t.Now, mine.Now+t.Shift-own.Shift)
		} else {
			next.Now = max(t.Now, r.Wall)
		}
		next.Steady, next.Source = r.Steady, r.Source
		next.clamp()
	}
	heeded := next.heed(r.Wall)
	return next, heeded || !known
}

// Lost reports whether the record is that of another clock: then the time at a reading is only known not to be
// earlier.
func (t TimeRecord) Lost(r Reading) bool {
	_, known := t.at(r)
	return !known
}

// Due reports whether a call that changes something else must write the next record as well.
func (t TimeRecord) Due(next TimeRecord, r Reading) bool {
	return !r.Shared || next.Now-t.Now >= int64(keepEvery)
}

// Measured returns a record of Tell for writing, with the difference to the wall clock measured again.
func (t TimeRecord) Measured(r Reading) TimeRecord {
	t.Apart = min(max(r.Wall, firstTime), lastTime) - t.Now
	if max(t.Apart, -t.Apart) < int64(near) {
		t.Apart = 0
	}
	return t
}

// NotBefore returns the record with a time that is at least least, unless that is too far from the wall clock to
// be true.
func (t TimeRecord) NotBefore(least int64, r Reading) TimeRecord {
	if least >= r.Wall-int64(Heals) && least <= r.Wall+int64(Heals) {
		t.Now = max(t.Now, least)
	}
	return t
}

// at returns the record at a reading, if both are of one clock. A steady clock never runs backwards, so a record
// of a later reading is damaged.
func (t TimeRecord) at(r Reading) (next TimeRecord, known bool) {
	if t.Now < firstTime || t.Source == (Source{}) || t.Source != r.Source || r.Steady < t.Steady {
		return t, false
	}
	next = t
	next.Time = t.After(r.Steady - t.Steady)
	next.Steady = r.Steady
	return next, true
}

// heed compares the time with the wall clock, and reports whether that changes the record for later calls. It
// sets the time if the two were apart for long enough.
func (t *TimeRecord) heed(wall int64) bool {
	apart := wall - t.Now
	patience := patienceAhead
	if apart < 0 {
		patience = patienceBehind
	}
	switch {
	case max(apart, -apart) <= int64(Heals):
		was := t.Astray
		t.Astray = 0
		return was != 0
	case t.Astray == 0:
		t.Astray = t.Now
		return true
	case t.Now-t.Astray < int64(patience):
		return false
	}
	t.Now, t.Apart, t.Astray = wall, 0, 0
	t.Shift += apart
	if apart < 0 {
		t.Era++
	}
	return true
}

// clamp limits values from outside to their ranges.
func (t *TimeRecord) clamp() {
	t.Now = min(max(t.Now, 0), lastTime)
	t.Apart = min(max(t.Apart, -int64(Heals)), int64(Heals))
	t.Shift = min(max(t.Shift, -lastTime), lastTime)
	if t.Astray < 0 || t.Astray > t.Now {
		t.Astray = 0
	}
}
