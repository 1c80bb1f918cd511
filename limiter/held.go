package limiter

// Held counts the units of a token bucket that pending requests hold. The zero
// value holds nothing. Slots need no such type: their units go back to their slot.
//
// Held units drain as if nothing else were in use. A request that doesn't count gives back at most
// its undrained units: the bucket has refilled the rest already, and others may have used it since.
// Of several requests, the first ones to give back lose the drained units of all. So the requests
// that count stay charged in full, whichever they are. If none counts, all units come back.
type Held struct {
	bucket Bucket // undrained
	units  int64  // taken
}

// Add adds units that were spent from the lease of a token bucket at now.
func (h *Held) Add(l *Limit, now, units int64) {
	h.bucket = h.bucket.drained(l, now)
	h.bucket.Units += units
	h.units += units
}

// Keep removes units that stay spent.
func (h *Held) Keep(l *Limit, now, units int64) {
	h.bucket = h.bucket.drained(l, now)
	h.bucket.Units, h.bucket.Part = l.less(h.bucket.Units, h.bucket.Part, units, 0)
	h.units = max(h.units-units, 0)
}

// Release removes units from the held ones, and puts their undrained part back into the lease that
// they were spent from.
func (h *Held) Release(l *Limit, ls *Lease, now, units int64) {
	h.bucket = h.bucket.drained(l, now)
	h.units = max(h.units-units, 0)
	back, part := l.less(h.bucket.Units, h.bucket.Part, h.units, 0)
	h.bucket.Units, h.bucket.Part = l.less(h.bucket.Units, h.bucket.Part, back, part)

	*ls = ls.drained(l, now)
	outside, outsidePart := ls.outside(l)
	back, part = lesser(back, part, outside, outsidePart)
	ls.Units, ls.HeldPart = l.plus(ls.Units, ls.HeldPart, back, part)
	ls.Spent, ls.SpentPart = l.less(ls.Spent, ls.SpentPart, back, part)
}
