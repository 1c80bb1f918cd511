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
	writes bool
	least  int64 // see storage.Store.Time
	// request returns the keys and arguments of a call as of a time, and the earliest time at which
	// they would be the same. Both times are 0 in upkeep.
	request func(now int64) (r request, err error)

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

// inTerm makes a call within a term.
func (s *Store) inTerm(ctx context.Context, term *storage.Term, c call) (reply, error) {
	return s.do(ctx, c, func(ctx context.Context, c *call) (reply, error) {
		r, err := s.askInTerm(ctx, term, c)
		s.former.keep(s.clock)
		return r, err
	})
}

// upkeep makes a call that has no term.
func (s *Store) upkeep(ctx context.Context, c call) (reply, error) {
	return s.do(ctx, c, func(ctx context.Context, c *call) (reply, error) { return s.ask(ctx, c, header{}, 0) })
}

// do makes a call with ask.
func (s *Store) do(ctx context.Context, c call, ask func(context.Context, *call) (reply, error)) (r reply, err error) {
	if err := s.take(ctx); err != nil {
		return r, fmt.Errorf("redis: %s: %w", c.what, err)
	}
	defer func() { <-s.turn }()
	if r, err = s.doInTurn(ctx, &c, ask); err != nil {
		return r, fmt.Errorf("redis: %s: %w", c.what, explain(err))
	}
	return r, nil
}

func (s *Store) doInTurn(ctx context.Context, c *call, ask func(context.Context, *call) (reply, error)) (r reply, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.options.Timeout)
	defer cancel()
	r, err = ask(ctx, c)
	if c.open && !errors.Is(err, storage.ErrUnknownOutcome) {
		err = c.leftOpen(errLate)
	}
	if errors.Is(err, storage.ErrUnknownOutcome) {
		s.fail(errBroken, &s.former.leaves)
	}
	return r, err
}

// maxAttempts is how often a call is tried while the estimated time is wrong.
const maxAttempts = 5

// askInTerm makes a call as of the estimated time of the place. If the estimate is wrong, it repeats the
// call as of the time in the answer, which is also of a moment at which the call was under way. All attempts
// have one number, so only one of them takes effect, and an answer tells about all.
func (s *Store) askInTerm(ctx context.Context, term *storage.Term, c *call) (r reply, err error) {
	began, reading := time.Now(), term.Clock.Read()
	now, known := s.clock.upper(reading)
	h := header{timed: true, from: term.From, resets: term.Resets, least: c.least, within: jump}
	if s.options.wallTime {
		h.given = reading.Wall
	}
	for range maxAttempts {
		if h.asof = now; !known {
			h.asof = 0
		}
		if known && !s.holds(term, now) {
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
			now, known, h.within = max(r.now, s.clock.last), true, believed
			continue
		case "term":
			s.clock.observe(reading, took, r.now, r.offset)
			s.tell(term, r, max(r.asof, s.clock.last))
			return r, storage.ErrTerm
		case "ok", "changed":
			s.clock.observe(reading, took, r.now, r.offset)
		}
		s.tell(term, r, r.asof)
		return r, nil
	}
	return r, errors.New("the server's time can't be determined")
}

// tell sets the time of a term.
func (s *Store) tell(term *storage.Term, r reply, now int64) {
	s.clock.last = max(s.clock.last, now)
	term.Time = storage.Time{Now: now, Apart: -s.clock.offset, Resets: r.resets}
}

// holds reports whether a call may take effect at a time, and sets the term's time if not. The time
// of a place is never set, so there is no shift, and only one era.
func (s *Store) holds(term *storage.Term, now int64) bool {
	t := storage.Time{Now: now, Apart: -s.clock.offset, Resets: term.Resets}
	if term.Holds(t) {
		return true
	}
	term.Time = t
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

// read makes a call of upkeep that changes no counts. No other call waits for it.
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
	h.from = max(q.from, h.from, now-jump)
	keys = append([]string{s.names.meta(), s.machine}, q.keys...)
	args = append([]string{s.header(h, c.writes)}, q.args...)
	return keys, args, nil
}

// ask sends a call as of a time, and counts it if it was executed.
func (s *Store) ask(ctx context.Context, c *call, h header, now int64) (r reply, err error) {
	keys, args, err := s.packed(*c, h, now)
	if err != nil {
		return r, err
	}
	if r, err = s.send(ctx, *c, keys, args); err != nil {
		return r, err
	}
	switch r.status {
	case "lost":
		c.open = false
		s.fail(storage.ErrLostWrites, &s.former.losses)
		return r, storage.ErrLostWrites
	case "ok", "again":
		c.open = false
		s.seq += bit(c.writes)
	default:
		c.open = c.open || c.writes && r.resent && (h.asof != 0 || !h.timed) // a call without a time only asks for it
	}
	return r, nil
}

// fail makes all further calls return an error, and counts its cause.
func (s *Store) fail(err error, count *atomic.Int64) {
	s.broken = err
	count.Add(1)
}

func (s *Store) header(h header, writes bool) string {
	b := append(make([]byte, 0, 200), s.place...)
	for _, n := range []int64{
		s.seq, bit(writes), bit(h.timed),
		ceilMicro(h.asof), ceilMicro(h.from), h.within / 1000, h.resets,
		h.adjust / 1000, h.seen / 1000, h.least / 1000, s.clock.last / 1000, stays.Milliseconds(), h.given / 1000,
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

// send sends a call until it is answered. If it may have been executed, it is sent again with the same
// number, so that the server recognizes it.
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
		case isAnswer(err) && !wasRefused(err): // the script may have stopped halfway
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
