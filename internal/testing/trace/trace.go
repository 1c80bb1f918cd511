// Package trace checks what machines and a store did against the rules of the protocol (proof/leases.pml,
// proof/spread.pml): every unit that a machine spends was granted to it, is spent in its slot or earlier,
// and was not given back; the store never grants more than a window has left. It shares no code with the
// engine or the limiter, so that it can't share their errors.
//
// It checks limits that count in slots. Of token buckets it checks only that a machine spends no more units
// than it was granted and has not given back. Units that memory admits without the store are debts, not
// spent units.
package trace

import "fmt"

// Limit is a limit that counts in slots; with none it is a token bucket.
type Limit struct {
	Window, Amount int64
	Slots          int64
	Fixed          bool
}

func (l Limit) width() int64 { return (l.Window + l.Slots - 1) / l.Slots }

// Slot returns the slot of a time.
func (l Limit) Slot(now int64) int64 { return floor(now, l.width()) }

// counted returns the first and the last slot that count at a time.
func (l Limit) counted(now int64) (oldest, newest int64) {
	if l.Fixed {
		return l.Slot(now), l.Slot(now) + 1
	}
	return floor(now-l.Window+1, l.width()), l.Slot(now) + l.Slots + l.Slots*3/4
}

func floor(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

// Lease is units that were charged evenly to a last slot and Span slots before it. Of the units in the
// order of their slots, Lapsed came before the Spent ones.
type Lease struct {
	At, Span             int64
	Units, Spent, Lapsed int64
}

// charged returns how many units of a lease are charged to slots up to a given one.
func (ls Lease) charged(slot int64) int64 {
	n := min(max(slot-(ls.At-ls.Span)+1, 0), ls.Span+1)
	return (ls.Units + ls.Spent) * n / (ls.Span + 1)
}

// split returns the units of each slot of a lease: those that stay spent, and those that are free.
func (ls Lease) split(each func(slot, spent, free int64)) {
	for slot := ls.At - ls.Span; slot <= ls.At; slot++ {
		var spent, free int64
		for unit := ls.charged(slot - 1); unit < ls.charged(slot); unit++ {
			if unit >= ls.Lapsed && unit < ls.Lapsed+ls.Spent {
				spent++
			} else {
				free++
			}
		}
		each(slot, spent, free)
	}
}

// Claim is a claim that took effect in the store. Charge is of units that are not of a lease, in the slot
// At; if Floor is set, only what is missing of them.
type Claim struct {
	Machine  int
	Key      string // with its limit
	Limit    Limit
	Now, Era int64 // the store's time
	Back     Lease
	Charge   Lease
	Floor    bool
	Granted  Lease
}

// Trace follows machines and stores. It is not safe for concurrent use.
type Trace struct {
	Claims, Spends int // how many were checked
	machines       map[machineKey]*holding
	crashed        map[int]bool
	errors         []error
}

type machineKey struct {
	machine int
	key     string
}

// holding is what a machine was granted of a key and has not given back, and what it has spent.
type holding struct{ granted, spent map[int64]int64 } // by slot

// Store is a ledger of what a store was charged with.
type Store struct {
	era   int64
	slots map[string]map[int64]int64 // by key
}

// New returns an empty trace.
func New() *Trace {
	return &Trace{machines: make(map[machineKey]*holding), crashed: make(map[int]bool)}
}

// NewStore returns the ledger of an empty store.
func NewStore() *Store { return &Store{slots: make(map[string]map[int64]int64)} }

// Clone returns a copy of a store.
func (s *Store) Clone() *Store {
	c := NewStore()
	c.era = s.era
	for key, slots := range s.slots {
		c.slots[key] = make(map[int64]int64, len(slots))
		for slot, units := range slots {
			c.slots[key][slot] = units
		}
	}
	return c
}

// Err returns the first violation, or nil.
func (t *Trace) Err() error {
	if len(t.errors) == 0 {
		return nil
	}
	return fmt.Errorf("%w (and %d more)", t.errors[0], len(t.errors)-1)
}

func (t *Trace) fail(format string, args ...any) {
	t.errors = append(t.errors, fmt.Errorf(format, args...))
}

func (t *Trace) of(machine int, key string) *holding {
	h := t.machines[machineKey{machine, key}]
	if h == nil {
		h = &holding{make(map[int64]int64), make(map[int64]int64)}
		t.machines[machineKey{machine, key}] = h
	}
	return h
}

// Claimed notes a claim that took effect in a store.
func (t *Trace) Claimed(s *Store, c Claim) {
	t.Claims++
	h := t.of(c.Machine, c.Key)
	if c.Limit.Slots == 0 {
		h.granted[0] += c.Granted.Units - c.Back.Units
		t.check(h, &c, "gives back")
		return
	}
	c.Back.split(func(slot, _, free int64) { h.granted[slot] -= free })
	t.check(h, &c, "gives back")
	s.charge(t, &c)
	c.Granted.split(func(slot, _, free int64) { h.granted[slot] += free })
}

// charge does in the ledger what a claim does in the store.
func (s *Store) charge(t *Trace, c *Claim) {
	if c.Era != s.era {
		s.era = c.Era
		clear(s.slots) // counts of earlier eras are forgotten
	}
	slots := s.slots[c.Key]
	if slots == nil {
		slots = make(map[int64]int64)
		s.slots[c.Key] = slots
	}
	now := c.Limit.Slot(c.Now)
	c.Back.split(func(slot, spent, free int64) {
		slots[slot] = max(slots[slot]-free, 0)
		if moved := min(spent, slots[slot]); slot > now {
			slots[slot] -= moved
			slots[now] += moved
		}
	})
	used := s.used(c)
	if c.Floor {
		c.Charge.Units = max(c.Charge.Units-used, 0)
	}
	slots[c.Charge.At] += c.Charge.Units
	c.Granted.split(func(slot, _, free int64) { slots[slot] += free })
	if used = s.used(c); c.Granted.Units > 0 && used > c.Limit.Amount {
		t.fail("the store grants machine %d %d units of %s, so that %d of %d are in use", c.Machine, c.Granted.Units, c.Key, used, c.Limit.Amount)
	}
	if first := c.Granted.At - c.Granted.Span; c.Granted.Units > 0 && first < now {
		t.fail("the store grants machine %d units of %s in slot %d, before the present one, %d", c.Machine, c.Key, first, now)
	}
}

// used returns the units that count at the time of a claim, and forgets those that never will again.
func (s *Store) used(c *Claim) (used int64) {
	oldest, newest := c.Limit.counted(c.Now)
	for slot, units := range s.slots[c.Key] {
		switch {
		case slot < oldest-c.Limit.Slots:
			delete(s.slots[c.Key], slot)
		case slot >= oldest && slot <= newest:
			used += units
		}
	}
	return used
}

// Spend notes units that a machine spends at a time by its clock.
func (t *Trace) Spend(machine int, key string, l Limit, at, units int64) {
	t.Spends++
	if t.crashed[machine] {
		t.fail("machine %d spends %d units of %s after it has crashed", machine, units, key)
	}
	h := t.of(machine, key)
	h.spent[l.slot(at)] += units
	t.check(h, &Claim{Machine: machine, Key: key, Limit: l}, "spends")
}

// Unspend notes that units which were spent at a time were not used, and may be spent again.
func (t *Trace) Unspend(machine int, key string, l Limit, at, units int64) {
	t.of(machine, key).spent[l.slot(at)] -= units
}

func (l Limit) slot(at int64) int64 {
	if l.Slots == 0 {
		return 0
	}
	return l.Slot(at)
}

// Crash notes that a machine does nothing any more.
func (t *Trace) Crash(machine int) { t.crashed[machine] = true }

// check checks that for each slot a machine has spent no more units in it and later ones than it was
// granted there and has not given back: then there is a different unit for each one spent.
func (t *Trace) check(h *holding, c *Claim, does string) {
	for slot := range h.spent {
		var spent, granted int64
		for s, units := range h.spent {
			if s >= slot {
				spent += units
			}
		}
		for s, units := range h.granted {
			if s >= slot {
				granted += units
			}
		}
		if spent > granted {
			t.fail("machine %d %s: of %s it has spent %d units from slot %d on, and was granted %d that it has not given back", c.Machine, does, c.Key, spent, slot, granted)
			return
		}
	}
	h.trim(c.Limit)
}

// maxSlots bounds how many slots of a key are looked at.
const maxSlots = 200

// trim forgets old slots together once there are many: what was spent in them, and as much of what was
// granted.
func (h *holding) trim(l Limit) {
	if len(h.spent)+len(h.granted) < maxSlots || l.Slots == 0 {
		return
	}
	var newest int64
	for slot := range h.granted {
		newest = max(newest, slot)
	}
	for _, units := range []map[int64]int64{h.spent, h.granted} {
		for slot := range units {
			if slot < newest-3*l.Slots {
				delete(units, slot)
			}
		}
	}
}
