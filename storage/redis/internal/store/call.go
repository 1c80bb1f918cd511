package store

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/caddy-tally/caddy-tally/storage"
)

// call is a call of a script that begins with enter.lua.
type call struct {
	what   string // for messages
	script *rueidis.Lua
	term   *storage.Term // nil if the time is in the arguments
	writes bool
	least  int64 // see storage.Store.Time
	// request returns the keys and arguments of a call as of a time, and the first time for which
	// they would be the same; both are 0 outside of terms.
	request func(now int64) (r request, err error)
}

// request is the content of a call.
type request struct {
	keys, args []string
	from       int64
}

// reply is the answer of a script.
type reply struct {
	status  string
	now     int64 // the time of the place, in nanoseconds, and its offset
	offset  int64
	resets  int64
	asof    int64 // the time that the call was decided as of
	answer  string
	more    []rueidis.RedisMessage // the rest of it
	skipped bool                   // it was answered before, and more was not said again
	resent  bool                   // the call was sent before, and may still come to the server
}

// errBroken says that a store has to be opened again.
var errBroken = errors.New("an earlier call has failed: the store has to be opened again")

// errLate says that a call which was sent again was refused, and may still be executed.
var errLate = errors.New("the server may get the call late")

// take waits for the turn of a call.
func (s *Store) take(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case s.turn <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	err := s.broken
	if s.closed.Load() {
		err = storage.ErrClosed
	}
	if err != nil {
		<-s.turn
	}
	return err
}

// do makes a call.
func (s *Store) do(ctx context.Context, c call) (r reply, err error) {
	if err := s.take(ctx); err != nil {
		return r, fmt.Errorf("redis: %s: %w", c.what, err)
	}
	defer func() { <-s.turn }()
	if r, err = s.doInTurn(ctx, c); err != nil {
		return r, fmt.Errorf("redis: %s: %w", c.what, explain(err))
	}
	return r, nil
}

func (s *Store) doInTurn(ctx context.Context, c call) (r reply, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.options.Timeout)
	defer cancel()
	if c.term == nil {
		return s.ask(ctx, c, header{from: 0}, 0)
	}
	defer func() { s.former.keep(s.clock) }()
	return s.askInTerm(ctx, c)
}

// maxAttempts is how often a call is made because the time was another.
const maxAttempts = 5

// askInTerm makes a call as of the time that the place is believed to have, and if that is not so,
// as of the one that it tells. That one is of a moment at which the call was under way as well.
func (s *Store) askInTerm(ctx context.Context, c call) (r reply, err error) {
	began, reading := time.Now(), c.term.Clock.Read()
	now, known := s.clock.upper(reading)
	h := header{timed: true, resets: c.term.Resets, least: c.least, within: jump}
	if s.options.wallTime {
		h.given = reading.Wall
	}
	for range maxAttempts {
		if h.asof = now; !known {
			h.asof = 0
		}
		if known && !c.inTerm(now, s.clock.offset) {
			return r, storage.ErrTerm
		}
		if r, err = s.ask(ctx, c, h, now); err != nil {
			return r, err
		}
		took := int64(time.Since(began))
		switch r.status {
		case "time":
			set := s.clock.set(reading, took, r.now)
			if h.adjust == 0 && set != 0 {
				h.adjust, h.seen = set, r.offset
				r.now += set
			} else {
				h.adjust = 0
			}
			s.clock.observe(reading, took, r.now, r.offset)
			now, known, h.within = max(r.now, s.clock.told), true, believed
			continue
		case "term":
			s.clock.observe(reading, took, r.now, r.offset)
			s.tell(c.term, r, max(r.asof, s.clock.told))
			return r, storage.ErrTerm
		case "ok", "changed":
			s.clock.observe(reading, took, r.now, r.offset)
		}
		s.tell(c.term, r, r.asof)
		return r, nil
	}
	return r, errors.New("the server's time can't be told")
}

// tell sets the time of a term.
func (s *Store) tell(term *storage.Term, r reply, now int64) {
	s.clock.told = max(s.clock.told, now)
	term.Time = storage.Time{Now: now, Apart: -s.clock.offset, Resets: r.resets}
}

// inTerm reports whether a call may take effect at a time, and sets that of the term if not. The
// time of a place is never set, so there is no shift and one era.
func (c *call) inTerm(now, offset int64) bool {
	at := storage.Time{Now: now, Apart: -offset, Resets: c.term.Resets}
	if c.term.Holds(at) {
		return true
	}
	c.term.Time = at
	return false
}

// header has the arguments of enter.lua.
type header struct {
	timed        bool
	asof, from   int64
	within       int64
	resets       int64
	adjust, seen int64
	least        int64
	given        int64
}

// read makes a call that is of no term and writes nothing that counts. No other call waits for it.
func (s *Store) read(ctx context.Context, c call) (r reply, err error) {
	if err = s.take(ctx); err == nil {
		keys, args, failed := s.packed(c, header{}, 0)
		<-s.turn
		if err = failed; err == nil {
			within, cancel := context.WithTimeout(ctx, s.options.Timeout)
			defer cancel()
			r, err = s.send(within, c, keys, args)
		}
	}
	if err == nil && r.status == "lost" {
		if err = s.take(ctx); err == nil {
			s.fail(storage.ErrLostWrites, &s.former.losses)
			<-s.turn
			err = storage.ErrLostWrites
		}
	}
	if err != nil {
		return r, fmt.Errorf("redis: %s: %w", c.what, explain(err))
	}
	return r, nil
}

// packed returns the keys and arguments of a call as of a time.
func (s *Store) packed(c call, h header, now int64) (keys, args []string, err error) {
	q, err := c.request(now)
	if err != nil {
		return nil, nil, err
	}
	if c.term != nil {
		h.from = max(q.from, c.term.From, now-jump)
	}
	keys = append([]string{s.names.meta(), s.machine}, q.keys...)
	args = append([]string{s.header(h, c.writes)}, q.args...)
	return keys, args, nil
}

// ask sends a call as of a time, and settles its number.
func (s *Store) ask(ctx context.Context, c call, h header, now int64) (r reply, err error) {
	keys, args, err := s.packed(c, h, now)
	if err != nil {
		return r, err
	}
	r, err = s.send(ctx, c, keys, args)
	if err == nil && r.resent && !r.settles(h) {
		err = c.leftOpen(errLate)
	}
	switch {
	case errors.Is(err, storage.ErrUnknownOutcome):
		s.fail(errBroken, &s.former.leaves)
	case err != nil:
	case r.status == "lost":
		s.fail(storage.ErrLostWrites, &s.former.losses)
		return r, storage.ErrLostWrites
	case c.writes && (r.status == "ok" || r.status == "again"):
		s.seq++
	}
	return r, err
}

// settles reports whether no copy of a call that was answered like this takes effect any more.
func (r *reply) settles(h header) bool {
	switch r.status {
	case "ok", "again", "lost":
		return true
	}
	return h.timed && h.asof == 0 // which only asks for the time
}

// fail makes all further calls return an error, and counts its cause: charges may be lost.
func (s *Store) fail(err error, count *atomic.Int64) {
	s.broken = err
	count.Add(1)
}

func (s *Store) header(h header, writes bool) string {
	b := append(make([]byte, 0, 200), s.place...)
	for _, n := range []int64{
		s.seq, bit(writes), bit(h.timed),
		ceilMicro(h.asof), ceilMicro(h.from), h.within / 1000, h.resets,
		h.adjust / 1000, h.seen / 1000, h.least / 1000, s.clock.told / 1000, stays.Milliseconds(), h.given / 1000,
	} {
		b = strconv.AppendInt(append(b, ' '), n, 10)
	}
	return string(b)
}

func bit(is bool) int64 {
	if is {
		return 1
	}
	return 0
}

func ceilMicro(nanos int64) int64 { return (max(nanos, 0) + 999) / 1000 }

// send sends a call until it is answered. One that may have been executed is sent again as it was:
// its number says that it is the same.
func (s *Store) send(ctx context.Context, c call, keys, args []string) (r reply, err error) {
	sent := false
	for pause := time.Duration(0); ; pause = min(2*pause+time.Millisecond, 20*time.Millisecond) {
		var list []rueidis.RedisMessage
		list, err = c.script.Exec(ctx, s.client, keys, args).ToArray()
		switch {
		case err == nil:
			if r, err = parse(list); err != nil {
				return r, c.leftOpen(err)
			}
			r.resent = sent
			return r, nil
		case isAnswer(err) && !wasRefused(err): // it may have ended in the middle
			return r, c.leftOpen(err)
		case !isAnswer(err) && !wasNotSent(err):
			sent = true
		case !sent:
			return r, err
		}
		select {
		case <-ctx.Done():
			return r, c.leftOpen(err)
		case <-time.After(pause):
		}
	}
}

// leftOpen returns the error of a call that may have taken effect or not.
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
