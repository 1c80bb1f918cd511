//go:build linux

package main

import (
	"time"

	"github.com/caddy-tally/caddy-tally/benchmarks/internal/lab"
)

// A kase is what clients do. (case is a word of Go.)
type kase struct {
	name  string
	keys  int  // in rotation; 0 never repeats one
	cold  bool // whether each measurement begins with keys that never came before
	limit limit
}

// A limit is what each key may do.
type limit struct {
	amount int
	window time.Duration
}

// perMinute returns the limit as a rate, which is at least 1.
func (l limit) perMinute() int {
	return max(1, int(time.Duration(l.amount)*time.Minute/l.window))
}

// keysInRotation are as many keys as tables are made for, coldKeys those of a cold start.
const (
	keysInRotation = 100_000
	coldKeys       = 50_000
)

var (
	// roomy is never used up, however quick a server is. Limiters that keep a time for
	// each unit need memory for all of them, so it isn't larger than it must be.
	roomy = limit{1_000_000, 10 * time.Second}
	usual = limit{1000, time.Minute}
	shut  = limit{1, 24 * time.Hour}
)

var (
	oneKey   = kase{name: "one-key", keys: 1, limit: roomy}
	rotation = kase{name: "rotation", keys: keysInRotation, limit: usual}
	newKeys  = kase{name: "new-keys", keys: 0, limit: usual}
	cold     = kase{name: "cold", keys: coldKeys, cold: true, limit: usual}
	refused  = kase{name: "refused", keys: 1, limit: shut}
)

var cases = []kase{oneKey, rotation, newKeys, cold, refused}

func caseNames() (names lab.List) {
	for _, k := range cases {
		names = append(names, k.name)
	}
	return names
}
