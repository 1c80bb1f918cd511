package store

import (
	"context"
	"errors"

	"github.com/caddy-tally/caddy-tally/storage"
)

// chores are the calls of a store that no request waits for. They have a connection of their own, so that no claim
// waits for a sweep.
type chores struct{ line }

// do runs f with the connection.
func (ch *chores) do(ctx context.Context, what string, f func(ctx context.Context, c conn) error) error {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	return ch.doLocked(ctx, what, f)
}

// query runs statements, and returns their n results.
func (ch *chores) query(ctx context.Context, what string, sql *script, n int) (results []result, err error) {
	err = ch.do(ctx, what, func(ctx context.Context, c conn) (err error) {
		results, err = ch.place.query(ctx, c, sql, n)
		return err
	})
	return results, err
}

func (ch *chores) doLocked(ctx context.Context, what string, f func(ctx context.Context, c conn) error) error {
	ctx, cancel := ch.place.deadline(ctx)
	defer cancel()
	return ch.place.wrap(what, again(ctx, func() error {
		return ch.withLocked(ctx, func(c conn) error {
			err := f(ctx, c)
			if err != nil {
				ch.place.rollback(ctx, c)
			}
			return err
		})
	}))
}

// A transaction that had no effect, because others held locks or its connection had ended, is retried
// until the context ends, but at most maxTries times. Connecting is retried less often, so that the
// caller learns of the failure soon.
const (
	maxTries    = 100
	maxConnects = 5
)

// canTryAgain reports whether a failed batch can be retried.
func canTryAgain(err error) bool {
	if errors.Is(err, storage.ErrUnknownOutcome) {
		return false
	}
	fault := faultOf(err)
	return fault == busy || fault == broken || errors.Is(err, errSwept) || errors.As(err, new(*correction))
}

// again calls f until it succeeds, can't be retried, or the context ends. If f fails, it must have had
// no effect, unless its error says that the outcome is unknown.
func again(ctx context.Context, f func() error) (err error) {
	connects, wait := 0, firstWait
	for range maxTries {
		if err = f(); err == nil || ctx.Err() != nil || !canTryAgain(err) {
			return err
		}
		if !errors.As(err, new(*connectError)) {
			connects, wait = 0, firstWait
			continue
		}
		if connects++; connects == maxConnects || !await(ctx, wait) {
			return err
		}
		wait = min(2*wait, lastWait)
	}
	return err
}
