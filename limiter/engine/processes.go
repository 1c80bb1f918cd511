package engine

import (
	"context"

	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/storage"
)

// staysFor is how many rounds of cleaning a process counts as present that has not
// said so again.
const staysFor = 3

// join notes in the store that this engine uses it, and who else does. While the
// store can't be used, they divide each limit among them. Of a store that doesn't
// know who uses it, nothing is known.
func (e *Engine) join() error {
	store := e.store.Load()
	if store == nil {
		return nil
	}
	shared, ok := store.Store.(storage.Shared)
	if !ok {
		return nil
	}
	now := e.clock.now()
	presence, err := shared.Join(context.Background(), e.id, now, now+staysFor*int64(e.opts.CleanupInterval))
	if err == nil {
		e.presence.Store(&presence)
	}
	return err
}

// leave notes in a store that this engine doesn't use it any more.
func (e *Engine) leave(store storage.Store) error {
	if shared, ok := store.(storage.Shared); ok {
		return shared.Leave(context.Background(), e.id)
	}
	return nil
}

// share is what part of each limit memory admits without the store.
type share struct {
	percent  int
	presence storage.Presence
}

func (e *Engine) share() share {
	s := share{percent: e.opts.DegradedPercent}
	if p := e.presence.Load(); p != nil {
		s.presence = *p
	}
	return s
}

// of returns the part of a limit, or false if there is none for this process. One
// that knows of no others has its percentage rounded up.
func (s share) of(limit *Limit) (part limiter.Limit, some bool) {
	if s.presence.Processes > 1 {
		return limit.Share(s.percent, s.presence.Process, s.presence.Processes)
	}
	return limit.Scale(s.percent), true
}
