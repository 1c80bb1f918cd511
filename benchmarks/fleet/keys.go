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
	eachKey     = "each"     // those of the rotation once, if all goroutines send enough requests
	newKeys     = "new"      // each comes once
	halfRefused = "half"     // half of the requests have one of a few keys, and half are in rotation
)

// fewKeys is how many keys use up their limits in halfRefused.
const fewKeys = 100

// A keyer makes the keys of one goroutine.
type keyer struct {
	machine, goroutine, keys int

	position int // in rotation
	made     int64
	chance   *rand.Rand
	room     []byte
}

// newKeyer returns what makes the keys of a goroutine of a machine, of so many.
func newKeyer(machine, goroutine, keys int) *keyer {
	chance := rand.New(rand.NewPCG(uint64(machine), uint64(goroutine)))
	return &keyer{machine: machine, goroutine: goroutine, keys: keys, position: chance.IntN(keys), chance: chance}
}

// begin prepares the keys of a load.
func (k *keyer) begin(l load) {
	if l.Keys == eachKey {
		k.position = k.goroutine * l.Requests % k.keys
	}
}

// next returns a key, which holds until the next call.
func (k *keyer) next(how string) []byte {
	k.made++
	switch how {
	case hotKey:
		return k.number("hot-", 0)
	case ownKeys:
		return k.number("own-", int64(k.goroutine))
	case random:
		return k.number("client-", int64(k.chance.IntN(k.keys)))
	case newKeys:
		key := k.number("new-", int64(k.machine))
		key = strconv.AppendInt(append(key, '-'), int64(k.goroutine), 10)
		k.room = strconv.AppendInt(append(key, '-'), k.made, 10)
		return k.room
	case halfRefused:
		if k.made%2 == 0 {
			return k.number("refused-", int64(k.chance.IntN(fewKeys)))
		}
	}
	key := k.number("client-", int64(k.position))
	k.position = (k.position + 1) % k.keys
	return key
}

func (k *keyer) number(prefix string, n int64) []byte {
	k.room = strconv.AppendInt(append(k.room[:0], prefix...), n, 10)
	return k.room
}
