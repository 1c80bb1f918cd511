package tally

import (
	"errors"
	"fmt"

	"github.com/caddy-tally/caddy-tally/internal/enforce"
	"github.com/caddy-tally/caddy-tally/limiter/engine"
)

// Count says which requests of a zone use up units: those that get one of some answers. What
// counts is the status that a later handler or an upstream writes, or the status of the error
// that a handler returns, such as the 401 of `basic_auth`.
type Count struct {
	// The statuses with which a request uses up units, from 200 to 599, or the first digit for all
	// that begin with it: 4 stands for 400 to 499. A request that is answered with another
	// status uses up nothing. Required.
	Status []int `json:"status,omitempty"`

	// Take what a request costs when it comes, and give it back if its status is none of these.
	// So never more are let through than the limit, however many come at once, and a client
	// may have no more requests under way at a time than it has units left. A request whose
	// client leaves before it is answered uses up what it took, and so does one that is under
	// way when Caddy is stopped. Without this, a request passes if its cost is free, and is
	// charged when the status is known: what is under way at a time may be more than the limit.
	Hold bool `json:"hold,omitempty"`

	// With `hold`, read the body of a request before it takes anything, up to this many bytes, at
	// most 1048576, so that clients that send slowly hold nothing meanwhile. A request with a longer
	// body is answered with 413, one whose body can't be read with 400, and neither uses up
	// anything. The bodies of all requests together take at most 64 MiB; beyond that they aren't
	// read before. 65536 is enough for a login form. Default: the body isn't read.
	ReadBody int64 `json:"read_body,omitempty"`
}

// check returns an error about what is wrong with the statuses.
func (c *Count) check() error {
	if len(c.Status) == 0 {
		return errors.New("status: one is missing: write 401")
	}
	if err := c.checkReadBody(); err != nil {
		return err
	}
	for i, status := range c.Status {
		if (status < 2 || status > 5) && (status < 200 || status > 599) {
			return fmt.Errorf("status: must be from 200 to 599, or 2 to 5 for all that begin with it, got %d", status)
		}
		for j, other := range c.Status {
			if i > j && status == other {
				return fmt.Errorf("status: %s is given twice: leave one out", enforce.StatusText(status))
			}
			if i != j && status/100 == other {
				return fmt.Errorf("status: %d is among %s: leave one out", status, enforce.StatusText(other))
			}
		}
	}
	return nil
}

func (c *Count) checkReadBody() error {
	switch {
	case c.ReadBody < 0 || c.ReadBody > enforce.MaxReadBody:
		return fmt.Errorf("read_body: must be from 1 to %d bytes, got %d", enforce.MaxReadBody, c.ReadBody)
	case c.ReadBody > 0 && !c.Hold:
		return fmt.Errorf("read_body is for hold, because nothing is held without it: write count status %v hold read_body", c)
	}
	return nil
}

// String returns the statuses as a Caddyfile has them.
func (c *Count) String() string { return c.rule().String() }

// rule returns the option ready for use, or nil if there is none.
func (c *Count) rule() *enforce.Count {
	if c == nil {
		return nil
	}
	return &enforce.Count{Status: c.Status, Hold: c.Hold, ReadBody: c.ReadBody}
}

// provisionCount settles which requests of the zone use up units.
func (z *zoneSetup) provisionCount() error {
	if z.Count == nil {
		return nil
	}
	if err := z.Count.check(); err != nil {
		return fmt.Errorf("count: %w", err)
	}
	if z.run.DeniesAll {
		return errors.New("count: the zone admits nothing, so no request gets an answer that could count: write a limit, or leave out count")
	}
	z.run.Counting = engine.Afterwards
	z.run.Count = z.Count.rule()
	if z.Count.Hold {
		z.run.Counting = engine.Held
	}
	return nil
}
