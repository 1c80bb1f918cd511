package tally

import (
	"fmt"
	"hash/maphash"
	"strings"
	"sync/atomic"

	"github.com/caddy-tally/caddy-tally/identity/reference"
)

// Bounds of the recent refusals in memory: 8192 of less than 400 bytes each.
const (
	recentSets   = 512
	recentPerSet = 16
)

// recentRefusal is what memory holds of a refusal that somebody was told the reference of.
type recentRefusal struct {
	reference  string
	request    string // method and class of the path
	cost, left int64  // units
	capacity   int64  // of the limit in full
}

// recentByReference finds recent refusals by their references, or by the beginnings of these. The
// zero value is empty. A key has one set of 16, so that no client pushes
// out the refusals of many others.
// It may be used from any number of goroutines, and none waits for another.
type recentByReference struct {
	sets [recentSets]struct {
		next     atomic.Uint32
		refusals [recentPerSet]atomic.Pointer[recentRefusal]
	}
}

// recentSeed keeps clients from choosing the set of somebody else.
var recentSeed = maphash.MakeSeed()

// add adds a refusal that has a reference, of a key; nil is one that all clients share.
func (m *recentByReference) add(key []byte, r recentRefusal) {
	if r.reference == "" {
		return
	}
	of := maphash.Bytes(recentSeed, key)
	if len(key) == 0 {
		of = maphash.String(recentSeed, r.reference)
	}
	set := &m.sets[of%recentSets]
	set.refusals[set.next.Add(1)%recentPerSet].Store(&r)
}

// find returns the refusal with a reference, which may be only the beginning that people are shown.
// The result is nil if memory doesn't hold it, and the error says so if that is all there is.
func (m *recentByReference) find(text string) (found *recentRefusal, err error) {
	text = reference.Canonical(text)
	if len(text) < reference.ShortSize {
		return nil, nil
	}
	for i := range m.sets {
		for j := range m.sets[i].refusals {
			r := m.sets[i].refusals[j].Load()
			if r == nil || !strings.HasPrefix(r.reference, text) {
				continue
			}
			if found != nil {
				return nil, fmt.Errorf("reference: several refusals begin with %s: expected the whole reference of %d characters", text, reference.TextSize)
			}
			found = r
		}
	}
	if found == nil && len(text) == reference.ShortSize {
		return nil, fmt.Errorf("reference: this Caddy's memory doesn't hold %s (any more): look in the decision log for the line whose reference begins with %[1]s, or ask with the whole reference of %d characters", text, reference.TextSize)
	}
	return found, nil
}

// text says in a sentence what was refused and why.
func (r *recentRefusal) text() string {
	switch {
	case r.cost == 0:
		return r.request
	case r.cost > r.capacity:
		return fmt.Sprintf("%s: it cost %d, and the limit is %d", r.request, r.cost, r.capacity)
	case r.left == 1:
		return fmt.Sprintf("%s: it cost %d, 1 was left", r.request, r.cost)
	}
	return fmt.Sprintf("%s: it cost %d, %d were left", r.request, r.cost, r.left)
}
