package tally

import (
	"context"
	"encoding/binary"
	"time"

	"go.uber.org/zap"

	"github.com/caddyserver/caddy/v2"

	exchanges "github.com/caddy-tally/caddy-tally/exchange"
	"github.com/caddy-tally/caddy-tally/identity"
	"github.com/caddy-tally/caddy-tally/internal/caddyconf"
	"github.com/caddy-tally/caddy-tally/internal/meter"
	"github.com/caddy-tally/caddy-tally/internal/regions"
	"github.com/caddy-tally/caddy-tally/limiter/engine"
	"github.com/caddy-tally/caddy-tally/storage"
)

// This file has how an instance shares counts with other regions.

// exchangeModule is a module that carries counts between regions, in the namespace
// `rate_limit.exchanges`.
type exchangeModule interface {
	caddy.Module
	// Identity says which exchange it is, and how it is used: those that are equal in it are
	// the same.
	Identity() string
	// Place says where the exchange is, for those who run the server. It shows nothing that must
	// stay secret.
	Place() string
	// Open opens the exchange. Nothing is opened, made or changed before.
	Open(ctx context.Context) (exchanges.Exchange, error)
}

// sharedRegion is a region that shares its counts with others.
type sharedRegion struct {
	name     string
	interval time.Duration // 0 is the default
	exchange exchangeModule
}

// startRegion begins to share counts, if the configuration says so.
func (h *instance) startRegion(r *sharedRegion) error {
	if r == nil {
		return nil
	}
	h.exchangedAt = r.exchange.Place()
	shared, err := regions.New(regions.Options{
		Region:   r.name,
		Open:     func(ctx context.Context) (exchanges.Exchange, error) { return r.exchange.Open(ctx) },
		Engine:   h.engine,
		Name:     h.nameForRegions,
		Interval: r.interval,
		MaxKeys:  h.settings.maxKeys,
		Observer: regionObserver{h},
	})
	h.regions.Store(shared)
	return err
}

// stopRegion publishes what was admitted, and stops sharing.
func (h *instance) stopRegion(ctx context.Context) error {
	if shared := h.regions.Load(); shared != nil {
		return shared.Close(ctx)
	}
	return nil
}

// nameForRegions names a key as all regions with the same secret do.
func (h *instance) nameForRegions(limit storage.LimitID, key []byte, period int64) (name storage.Key, ok bool) {
	hasher := h.regionNames.Load()
	if hasher == nil {
		secret := h.secret.Load()
		if secret == nil {
			return name, false
		}
		keys, err := secret.Derive("names for regions")
		if err != nil {
			return name, false
		}
		made := identity.NewHasher(keys[0])
		hasher = &made
		h.regionNames.Store(hasher)
	}
	text := binary.BigEndian.AppendUint64(make([]byte, 0, 64), uint64(period))
	return hasher.Hash(uint64(limit), string(append(text, key...))), true
}

// decide decides about a request, with what other regions have admitted.
func (h *instance) decide(ctx context.Context, client *engine.Client, debits []engine.Debit) engine.Decision {
	if shared := h.regions.Load(); shared != nil {
		return shared.Decide(ctx, client, debits)
	}
	return h.engine.Decide(ctx, client, debits)
}

// shadow decides about debits of a shadow limit without waiting, or reports that it can't.
func (h *instance) shadow(debits []engine.Debit) (d engine.Decision, decided bool) {
	if shared := h.regions.Load(); shared != nil {
		return shared.Shadow(debits)
	}
	return h.engine.Shadow(debits)
}

// shadowLater decides about debits that shadow has not decided about, when the store has answered.
func (h *instance) shadowLater(debits []engine.Debit, later func([]engine.Debit, engine.Decision)) {
	if shared := h.regions.Load(); shared != nil {
		shared.ShadowLater(debits, later)
	} else {
		h.engine.ShadowLater(debits, later)
	}
}

// forecast tells what decide would decide, and changes nothing.
func (h *instance) forecast(ctx context.Context, client *engine.Client, debits []engine.Debit) engine.Decision {
	if shared := h.regions.Load(); shared != nil {
		shared.Lower(debits)
	}
	return h.engine.Forecast(ctx, client, debits)
}

// regionObserver implements [regions.Observer].
type regionObserver struct{ *instance }

// Published implements regions.Observer.
func (regionObserver) Published(rows int) { meter.Published(rows) }

// Collected implements regions.Observer.
func (regionObserver) Collected(_, applied, made int) {
	meter.Collected(applied, made)
}

// Erred implements regions.Observer.
func (regionObserver) Erred() { meter.ExchangeFailed() }

// Failed implements regions.Observer.
func (o regionObserver) Failed(since time.Duration, err error) {
	caddyconf.Logger().Error("counts can't be exchanged with other regions; this region goes on alone until they can",
		zap.String("exchange", o.exchangedAt), zap.Duration("since", since), zap.Error(err))
}

// Recovered implements regions.Observer.
func (o regionObserver) Recovered(after time.Duration) {
	caddyconf.Logger().Info("counts are exchanged with other regions again", zap.String("exchange", o.exchangedAt), zap.Duration("after", after))
}

var _ regions.Observer = regionObserver{}
