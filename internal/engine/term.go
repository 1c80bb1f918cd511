package engine // store

import (
	"errors"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/engine/clock"
	"github.com/caddy-tally/caddy-tally/storage"
)

// Decisions use the time of the store, which takes it inside of its transactions. The names of keys
// depend on it, and with them the calls. So each call has a term in which it may take effect.

// maxTerms is the maximum number of attempts to make a call whose time was not within its term.
// Twice is enough, unless time goes by meanwhile.
const maxTerms = 8

// term returns the term of a call as of now, and sets the stamp.
func (c *connection) term(at *clock.Stamp) storage.Term {
	c.clock.Stamp(at)
	known := c.clock.Line()
	return storage.Term{Clock: at, Shift: known.Shift, Era: known.Era, Resets: c.resets.Load()}
}

// askTime makes the engine follow the time of a store that was just opened.
func (c *connection) askTime(store storage.Store) error {
	c.term(&c.stamp)
	t, err := store.Time(&c.stamp, c.clock.Now())
	if err == nil {
		c.newest = t.Resets
		c.follow(t)
	}
	return err
}

// inTerms calls f, which makes calls of the store within a term. It repeats this with names for the
// time returned by the store until the term holds. The engine's time follows the store's.
func (c *connection) inTerms(f func(store storage.Store, term *storage.Term) error) (t storage.Time, err error) {
	store := c.store.Load()
	if store == nil {
		return t, errNoStore
	}
	now := c.clock.Earliest() // names as of later may miss counts under names that are still to be made
	for range maxTerms {
		term := c.term(&c.stamp)
		term.Time = storage.Time{Now: now, Shift: term.Shift, Era: term.Era, Resets: term.Resets}
		if err = f(store, &term); err != nil && !errors.Is(err, storage.ErrTerm) {
			return t, err
		}
		t = term.Time
		c.follow(t)
		if err == nil {
			return t, nil
		}
		now = t.Now
		if t.Resets != term.Resets {
			if err := c.onReset(); err != nil {
				return t, err
			}
		}
	}
	return t, err
}

// nameOf returns the current name of a key in the store, and ends the term of the call before the
// name becomes invalid.
func (c *connection) nameOf(id storage.LimitID, key string, retention time.Duration, term *storage.Term,
	now int64) (Name, error) {
	n, err := c.name(id, key, retention, now-term.Shift)
	if err != nil || n.Until == 0 {
		return n, err
	}
	term.From = max(term.From, n.From+term.Shift)
	if until := n.Until + term.Shift; term.Until == 0 || until < term.Until {
		term.Until = until
	}
	return n, nil
}

// follow makes the clock follow the store's time at the stamp.
func (c *connection) follow(t storage.Time) {
	if by, back := c.clock.Follow(t, &c.stamp); by != 0 || back {
		c.onSet(by, back)
	}
}
