package replay

import (
	"cmp"
	"maps"
	"slices"
)

// offenders are the clients that a limit refused.
type offenders struct {
	byHash  map[uint64]*offender
	dropped bool // some were dropped
}

// offender is a refused client.
type offender struct {
	hash        uint64
	key         string
	refused     int64
	first, last int64
	statuses    statuses
	agents      []string // the first few user agents
}

const (
	maxOffenders = 10_000 // per limit
	dropOf       = 8      // of so many offenders, the one refused least is dropped when there are too many
	maxAgents    = 3      // per offender
	maxAgent     = 120    // bytes of a user agent
)

// get returns the offender with a hash, adding it if necessary.
func (o *offenders) get(hash uint64, key []byte) *offender {
	off := o.byHash[hash]
	if off != nil {
		return off
	}
	if o.byHash == nil {
		o.byHash = make(map[uint64]*offender)
	}
	o.makeRoom()
	off = &offender{hash: hash, key: string(key), statuses: make(statuses)}
	o.byHash[hash] = off
	return off
}

// makeRoom drops one of a few offenders if there are too many.
func (o *offenders) makeRoom() {
	if len(o.byHash) >= maxOffenders {
		o.dropped = true
		dropLeast(o.byHash, func(off *offender) int64 { return off.refused })
	}
}

// dropLeast drops the lightest of a few entries. The few are chosen at random, so the heaviest entries
// stay.
func dropLeast[K comparable, V any](entries map[K]V, weight func(V) int64) {
	var least K
	n := 0
	for key, entry := range entries {
		if n == 0 || weight(entry) < weight(entries[least]) {
			least = key
		}
		if n++; n == dropOf {
			break
		}
	}
	delete(entries, least)
}

// note counts a refusal.
func (o *offender) note(at int64, status int, agent string) {
	if o.refused++; o.refused == 1 {
		o.first = at
	}
	o.last = at
	o.statuses.add(status)
	if agent = cut(agent); agent != "" && len(o.agents) < maxAgents && !slices.Contains(o.agents, agent) {
		o.agents = append(o.agents, agent)
	}
}

// heaviest returns the offenders, the most refused first.
func (o *offenders) heaviest() []*offender {
	return slices.SortedFunc(maps.Values(o.byHash), func(a, b *offender) int {
		return cmp.Or(cmp.Compare(b.refused, a.refused), cmp.Compare(a.first, b.first), cmp.Compare(a.key, b.key))
	})
}

// cut returns a shortened copy of a user agent.
func cut(agent string) string {
	return string([]byte(agent[:min(len(agent), maxAgent)]))
}

// statuses counts answers by their status. Statuses above 999 are merged.
type statuses map[int]int64

func (s statuses) add(status int) { s[min(max(status, 0), 1000)]++ }

// tally counts texts. Their number is bounded.
type tally map[string]int64

// maxTally bounds the number of counted texts. Rare ones may be missing.
const maxTally = 500

func (t tally) add(text string) {
	text = text[:min(len(text), maxAgent)]
	if _, known := t[text]; !known {
		if len(t) >= maxTally {
			dropLeast(t, func(n int64) int64 { return n })
		}
		text = string([]byte(text))
	}
	t[text]++
}
