package tally

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/caddy-tally/caddy-tally/identity/pressure"
	"github.com/caddy-tally/caddy-tally/internal/caddyconf"
	"github.com/caddy-tally/caddy-tally/internal/meter"
	"github.com/caddy-tally/caddy-tally/internal/stores"
	"github.com/caddy-tally/caddy-tally/limiter/engine"
	"github.com/caddy-tally/caddy-tally/limiter/reputation"
	"github.com/caddy-tally/caddy-tally/storage"
)

// newInstance starts an engine. It touches no file itself: the engine opens the
// store in the background. The operators' statements are in force that are known of the store, which
// may be nil.
func newInstance(s settings, in stores.Store, known *sharedStatements) (*instance, error) {
	notes := known.allNotes()
	h, err := newInstanceWith(s, in, func(o *engine.Options) { o.Notes = notes })
	if err == nil {
		h.shared.begin(known)
	}
	return h, err
}

// newInstanceWith is newInstance with other options of the engine, which set sets.
func newInstanceWith(s settings, in stores.Store, set func(*engine.Options)) (*instance, error) {
	h := &instance{settings: s, begun: time.Now(), logs: make(map[string]*refusalLog), pressure: pressure.New(0), made: make(chan struct{})}
	h.findKeys(in)
	ledger, err := openLedger(s)
	if err != nil {
		return nil, err
	}
	options := engine.Options{
		Open: func(ctx context.Context) (storage.Store, error) {
			if err := h.openSecret(s.secret); err != nil {
				return nil, withRemedy(err)
			}
			if err := seedHistory(ledger, h.secret.Load()); err != nil {
				return nil, err
			}
			store, err := in.Open(ctx, s.timeout)
			if err == nil {
				h.store.Store(&store)
				err = h.shareKeys(store)
			}
			return store, withRemedy(err)
		},
		Name:            h.name,
		NameAtOnce:      h.nameAtOnce,
		Remote:          s.address != "",
		MaxKeys:         s.maxKeys,
		StoreTimeout:    s.timeout,
		CleanupInterval: s.cleanup,
		DegradedPercent: s.degraded,
		Observer:        h,
	}
	if s.address != "" {
		options.Noted = h.noted
	}
	set(&options)
	h.engine, err = engine.New(options)
	close(h.made)
	if err != nil {
		_ = closeLedger(s) // the first error says more
		return nil, err
	}
	h.startHistory(ledger)
	return h, nil
}

// sweepEpochs destroys keys of the past, unless it isn't known yet which these are.
func (h *instance) sweepEpochs() error {
	<-h.made
	now, told := h.engine.Lasting()
	if !told || h.isCutOff() {
		return nil
	}
	return h.epochs.Sweep(time.Unix(0, now))
}

// Destruct implements caddy.Destructor.
func (h *instance) Destruct() error {
	h.closing.Store(true)
	unwritten := h.stopHistory()
	ctx, cancel := context.WithTimeout(context.Background(), flushTimeout)
	defer cancel()
	err := errors.Join(unwritten, h.stopRegion(ctx), h.engine.Close(ctx), closeLedger(h.settings))
	h.summarize()
	if err != nil {
		return fmt.Errorf("rate_limit: %w", err)
	}
	return nil
}

// Committed implements engine.Observer.
func (h *instance) Committed(claims int, took time.Duration) {
	meter.Batch(claims, took)
}

// Swept implements engine.Observer.
func (h *instance) Swept(rows int64, keys int, took time.Duration, err error) {
	err = errors.Join(err, withRemedy(h.keepKeys()), h.sweepEpochs(), h.sealAgain())
	h.auditAfterOutage()
	meter.Swept(rows, keys)
	if err != nil {
		caddyconf.Logger().Error("expired rows could not be removed; it is tried again at the next cleanup", zap.Error(err))
	} else if rows > 0 || keys > 0 {
		caddyconf.Logger().Debug("cleaned up", zap.Int64("rows", rows), zap.Int("idle_keys", keys), zap.Duration("took", took))
	}
	h.pressure.Sweep(h.lasting())
	h.summarize()
}

// Punished implements engine.Observer.
func (h *instance) Punished(reason reputation.Reason) {
	if reason != reputation.Crowded && reason != reputation.Inherited { // which are no violations
		meter.Violation(reason)
	}
}

// Banned implements engine.Observer.
func (h *instance) Banned(client []byte, reason reputation.Reason, until int64) {
	if shared := h.regions.Load(); shared != nil {
		shared.Banned(client, reason, until)
	}
	if reason == reputation.Crowded {
		meter.Throttle()
	} else {
		meter.Ban()
	}
}

// Outage implements engine.Observer.
func (h *instance) Outage() { meter.Outage() }

// Degraded implements engine.Observer.
func (h *instance) Degraded(since time.Duration, err error) {
	caddyconf.Logger().Error("the store can't be used; reduced limits are kept in memory until it can",
		h.settings.where(), zap.Duration("since", since), zap.Error(err))
}

// Recovered implements engine.Observer.
func (h *instance) Recovered(after time.Duration) {
	caddyconf.Logger().Info("the store is in use again", h.settings.where(), zap.Duration("after", after))
}

var _ engine.Observer = (*instance)(nil)
