package engine

import (
	"time"

	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/storage"
)

// staysFor is how many rounds of cleaning a process counts as present that has not
// said so again.
const staysFor = 3

// join notes in the store that this engine uses it, and reads who else does. While the
// store can't be used, they divide each limit among them. Some stores don't know who
// uses them.
func (c *connection) join() error {
	shared, ok := ability[storage.Shared](c)
	if !ok {
		return nil
	}
	ctx, cancel := c.call()
	defer cancel()
	now := c.clock.now()
	presence, err := shared.Join(ctx, c.id, now, now+int64(c.stays))
	if err == nil {
		c.presence.Store(&presence)
	}
	return err
}

// leave notes in a store that this engine doesn't use it any more.
func (c *connection) leave(store storage.Store) error {
	if shared, ok := store.(storage.Shared); ok {
		ctx, cancel := c.call()
		defer cancel()
		return shared.Leave(ctx, c.id)
	}
	return nil
}

// processes returns how many processes are known to use the store, 0 if that isn't known.
func (c *connection) processes() int64 {
	if p := c.presence.Load(); p != nil {
		return int64(p.Processes)
	}
	return 0
}

// share is what part of each limit memory admits without the store.
type share struct {
	percent  int
	presence storage.Presence
	probe    time.Duration // until the store is tried again
}

func (e *Engine) share() share {
	s := share{percent: e.opts.DegradedPercent, probe: e.committer.outage.untilProbe()}
	if p := e.committer.conn.presence.Load(); p != nil {
		s.presence = *p
	}
	return s
}

// of returns the part of a limit. A process that knows of no others has its percentage rounded up.
func (s share) of(limit *Limit) limiter.Limit {
	if s.presence.Processes > 1 {
		return limit.Share(s.percent, s.presence.Process, s.presence.Processes)
	}
	return limit.Scale(s.percent)
}
