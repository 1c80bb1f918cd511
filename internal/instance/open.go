package instance

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/caddy-tally/caddy-tally/identity"
	"github.com/caddy-tally/caddy-tally/identity/pressure"
	"github.com/caddy-tally/caddy-tally/internal/caddyconf"
	"github.com/caddy-tally/caddy-tally/internal/engine"
	"github.com/caddy-tally/caddy-tally/internal/meter"
	"github.com/caddy-tally/caddy-tally/internal/notify"
	"github.com/caddy-tally/caddy-tally/internal/stores"
	"github.com/caddy-tally/caddy-tally/internal/wording"
	"github.com/caddy-tally/caddy-tally/limiter/reputation"
	"github.com/caddy-tally/caddy-tally/storage"
)

// New starts an engine. It touches no file itself: the engine opens the store in the background.
func New(s Settings, in stores.Store) *Instance {
	return NewWith(s, in, func(*engine.Options) {})
}

// NewWith is New with further options of the engine, which set sets.
func NewWith(s Settings, in stores.Store, set func(*engine.Options)) *Instance {
	inst := &Instance{Settings: s, begun: time.Now(), logs: make(map[string]*RefusalLog), Pressure: pressure.New(),
		made: make(chan struct{})}
	inst.Names.instance, inst.Audit.instance, inst.Shared.instance = inst, inst, inst
	inst.Names.find(in)
	inst.ledger = OpenLedger(s)
	inst.InForce.Store(&s)
	options := inst.options(s, in)
	if s.Address != "" {
		options.Noted = inst.Shared.noted
	}
	set(&options)
	inst.Engine = engine.New(options)
	close(inst.made)
	inst.startHistory(inst.ledger)
	return inst
}

// Change makes the settings of another configuration with the same counts take effect. The engine
// keeps its memory, so that an outage goes on with what it has admitted.
func (inst *Instance) Change(s Settings, in stores.Store, region *Region) error {
	inst.changing.Lock()
	defer inst.changing.Unlock()
	was := inst.InForce.Swap(&s)
	if *was == s {
		return nil
	}
	reopen := was.Store != s.Store || was.Timeout != s.Timeout
	ctx, cancel := context.WithTimeout(context.Background(), ReadyTimeout)
	defer cancel()
	if err := inst.Engine.Change(ctx, inst.options(s, in), reopen); err != nil {
		return err
	}
	if was.Region == s.Region {
		return nil
	}
	if former := inst.regions.Load(); former != nil {
		go former.Close(context.Background()) // gives up after two seconds
	}
	inst.startRegion(s, region)
	return nil
}

// options returns the options of the engine.
func (inst *Instance) options(s Settings, in stores.Store) engine.Options {
	return engine.Options{
		Open: func(ctx context.Context) (storage.Store, error) {
			if err := inst.Names.openSecret(s.Secret); err != nil {
				return nil, WithRemedy(err)
			}
			seedHistory(inst.ledger, inst.Names.Secret.Load())
			store, err := in.Open(ctx, s.Timeout)
			if err != nil {
				return nil, WithRemedy(err)
			}
			if err := inst.use(store); err != nil {
				_ = store.Close() // the first error says more
				return nil, WithRemedy(err)
			}
			return store, nil
		},
		Name:            inst.Names.ForStore,
		NameAtOnce:      inst.Names.ForStoreAtOnce,
		Remote:          s.Address != "",
		MaxKeys:         s.MaxKeys,
		StoreTimeout:    s.Timeout,
		CleanupInterval: s.Cleanup,
		DegradedPercent: s.Degraded,
		Observer:        observer{inst},
	}
}

// sweep destroys keys of the past, unless it isn't known yet which keys these are.
func (n *Names) sweep() error {
	<-n.instance.made
	now, known := n.instance.Engine.Lasting()
	if !known || n.isCutOff() {
		return nil
	}
	return n.Epochs.Sweep(time.Unix(0, now))
}

// AwaitStore waits until the store is open or known to be unusable, up to [ReadyTimeout] after the
// instance was made: a hanging disk delays no later request.
func (inst *Instance) AwaitStore(ctx context.Context) {
	select {
	case <-inst.Engine.Ready():
		return
	default:
	}
	select {
	case <-inst.Engine.Ready():
	case <-time.After(ReadyTimeout - time.Since(inst.begun)):
	case <-ctx.Done():
	}
}

// Destruct implements caddy.Destructor.
func (inst *Instance) Destruct() error {
	inst.Closing.Store(true)
	unwritten := inst.stopHistory()
	ctx, cancel := context.WithTimeout(context.Background(), flushTimeout)
	defer cancel()
	err := errors.Join(unwritten, inst.stopRegion(ctx), inst.Engine.Close(ctx))
	CloseLedger(inst.Settings)
	inst.summarize()
	if err != nil {
		return fmt.Errorf("rate_limit: %w", err)
	}
	return nil
}

// observer logs and counts the events of an instance's engine and history.
type observer struct{ *Instance }

// Committed implements engine.Observer.
func (o observer) Committed(claims int, took time.Duration) {
	meter.Batch(claims, took)
}

// Swept implements engine.Observer.
func (o observer) Swept(rows int64, keys int, took time.Duration, err error) {
	err = errors.Join(err, WithRemedy(o.Names.keep()), o.Names.sweep(), o.Shared.sealAgain())
	o.Audit.afterOutage()
	meter.Swept(rows, keys)
	if err != nil {
		caddyconf.Logger().Error("expired rows could not be removed; it is tried again at the next cleanup",
			zap.Error(err))
	} else if rows > 0 || keys > 0 {
		caddyconf.Logger().Debug("cleaned up", zap.Int64("rows", rows), zap.Int("idle_keys", keys),
			zap.Duration("took", took))
	}
	o.Pressure.Sweep(o.Lasting())
	o.summarize()
}

// Punished implements engine.Observer.
func (o observer) Punished(reason reputation.Reason) {
	// those are no violations
	if reason != reputation.Crowded && reason != reputation.Inherited && reason != reputation.Lifted {
		meter.Violation(reason)
	}
}

// Banned implements engine.Observer.
func (o observer) Banned(client []byte, reason reputation.Reason, until int64) {
	if shared := o.regions.Load(); shared != nil {
		shared.Banned(client, reason, until)
	}
	if reason == reputation.Crowded {
		meter.Throttle()
		return
	}
	meter.Ban()
	length := time.Duration(until - o.Engine.Now()).Round(time.Second)
	end := time.Now().Add(length).UTC().Truncate(time.Second)
	o.notify(notify.Event{
		Kind: notify.Ban, Reason: reason.String(), Client: identity.MaskedText(client),
		Address: identity.FullText(client), Until: &end,
		Text: fmt.Sprintf("A client was banned for %s (%v).", wording.Wait(length), reason),
	})
}

// Outage implements engine.Observer.
func (o observer) Outage() { meter.Outage() }

// Degraded implements engine.Observer.
func (o observer) Degraded(since time.Duration, err error) {
	caddyconf.Logger().Error("the store can't be used; reduced limits are kept in memory until it can",
		o.Settings.where(), zap.Duration("since", since), zap.Error(err))
	if o.away.CompareAndSwap(false, true) {
		o.notify(notify.Event{Kind: notify.Degraded, Reason: err.Error(),
			Text: "The store of the rate limiter can't be used; reduced limits are kept in memory until it can."})
	}
}

// Recovered implements engine.Observer.
func (o observer) Recovered(after time.Duration) {
	caddyconf.Logger().Info("the store is in use again", o.Settings.where(), zap.Duration("after", after))
	if o.away.CompareAndSwap(true, false) {
		o.notify(notify.Event{Kind: notify.Recovered,
			Text: "The store of the rate limiter is in use again, after " + wording.Wait(after) + "."})
	}
}

var _ engine.Observer = observer{}
