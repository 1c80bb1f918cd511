package engine // store

import "github.com/caddy-tally/caddy-tally/storage"

// staysFor is the number of cleanups for which a process counts as present after its last
// registration.
const staysFor = 3

// join registers this engine as a user of the store, and reads the number of users. While the store
// can't be used, the users divide each limit among themselves.
func (c *connection) join() error {
	store := c.store.Load()
	if store == nil {
		return nil
	}
	ctx, cancel := c.call()
	defer cancel()
	now := c.clock.Now()
	presence, err := store.Join(ctx, c.id, now, now+int64(staysFor*c.opts.now().CleanupInterval))
	if err == nil {
		c.presence.Store(&presence)
	}
	return err
}

// leave removes the registration of this engine.
func (c *connection) leave(store storage.Store) error {
	ctx, cancel := c.call()
	defer cancel()
	return store.Leave(ctx, c.id)
}

// processes returns the number of processes on the store, 0 if unknown.
func (c *connection) processes() int64 {
	if p := c.presence.Load(); p != nil {
		return int64(p.Processes)
	}
	return 0
}
