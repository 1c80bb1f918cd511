package storage

import "time"

const (
	// Heals is how far the time of a store and the wall clock may be apart for slewing
	// to bring them together. Beyond that the time is set.
	Heals = 90 * time.Minute
	// The time is set only after all wall clocks that were read in this time said so.
	// A clock that is behind was most often not set yet, after a start of a machine
	// that has none of its own, so it is given more time.
	patienceAhead  = time.Minute
	patienceBehind = time.Hour
	// near is how far the two may be apart without being slewed: readings of two
	// clocks are not of exactly the same moment.
	near = time.Millisecond
	// keepEvery is how old a record gets at most while a store is written to.
	keepEvery = time.Second

	firstTime, lastTime = 1, int64(1) << 62 // that are believed, of a file that may be damaged
)

// TimeRecord is how a store keeps its time between calls: the time at a reading of
// a steady clock. The zero value is of a store that had no time yet. It is
// arithmetic only; the store reads and writes it inside of its transactions.
type TimeRecord struct {
	Time
	// Steady and Source are of the reading at which Now was right.
	Steady int64
	Source Source
	// Astray is the time since which every wall clock that was read differed by more
	// than Heals, or 0.
	Astray int64
}

// Tell returns the time at a reading, as a record to be kept, and whether it must
// be kept even if the call changes nothing else. own is what the caller was told
// last, or zero: it goes on by that where the record is of a clock that it can't
// read.
func (t TimeRecord) Tell(r Reading, own TimeRecord) (told TimeRecord, must bool) {
	t.clamp()
	r.Wall = min(max(r.Wall, firstTime), lastTime)
	told, known := t.at(r)
	if !known {
		told = t
		if mine, ok := own.at(r); ok {
			told.Now = max(t.Now, mine.Now+t.Shift-own.Shift)
		} else {
			told.Now = max(t.Now, r.Wall)
		}
		told.Steady, told.Source = r.Steady, r.Source
		told.clamp()
	}
	heeded := told.heed(r.Wall)
	return told, heeded || !known
}

// Lost reports whether a record says nothing of the time at a reading but that it
// is not earlier.
func (t TimeRecord) Lost(r Reading) bool {
	_, known := t.at(r)
	return !known
}

// Due reports whether a record that was told is to be kept by a call that changes
// something else.
func (t TimeRecord) Due(told TimeRecord, r Reading) bool {
	return !r.Shared || told.Now-t.Now >= int64(keepEvery)
}

// Measured returns a record that was told with the wall clock compared again, as it
// is to be kept.
func (t TimeRecord) Measured(r Reading) TimeRecord {
	t.Apart = min(max(r.Wall, firstTime), lastTime) - t.Now
	if max(t.Apart, -t.Apart) < int64(near) {
		t.Apart = 0
	}
	return t
}

// NotBefore returns the record with a time that isn't before least, unless that is too
// far from the wall clock to be true.
func (t TimeRecord) NotBefore(least int64, r Reading) TimeRecord {
	if least >= r.Wall-int64(Heals) && least <= r.Wall+int64(Heals) {
		t.Now = max(t.Now, least)
	}
	return t
}

// at returns the record at a reading, if the two can be compared. A steady clock
// never runs backwards, so a record of later on is damaged.
func (t TimeRecord) at(r Reading) (is TimeRecord, known bool) {
	if t.Now < firstTime || t.Source == (Source{}) || t.Source != r.Source || r.Steady < t.Steady {
		return t, false
	}
	is = t
	is.Time = t.After(r.Steady - t.Steady)
	is.Steady = r.Steady
	return is, true
}

// heed compares with the wall clock, and reports whether that makes a difference
// for the calls to come. It sets the time if the two were apart for long enough.
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

// clamp brings values from outside into range.
func (t *TimeRecord) clamp() {
	t.Now = min(max(t.Now, 0), lastTime)
	t.Apart = min(max(t.Apart, -int64(Heals)), int64(Heals))
	t.Shift = min(max(t.Shift, -lastTime), lastTime)
	if t.Astray < 0 || t.Astray > t.Now {
		t.Astray = 0
	}
}
