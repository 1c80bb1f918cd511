package history

import (
	"encoding/hex"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/outcomes"
	"github.com/caddy-tally/caddy-tally/storage"
)

// Of returns the series of one key of a limit, by the key's name at rest. Only keys that operators
// give out have one: clients could invent others without end.
func Of(limit storage.Series, key storage.Key) storage.Series {
	return storage.Series{Zone: limit.Zone, Limit: limit.Limit + "\x1f" + hex.EncodeToString(key[:])}
}

// Requests is the series of requests: handlers count each once, however many zones decide about it.
// No zone can be asked for its limit, and earlier versions don't add it to those of zones.
var Requests = storage.Series{Zone: "requests", Limit: "\x1frequests"}

// Others names, in [Of], all keys of a limit together that would have a series and for which there
// was no room.
var Others storage.Key

// maxExact is the most keys that a ledger counts exactly, once for each limit: the first ones since
// the process began. Each has a row of the history for an hour and a day.
const maxExact = 2000

// exact counts the requests and units of single keys.
type exact struct {
	room *atomic.Int64 // how many keys of the ledger are counted

	mu     sync.RWMutex
	keys   map[string]*used // guarded by mu
	others used             // the keys without room
}

// used is the use of a key since the last take.
type used struct{ allowed, refused, units atomic.Int64 }

// of returns the counts of a key, which those without room share.
func (e *exact) of(key Key) *used {
	e.mu.RLock()
	u := e.keys[string(key.Text)]
	e.mu.RUnlock()
	switch {
	case u != nil:
		return u
	case e.room.Load() >= maxExact:
		return &e.others
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if u = e.keys[string(key.Text)]; u == nil {
		if e.keys == nil {
			e.keys = make(map[string]*used)
		}
		u = new(used)
		e.keys[string(key.Text)] = u
		e.room.Add(1)
	}
	return u
}

// add counts requests and units of a key, if operators give out such keys.
func (e *exact) add(key Key, allowed, refused, units int64) {
	if key.Lasting && e.room != nil {
		u := e.of(key)
		u.allowed.Add(allowed)
		u.refused.Add(refused)
		u.units.Add(units)
	}
}

// take returns the counts since the last call, in the first minute of the hour: finer ones would be
// a row for each key and minute.
func (e *exact) take(at int64, limit storage.Series, name Namer) (counted []storage.Minute) {
	e.mu.RLock()
	defer e.mu.RUnlock()
	at = storage.Period(at, time.Hour) * int64(time.Hour)
	take := func(u *used, key storage.Key) {
		if u.allowed.Load() != 0 || u.refused.Load() != 0 || u.units.Load() > 0 {
			units := u.units.Swap(0)
			u.units.Add(min(units, 0)) // given back: later minutes lack them
			counted = append(counted,
				storage.Minute{At: at, Series: Of(limit, key),
					Tally: storage.Tally{Counts: outcomes.Counts{Allowed: u.allowed.Swap(0),
						Refused: u.refused.Swap(0)}, Units: max(units, 0)}})
		}
	}
	take(&e.others, Others)
	for key, u := range e.keys {
		if named, err := name(limit, key); err == nil { // otherwise the counts wait
			take(u, named)
		}
	}
	return counted
}
