//go:build linux

package main

import (
	"math/rand/v2"
	"strconv"
)

// How the keys of requests are chosen.
const (
	hotKey      = "hot"      // one for all
	ownKeys     = "own"      // one for each goroutine, which is the same on all machines
	rotation    = "rotation" // all in turn
	random      = "random"   // all at random
	newKeys     = "new"      // each comes once
	halfRefused = "half"     // half of the requests have one of a few keys, and half are in rotation
)

// fewKeys is how many keys use up their limits in halfRefused.
const fewKeys = 100

// A keyer makes the keys of one goroutine.
type keyer struct {
	machine int
	keys    int64 // in rotation
	chance  *rand.Rand
	room    []byte
}

// newKeyer returns a keyer for a goroutine of a machine.
func newKeyer(s setup, goroutine int) *keyer {
	return &keyer{machine: s.Machine, keys: int64(s.Keys), chance: rand.New(rand.NewPCG(uint64(s.Machine), uint64(goroutine)))}
}

// key returns the key of a request of a workload. Requests of a machine are numbered on from load to load. The
// key holds until the next call.
func (k *keyer) key(l workload, number int64) []byte {
	switch l.Keys {
	case hotKey:
		return k.number("hot-", 0)
	case ownKeys:
		return k.number("own-", number%int64(l.Goroutines))
	case random:
		return k.number("client-", k.chance.Int64N(k.keys))
	case newKeys:
		k.room = strconv.AppendInt(append(k.number("new-", int64(k.machine)), '-'), number, 10)
		return k.room
	case halfRefused:
		if number%2 == 0 {
			return k.number("refused-", k.chance.Int64N(fewKeys))
		}
	}
	return k.number("client-", number%k.keys)
}

func (k *keyer) number(prefix string, n int64) []byte {
	k.room = strconv.AppendInt(append(k.room[:0], prefix...), n, 10)
	return k.room
}
