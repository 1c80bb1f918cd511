package limiter

import (
	"fmt"
	"time"
)

// day is what the windows of a calendar are made of: from one midnight to the
// next on the clocks of a place, which is 23 or 25 hours where these are changed.
const day = 24 * time.Hour

// MaxOffset is more than the clocks of any time zone have ever been ahead of or
// behind UTC.
const MaxOffset = day

// checkCalendar returns an error if p names a time zone and is no limit that can
// follow its calendar.
func checkCalendar(p Params) error {
	switch {
	case p.Location == nil:
		return nil
	case p.Algorithm != Fixed:
		return fmt.Errorf("a time zone belongs to a fixed limit, not to %v", p.Algorithm)
	case p.Window%day != 0:
		return fmt.Errorf("a window in a time zone must be whole days, got %v: write 24h", p.Window)
	}
	return nil
}

// calendarSlot returns the index of the window that a time lies in: how many
// times the window goes into what the clocks of the location show, as if they
// had shown 1970-01-01 00:00 first. Clocks that are set back over midnight don't
// bring the day before back.
func (l *Limit) calendarSlot(now int64) int64 {
	at := time.Unix(0, now).In(l.location)
	_, offset := at.Zone()
	slot := floorDiv(now+int64(offset)*int64(time.Second), l.width)
	since, _ := at.ZoneBounds()
	if since.IsZero() || at.Sub(since) > MaxOffset {
		return slot // nobody has set the clocks for a day
	}
	for l.begins(slot+1) <= now {
		slot++
	}
	return slot
}

// begins returns the first time at which the clocks of the location show the
// beginning of a window, or more, where they are set ahead over it.
func (l *Limit) begins(slot int64) int64 {
	shown := slot * l.width
	at := shown - int64(MaxOffset)
	for {
		here := time.Unix(0, at).In(l.location)
		_, offset := here.Zone()
		at = max(at, shown-int64(offset)*int64(time.Second))
		_, changes := here.ZoneBounds()
		if changes.IsZero() || at < changes.UnixNano() {
			return at
		}
		at = changes.UnixNano()
	}
}
