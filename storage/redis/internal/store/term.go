package store

import (
	"context"
	"errors"
	"time"

	"github.com/caddy-tally/caddy-tally/storage"
)

// inTerm makes a call within a term.
func (m *machine) inTerm(ctx context.Context, term *storage.Term, c call) (reply, error) {
	return m.do(ctx, c, func(ctx context.Context, c *call) (reply, error) {
		r, err := m.askInTerm(ctx, term, c)
		m.former.keep(m.clock)
		return r, err
	})
}

// maxAttempts is how often a call is tried while the estimated time is wrong.
const maxAttempts = 5

// askInTerm makes a call as of the estimated time of the place. If the estimate is wrong, it repeats the
// call as of the time in the answer, which is also of a moment at which the call was under way. All attempts
// have one number, so only one of them takes effect, and an answer tells about all.
func (m *machine) askInTerm(ctx context.Context, term *storage.Term, c *call) (r reply, err error) {
	began, reading := time.Now(), term.Clock.Read()
	now, known := m.clock.upper(reading)
	h := header{timed: true, from: term.From, resets: term.Resets, least: c.least, within: jump}
	if m.server.options.wallTime {
		h.given = reading.Wall
	}
	for range maxAttempts {
		if h.asof = now; !known {
			h.asof = 0
		}
		if known && !m.clock.holds(term, now) {
			return r, storage.ErrTerm
		}
		if r, err = m.ask(ctx, c, h, now); err != nil {
			return r, err
		}
		took := int64(time.Since(began))
		switch r.status {
		case "time":
			set := m.clock.set(reading, took, r.now)
			if h.adjust == 0 && set != 0 {
				h.adjust, h.seen = set, r.offset
				r.now += set
			} else {
				h.adjust = 0
			}
			m.clock.observe(reading, took, r.now, r.offset)
			now, known, h.within = max(r.now, m.clock.last), true, believed
			continue
		case "term":
			m.clock.observe(reading, took, r.now, r.offset)
			m.clock.tell(term, r, max(r.asof, m.clock.last))
			return r, storage.ErrTerm
		case "ok", "changed":
			m.clock.observe(reading, took, r.now, r.offset)
		}
		m.clock.tell(term, r, r.asof)
		return r, nil
	}
	return r, errors.New("the server's time can't be determined")
}

// tell sets the time of a term.
func (c *clock) tell(term *storage.Term, r reply, now int64) {
	c.last = max(c.last, now)
	term.Time = storage.Time{Now: now, Apart: -c.offset, Resets: r.resets}
}

// holds reports whether a call may take effect at a time, and sets the term's time if not. The time
// of a place is never set, so there is no shift, and only one era.
func (c *clock) holds(term *storage.Term, now int64) bool {
	t := storage.Time{Now: now, Apart: -c.offset, Resets: term.Resets}
	if term.Holds(t) {
		return true
	}
	term.Time = t
	return false
}
