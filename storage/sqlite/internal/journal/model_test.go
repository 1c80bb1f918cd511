//go:build linux

package journal

import (
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
)

// model is what a journal is held to: which records count, by number.
type model struct {
	t      *testing.T
	o      Options
	random *rand.Rand
	a, b   *Journal       // b is nil, or open beside a
	dealt  uint32         // what the caller has dealt with: generations up to that one
	added  map[int]uint32 // generations of records that count
	unsure map[int]bool   // records whose Add reported failure
	owned  bool
	next   int
}

// Random steps, one after the other. After each of them, what is pending is what was added
// since the caller has dealt with the rest, and perhaps what Add has refused.
func TestAgainstAModel(t *testing.T) {
	t.Parallel()
	seeds := 100
	if testing.Short() {
		seeds = 20
	}
	for seed := range uint64(seeds) {
		m := &model{
			t: t, o: small(newPath(t)), random: rand.New(rand.NewPCG(seed, 1)),
			added: make(map[int]uint32), unsure: make(map[int]bool),
		}
		m.a = mustOpen(t, m.o)
		for step := range 200 {
			m.step()
			if m.check(); t.Failed() {
				t.Fatalf("seed %d, step %d", seed, step)
			}
		}
		m.a.Close()
		if m.b != nil {
			m.b.Close()
		}
	}
}

func (m *model) step() {
	switch m.random.IntN(16) {
	case 0:
		m.a.Disown()
		m.owned = false
	case 1:
		m.a.Close()
		m.a, m.owned = mustOpen(m.t, m.o), false
	case 2:
		if m.b == nil {
			m.b, m.owned = mustOpen(m.t, m.o), false
		}
	case 3:
		if m.b != nil {
			m.b.Close()
			m.b = nil
		}
	case 4, 5:
		if owned := m.a.Own(m.dealt, 0); owned != (m.b == nil) {
			m.t.Errorf("owned: %v, alone: %v", owned, m.b == nil)
		} else {
			m.owned = owned
		}
	case 6:
		m.a.Seal()
	case 7, 8:
		m.deal()
	default:
		m.add()
	}
	if m.a.Owned() != m.owned {
		m.t.Errorf("owned: %v, expected %v", m.a.Owned(), m.owned)
	}
}

// deal deals with some of the sealed segments, as a caller does who keeps the sums elsewhere.
func (m *model) deal() {
	for _, s := range m.a.Segments(m.dealt) {
		if !s.Sealed() || m.random.IntN(4) == 0 {
			break
		}
		if err := m.a.Settle(s); err != nil {
			m.t.Error(err)
		}
		if s.Generation() <= m.dealt {
			m.t.Errorf("generation %d comes again", s.Generation())
		}
		m.dealt = s.Generation()
		maps.DeleteFunc(m.added, func(_ int, generation uint32) bool { return generation <= m.dealt })
	}
	m.a.Free(m.dealt)
}

func (m *model) add() {
	m.next++
	r := numbered(m.next)
	space := m.space()
	if !m.a.Add(r) {
		m.unsure[m.next] = true
		if m.owned && space {
			m.t.Errorf("record %d is refused", m.next)
		}
		return
	}
	if !m.owned || !space {
		m.t.Errorf("record %d is added", m.next)
	}
	m.added[m.next] = m.a.Newest()
}

// space reports whether one more record has a place: in the newest segment, or in one that
// was dealt with.
func (m *model) space() bool {
	segments := m.a.Segments(m.dealt)
	return len(segments) < m.o.Segments || !segments[len(segments)-1].Sealed()
}

func (m *model) check() {
	journals := []*Journal{m.a}
	if m.b != nil {
		journals = append(journals, m.b)
	}
	for _, j := range journals {
		there := make(map[int]bool)
		for _, r := range found(m.t, j, m.dealt) {
			n := int(r.Limit)
			if r != numbered(n) || there[n] || m.added[n] == 0 && !m.unsure[n] {
				m.t.Errorf("%+v is found", r)
			}
			there[n] = true
		}
		for _, n := range slices.Sorted(maps.Keys(m.added)) {
			if !there[n] {
				m.t.Errorf("record %d, of generation %d, is not found", n, m.added[n])
			}
		}
	}
}
