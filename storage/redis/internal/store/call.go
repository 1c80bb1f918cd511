package store

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/redis/rueidis"

	"github.com/caddy-tally/caddy-tally/storage"
)

// call is a call of a script that begins with enter.lua.
type call struct {
	what   string // for messages
	script *rueidis.Lua
	writes bool
	least  int64 // see storage.Store.Time
	// request returns the keys and arguments of a call as of a time, and the earliest time at which
	// they would be the same. Both times are 0 in upkeep.
	request func(now int64) request

	open bool // a copy of the call may still take effect
}

// request is the content of a call.
type request struct {
	keys, args []string
	from       int64
}

// reply is the answer of a script.
type reply struct {
	status  string
	now     int64 // the time of the place, in nanoseconds
	offset  int64 // of now from the server's clock
	resets  int64
	asof    int64 // the time as of which the call was decided
	answer  string
	more    []rueidis.RedisMessage // the rest of the answer
	skipped bool                   // the call had taken effect before, and more is empty
	resent  bool                   // another copy of the call may still reach the server
}

// errBroken says that the store must be opened again.
var errBroken = errors.New("an earlier call has failed: the store must be opened again")

// errLate says that a repeated call was refused, while an earlier copy of it may still be executed.
var errLate = errors.New("the server may get the call late")

// header has the arguments of enter.lua that differ from call to call. Times are in nanoseconds.
type header struct {
	timed        bool  // the call is within a term
	asof, from   int64 // the time that the call was made for, and the earliest one at which it would be the same
	within       int64 // how old asof may be
	resets       int64 // the newest reset that the caller knows, or -1
	adjust, seen int64 // what to add to the offset of the clock, if that is still the one seen
	least        int64 // the time of a new place is not before it
	given        int64 // the server's time; 0 asks the server
}

func (m *machine) header(h header, writes bool) string {
	b := append(make([]byte, 0, 200), m.place...)
	for _, n := range []int64{
		m.seq, bit(writes), bit(h.timed),
		ceilMicro(h.asof), ceilMicro(h.from), h.within / 1000, h.resets,
		h.adjust / 1000, h.seen / 1000, h.least / 1000, m.clock.last / 1000, stays.Milliseconds(), h.given / 1000,
	} {
		b = strconv.AppendInt(append(b, ' '), n, 10)
	}
	return string(b)
}

func bit(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

func ceilMicro(nanos int64) int64 { return (max(nanos, 0) + 999) / 1000 }

// leftOpen returns the error of a call whose outcome is unknown.
func (c *call) leftOpen(err error) error {
	if !c.writes {
		return err
	}
	return fmt.Errorf("%w: %w", storage.ErrUnknownOutcome, err)
}

// parse parses the answer of a script.
func parse(list []rueidis.RedisMessage) (r reply, err error) {
	texts := make([]string, min(len(list), 6))
	for i := range texts {
		if texts[i], err = list[i].ToString(); err != nil {
			return r, fmt.Errorf("the server's answer can't be read: %w", err)
		}
	}
	if len(texts) > 0 && texts[0] == "lost" {
		return reply{status: "lost"}, nil
	}
	if len(texts) < 6 {
		return r, errors.New("the server's answer is too short")
	}
	r = reply{status: texts[0], answer: texts[5], more: list[6:], skipped: texts[0] == "again"}
	for i, to := range []*int64{&r.now, &r.offset, &r.resets, &r.asof} {
		if *to, err = strconv.ParseInt(texts[i+1], 10, 64); err != nil {
			return r, fmt.Errorf("the server's answer can't be read: %w", err)
		}
	}
	r.now, r.offset, r.asof = r.now*1000, r.offset*1000, r.asof*1000
	return r, nil
}
