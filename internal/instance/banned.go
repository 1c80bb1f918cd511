package instance

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/caddy-tally/caddy-tally/storage"
)

// banReader reads from the store who is banned, for operators. Several of them share one reading,
// so that a disk that hangs doesn't collect goroutines.
type banReader struct {
	mu     sync.Mutex
	latest *banReading // guarded by mu; nil if the last one is obsolete
}

// banReading is one reading.
type banReading struct {
	began time.Time
	done  chan struct{} // closed when list and err are set
	list  []storage.Banned
	err   error
}

// bansTimeout is how long reading may take.
const bansTimeout = 3 * time.Second

// StoredBans returns the banned clients that the store knows, at most most of them. They may be as
// old as maxAge. Times are as [storage.BanLister] returns them.
func (h *Instance) StoredBans(ctx context.Context, most int, maxAge time.Duration) ([]storage.Banned, error) {
	store := h.Store.Load()
	if store == nil || h.Engine.Degraded() {
		return nil, errors.New("the store can't be used at the moment")
	}
	lister, ok := (*store).(storage.BanLister)
	if !ok {
		return nil, errors.New("this store can't list them")
	}
	ctx, cancel := context.WithTimeout(ctx, bansTimeout)
	defer cancel()
	now, _ := h.Engine.Lasting()
	r := h.bans.read(maxAge, func(ctx context.Context) ([]storage.Banned, error) { return lister.Banned(ctx, now, most) })
	select {
	case <-r.done:
		return r.list, r.err
	case <-ctx.Done():
		return nil, fmt.Errorf("the store took longer than %v", bansTimeout)
	}
}

// read returns the reading under way, the last one if it is young enough, or else a new one.
func (b *banReader) read(maxAge time.Duration, list func(ctx context.Context) ([]storage.Banned, error)) *banReading {
	b.mu.Lock()
	defer b.mu.Unlock()
	if r := b.latest; r != nil {
		select {
		case <-r.done:
			if time.Since(r.began) < maxAge {
				return r
			}
		default:
			return r
		}
	}
	r := &banReading{began: time.Now(), done: make(chan struct{})}
	b.latest = r
	go func() {
		defer close(r.done)
		ctx, cancel := context.WithTimeout(context.Background(), bansTimeout)
		defer cancel()
		r.list, r.err = list(ctx)
	}()
	return r
}

// ForgetBans makes the next reading a new one, because bans were lifted.
func (h *Instance) ForgetBans() {
	h.bans.mu.Lock()
	defer h.bans.mu.Unlock()
	h.bans.latest = nil
}
