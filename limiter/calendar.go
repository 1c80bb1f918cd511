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

// A calendar says where the slots of a sliding or fixed limit begin and end, and which of them count.
// The zero value is that of a token bucket, which has no slots: methods that return one panic.
//
// Invariants: slots × width is length, or longer by less than a nanosecond per slot. A slot begins when
// the one before it ends, also where clocks are changed. The slots from Oldest to Newest count at a
// time.
type calendar struct {
	fixed    bool           // whether only the slot of now counts
	slots    int32          // of a window; fixed: 1
	length   int64          // nanoseconds of a window
	width    int64          // nanoseconds of a slot, rounded up
	location *time.Location // whose days are counted, or nil
}

// CountsSlots reports whether [State.Slots] holds what is used of the limit. If not,
// [State.Bucket] does.
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

// WindowOf returns the index of the window, aligned as slots are, that a slot
// lies in. The slots that count at one time lie in a few windows next to one
// another. A token bucket has none.
func (c *calendar) WindowOf(slot int64) int64 { return floorDiv(slot, int64(c.slots)) }

// Oldest returns the index of the oldest slot that still counts at now.
func (c *calendar) Oldest(now int64) int64 {
	if c.fixed {
		return c.Slot(now)
	}
	return floorDiv(now-c.length+1, c.width)
}

// Newest returns the index of the newest slot that counts at now: a window
// ahead, for what other processes with faster clocks have written, and as much
// later as they may charge a grant. So what is granted counts together with all
// that was admitted in any one window, however far clocks are apart. Slots
// beyond it are taken as damaged and ignored until time comes nearer.
func (c *calendar) Newest(now int64) int64 {
	return c.Slot(now) + int64(c.slots) + c.MaxAhead()
}

// MaxAhead returns how many slots later than its own a grant may be charged to:
// three quarters of a window.
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

// Together reports whether two slots may be taken for one where few have to do, as
// in memory: slots are joined so that there are 64 or fewer in a window, and of a
// limit that has no more than that, none.
func (c *calendar) Together(slot, other int64) bool {
	group := max((c.Slots()+fewSlots-1)/fewSlots, 1)
	return slot/group == other/group
}

// fewSlots is into how many parts a window is divided by Together.
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

// calendarSlot returns the index of the window that a time lies in: how many
// times the window goes into what the clocks of the location show, as if they
// had shown 1970-01-01 00:00 first. Clocks that are set back over midnight don't
// bring the day before back.
func (c *calendar) calendarSlot(now int64) int64 {
	at := time.Unix(0, now).In(c.location)
	_, offset := at.Zone()
	slot := floorDiv(now+int64(offset)*int64(time.Second), c.width)
	since, _ := at.ZoneBounds()
	if since.IsZero() || at.Sub(since) > MaxOffset {
		return slot // the clocks were not changed for a day
	}
	for c.begins(slot+1) <= now {
		slot++
	}
	return slot
}

// begins returns the first time at which the clocks of the location show the
// beginning of a window, or more, where they are set ahead over it.
func (c *calendar) begins(slot int64) int64 {
	shown := slot * c.width
	at := shown - int64(MaxOffset)
	for {
		here := time.Unix(0, at).In(c.location)
		_, offset := here.Zone()
		at = max(at, shown-int64(offset)*int64(time.Second))
		_, changes := here.ZoneBounds()
		if changes.IsZero() || at < changes.UnixNano() {
			return at
		}
		at = changes.UnixNano()
	}
}
