package store

import (
	"context"
	"fmt"
	"strconv"

	"github.com/caddy-tally/caddy-tally/storage"
)

// evictions watches whether the server removes keys because its memory is full: counts may be among them.
type evictions struct {
	machine *machine
	before  int64 // how many keys the server had removed when the store was opened
}

// inspect finds out what the server does when its memory is full, and gives notice if it may remove
// counts. A server that doesn't say is accepted.
func (e *evictions) inspect(ctx context.Context) error {
	memory, err := e.machine.server.info(ctx, "memory")
	if isAnswer(err) {
		return nil
	}
	if err != nil {
		return err
	}
	policy := memory["maxmemory_policy"]
	if policy != "" && policy != "noeviction" && e.machine.server.options.Evicts != nil {
		e.machine.server.options.Evicts(policy)
	}
	e.before, err = e.count(ctx)
	return err
}

// count returns how many keys the server has removed because its memory was full.
func (e *evictions) count(ctx context.Context) (int64, error) {
	stats, err := e.machine.server.info(ctx, "stats")
	if err != nil {
		if isAnswer(err) {
			err = nil
		}
		return 0, err
	}
	n, _ := strconv.ParseInt(stats["evicted_keys"], 10, 64)
	return n, nil
}

// check returns an error if the server has removed keys since the store was opened, because
// counts may be among them.
func (e *evictions) check(ctx context.Context) error {
	if err := e.machine.take(ctx); err != nil {
		return err
	}
	defer func() { <-e.machine.turn }()
	n, err := e.count(ctx)
	if err == nil && n > e.before {
		e.machine.fail(storage.ErrLostWrites, &e.machine.former.losses)
		err = fmt.Errorf("%w: the server has evicted %d keys: set its maxmemory-policy to noeviction",
			storage.ErrLostWrites, n-e.before)
	}
	return err
}
