package limiter

import (
	"fmt"
	"time"
)

// day is the unit of the windows of a calendar: from one midnight to the next on the clocks of a
// place. It is 23 or 25 hours long when the clocks change (decision 32).
const day = 24 * time.Hour

// MaxOffset is more than the clocks of any time zone have ever been ahead of or behind UTC.
const MaxOffset = day

// checkCalendar returns an error if p has a time zone and is a limit that can't follow its
// calendar.
func checkCalendar(p Params) error {
	switch {
	case p.Location == nil:
		return nil
	case p.Algorithm != Fixed:
		return fmt.Errorf("a time zone belongs to a fixed limit, not to %v", p.Algorithm)
	case p.Window%day != 0 && p.Window != Month:
		return fmt.Errorf("a window in a time zone must be whole days or a month, got %v: write 24h", p.Window)
	}
	return nil
}

// A calendar determines where the slots of a sliding or fixed limit begin and end, and which slots
// count. The zero value is the calendar of a token bucket, which has no slots: methods that return
// a slot panic.
//
// Invariants: slots × width is length, or longer by less than a nanosecond per slot. In months both are
// averages. A slot begins
// at the end of the previous one, even when clocks change. At any time the slots from Oldest to
// Newest count.
type calendar struct {
	fixed    bool           // only the slot of now counts
	slots    int32          // of a window; fixed: 1
	length   int64          // nanoseconds of a window
	width    int64          // nanoseconds of a slot, rounded up
	months   bool           // slots are months of the calendar, in a location
	location *time.Location // the location of the days, or nil
}

// CountsSlots reports whether the usage of the limit is in [State.Slots]. If not, it is in
// [State.Bucket].
func (c calendar) CountsSlots() bool { return c.slots > 0 }

// Slots returns the number of slots of a window: 1 for a fixed window, 0 for a
// token bucket.
func (c calendar) Slots() int64 { return int64(c.slots) }

// Slot returns the index of the slot that a time lies in. Indices count from
// the Unix epoch, or in a time zone from its clocks' 1970-01-01 00:00. A token
// bucket has no slots: Slot, Oldest and Newest panic.
func (c *calendar) Slot(now int64) int64 {
	if c.location != nil {
		return c.calendarSlot(now)
	}
	return floorDiv(now, c.width)
}

// WindowOf returns the index of the window of a slot. Windows are aligned like slots. The slots
// that count at one time lie in a few adjacent windows. A token bucket has none.
func (c *calendar) WindowOf(slot int64) int64 { return floorDiv(slot, int64(c.slots)) }

// Oldest returns the index of the oldest slot that still counts at now.
func (c *calendar) Oldest(now int64) int64 {
	if c.fixed {
		return c.Slot(now)
	}
	return floorDiv(now-c.length+1, c.width)
}

// Newest returns the index of the newest slot that counts at now: a window ahead, for slots written
// by processes with faster clocks, and MaxAhead slots later, because these may charge a grant
// ahead. So granted units count together with all units admitted in any one window, however far
// clocks are apart. Slots beyond it are considered damaged and ignored until time comes nearer.
func (c *calendar) Newest(now int64) int64 {
	return c.Slot(now) + int64(c.slots) + c.MaxAhead()
}

// MaxAhead returns how many slots after its own a grant may be charged: three quarters of a window (decision 13).
func (c calendar) MaxAhead() int64 { return int64(c.slots) * 3 / 4 }

// Expiry returns the time from which on a slot no longer counts.
func (c *calendar) Expiry(slot int64) int64 {
	if c.fixed {
		return c.Ends(slot)
	}
	return c.Ends(slot) - 1 + c.length
}

// Ends returns the time at which a slot of a sliding or fixed limit ends, and the next begins.
func (c *calendar) Ends(slot int64) int64 {
	if c.location != nil {
		return c.begins(slot + 1)
	}
	return (slot + 1) * c.width
}

// Together reports whether two slots may be joined if only few slots are possible, as in memory.
// Slots are joined so that a window has 64 or fewer. In a limit with at most that many slots, none
// are joined.
func (c *calendar) Together(slot, other int64) bool {
	group := max((c.Slots()+fewSlots-1)/fewSlots, 1)
	return slot/group == other/group
}

// fewSlots is the number of parts into which Together divides a window.
const fewSlots = 64

// floorDiv divides rounding towards negative infinity, so that slots before the
// epoch are as long as those after it.
func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

// shown returns what the clocks of the location show at the beginning of a window, as nanoseconds since
// they showed 1970-01-01 00:00.
func (c *calendar) shown(slot int64) int64 {
	if c.months {
		return time.Date(1970, time.Month(1+min(max(slot, -maxMonths), maxMonths)), 1, 0, 0, 0, 0, time.UTC).UnixNano()
	}
	return slot * c.width
}

// slotShown returns the index of the window that lies at a time shown by the clocks.
func (c *calendar) slotShown(shown int64) int64 {
	if c.months {
		at := time.Unix(0, shown).UTC()
		return int64(at.Year()-1970)*12 + int64(at.Month()) - 1
	}
	return floorDiv(shown, c.width)
}

// maxMonths bounds the index of a month, which may come from a damaged file: nanoseconds reach further.
const maxMonths = 250 * 12

// calendarSlot returns the index of the window that a time lies in: the number of windows between
// 1970-01-01 00:00 and now on the clocks of the location. Clocks that are set back over midnight
// don't return to the previous day.
func (c *calendar) calendarSlot(now int64) int64 {
	at := time.Unix(0, now).In(c.location)
	_, offset := at.Zone()
	slot := c.slotShown(now + int64(offset)*int64(time.Second))
	since, _ := at.ZoneBounds()
	if since.IsZero() || at.Sub(since) > MaxOffset {
		return slot // the clocks were not changed for a day
	}
	for c.begins(slot+1) <= now {
		slot++
	}
	return slot
}

// begins returns the first time at which the clocks of the location show the beginning of a window,
// or a later time if they are set ahead over it.
func (c *calendar) begins(slot int64) int64 {
	shown := c.shown(slot)
	at := shown - int64(MaxOffset)
	for {
		here := time.Unix(0, at).In(c.location)
		_, offset := here.Zone()
		at = max(at, shown-int64(offset)*int64(time.Second))
		_, changes := here.ZoneBounds()
		// Go 1.26 has none after the 365th day of 2040
		if changes.IsZero() || at < changes.UnixNano() || !changes.After(here) {
			return at
		}
		at = changes.UnixNano()
	}
}
