package enforce

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/caddy-tally/caddy-tally/internal/engine"
	"github.com/caddy-tally/caddy-tally/internal/instance"
	"github.com/caddy-tally/caddy-tally/internal/stores"
)

// Tenant is a config as a user of an instance: it opens the instance once the config runs, decides
// by it, and gives it up. Requests that outlive the config borrow the instance.
type Tenant struct {
	Store    stores.Store
	Settings instance.Settings
	Region   *instance.Region // nil without regions
	Log      *zap.Logger

	Running  chan struct{} // closed when it is known whether the config runs
	runsOnce sync.Once     // closes Running

	mu       sync.Mutex
	Instance atomic.Pointer[instance.Instance] // written under mu; nil until first use
	onOpen   func(*instance.Instance)          // called under mu, before any request uses it
	onClose  func(*instance.Instance)          // called under mu, before it is given up; nil if it was never used
	closed   bool                              // guarded by mu
}

// release gives up the instance. The last config that does so closes it, which gives back unspent
// units. Only the first call has an effect.
func (t *Tenant) release() (first bool, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return false, nil
	}
	t.closed = true
	inst := t.Instance.Load()
	if t.onClose != nil {
		t.onClose(inst)
	}
	if inst != nil {
		err = instance.Release(t.Settings)
	}
	return true, err
}

// Settle notes that it is now known whether the configuration runs.
func (t *Tenant) Settle() { t.runsOnce.Do(func() { close(t.Running) }) }

// Use returns the instance, and opens it if necessary. A request that comes before the
// configuration has completely started waits for that, because the store must not be opened for a
// configuration that may still be rejected. If another configuration has the same instance open,
// Use doesn't wait. The result is nil after Cleanup if the instance was never used.
func (t *Tenant) Use() *instance.Instance {
	if inst := t.Instance.Load(); inst != nil {
		return inst
	}
	if !t.isShared() {
		select {
		case <-t.Running:
		case <-time.After(instance.ReadyTimeout):
		}
	}
	return t.open()
}

// isShared reports whether another configuration uses the instance.
func (t *Tenant) isShared() bool {
	return instance.IsInUse(t.Settings)
}

// open returns the instance, and starts it if this configuration has none yet. It returns nil after
// Cleanup.
func (t *Tenant) open() *instance.Instance {
	t.mu.Lock()
	defer t.mu.Unlock()
	if inst := t.Instance.Load(); inst != nil || t.closed {
		return inst
	}
	inst := instance.Acquire(t.Settings, t.Store, t.Region)
	if t.onOpen != nil {
		t.onOpen(inst)
	}
	t.Instance.Store(inst)
	return inst
}

// Decide implements Decider. It charges a request to limits, or refuses it. The result is false if there are no counts
// to decide by, because the configuration was rejected.
func (t *Tenant) Decide(ctx context.Context, client *engine.Client,
	debits []engine.Debit) (d engine.Decision, ok bool) {
	if inst := t.Use(); inst != nil {
		if d = inst.Decide(ctx, client, debits); !d.Degraded || !inst.Closing.Load() {
			return d, true
		}
	}
	return t.decideLate(ctx, client, debits)
}

// Clock implements Decider.
func (t *Tenant) Clock() (came, now time.Time) {
	now = time.Now()
	return now, now
}

// Sleep implements Decider. A request waits no longer when Caddy is stopping.
func (t *Tenant) Sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
	case <-waitsEnd():
	}
	return false
}

// decideLate decides about a request that has outlived its configuration: when Caddy loads another
// one, it lets requests in flight finish. It borrows the instance, and reopens it if no
// configuration uses it any more. It does not open the instance of a configuration that never ran.
func (t *Tenant) decideLate(ctx context.Context, client *engine.Client,
	debits []engine.Debit) (d engine.Decision, ok bool) {
	if t.Instance.Load() == nil && !t.isShared() {
		return t.decideElsewhere(ctx, client, debits)
	}
	inst := instance.Acquire(t.Settings, t.Store, t.Region)
	forget(client) // they cache state of another engine
	for i := range debits {
		forget(debits[i].Client)
	}
	d = inst.Decide(ctx, client, debits)
	if err := instance.Release(t.Settings); err != nil {
		t.Log.Error("the rate limiter could not be closed", zap.Error(err))
	}
	return d, true
}

// decideElsewhere decides about a request of a configuration that was rejected after it had begun
// to listen. The running configuration counts the request.
func (t *Tenant) decideElsewhere(ctx context.Context, client *engine.Client,
	debits []engine.Debit) (d engine.Decision, ok bool) {
	var other *instance.Instance
	instance.Each(func(inst *instance.Instance) {
		if other == nil || inst.Settings.Counts == t.Settings.Counts {
			other = inst
		}
	})
	if other == nil {
		return d, false
	}
	return other.Decide(ctx, client, debits), true
}

// forget makes the engine look up a client again.
func forget(c *engine.Client) {
	if c != nil {
		*c = engine.Client{Key: c.Key}
	}
}
