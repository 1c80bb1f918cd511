package instance

import (
	"context"
	"encoding/binary"
	"time"

	"go.uber.org/zap"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-tally/caddy-tally/identity"
	"github.com/caddy-tally/caddy-tally/internal/caddyconf"
	"github.com/caddy-tally/caddy-tally/internal/engine"
	"github.com/caddy-tally/caddy-tally/internal/meter"
	"github.com/caddy-tally/caddy-tally/internal/regions"
	"github.com/caddy-tally/caddy-tally/storage"
	exchanges "github.com/caddy-tally/caddy-tally/storage/exchange"
)

// This file shares an instance's counts with other regions.

// Exchange is a module that carries counts between regions, in the namespace
// `rate_limit.exchanges`.
type Exchange interface {
	caddy.Module
	// Identity identifies the exchange and its use. Exchanges with equal identities are the same.
	Identity() string
	// Place describes the exchange's place for operators. It contains no secrets.
	Place() string
	// Open opens the exchange. Before that nothing is opened, created or changed.
	Open(ctx context.Context) (exchanges.Exchange, error)
}

// Region is a region that shares its counts with others.
type Region struct {
	Name     string
	Interval time.Duration // 0 is the default
	Exchange Exchange
}

// startRegion begins to share counts, if the configuration asks for that.
func (inst *Instance) startRegion(s Settings, r *Region) {
	if r == nil {
		inst.regions.Store(nil)
		return
	}
	inst.exchangedAt.Store(r.Exchange.Place())
	inst.regions.Store(regions.New(regions.Options{
		Region:   r.Name,
		Open:     func(ctx context.Context) (exchanges.Exchange, error) { return r.Exchange.Open(ctx) },
		Engine:   inst.Engine,
		Name:     inst.Names.forRegions,
		Database: inst.databaseMark,
		Interval: r.Interval,
		MaxKeys:  s.MaxKeys,
		Observer: regionObserver{inst},
	}))
}

// databaseMark returns a mark of the database for other regions: a hash under a key that the database has,
// or the folder beside it. It returns zero while it isn't known.
func (inst *Instance) databaseMark() (unknown storage.Key) {
	now, known := inst.Engine.Lasting()
	if !known || inst.Engine.Degraded() {
		return unknown
	}
	name, err := inst.Names.ForStore(0, string(identity.TagNetwork), markRetention, now)
	if err != nil {
		return unknown
	}
	return name.Key
}

// markRetention is for how long a database has one mark, or for longer.
const markRetention = 10 * 365 * 24 * time.Hour

// Lift makes the records of clients remember that an operator has lifted their bans, if other regions may
// have them. done notifies the other regions; the caller calls it when the records have changed.
func (inst *Instance) Lift(resets []engine.Reset, banned []time.Duration) (done func()) {
	shared := inst.regions.Load()
	if shared == nil {
		return func() {}
	}
	for i := range resets {
		resets[i].Lifts = shared.LiftLasts([]byte(resets[i].Key), banned[i])
	}
	return func() {
		for i := range resets {
			shared.Lifted([]byte(resets[i].Key), resets[i].Lifts)
		}
	}
}

// BannedElsewhere reports whether another region has banned a client.
func (inst *Instance) BannedElsewhere(client string) bool {
	shared := inst.regions.Load()
	return shared != nil && shared.BannedElsewhere([]byte(client))
}

// stopRegion publishes the admitted units and stops sharing.
func (inst *Instance) stopRegion(ctx context.Context) error {
	if shared := inst.regions.Load(); shared != nil {
		return shared.Close(ctx)
	}
	return nil
}

// forRegions names a key as all regions with the same secret do.
func (n *Names) forRegions(limit storage.LimitID, key []byte, period int64) (name storage.Key, ok bool) {
	hasher := n.regionNames.Load()
	if hasher == nil {
		secret := n.Secret.Load()
		if secret == nil {
			return name, false
		}
		hasher = new(identity.NewHasher(secret.Derive("names for regions")[0]))
		n.regionNames.Store(hasher)
	}
	text := binary.BigEndian.AppendUint64(make([]byte, 0, 64), uint64(period))
	return hasher.Hash(uint64(limit), string(append(text, key...))), true
}

// Decide decides about a request, including the units that other regions admitted.
func (inst *Instance) Decide(ctx context.Context, client *engine.Client, debits []engine.Debit) engine.Decision {
	if shared := inst.regions.Load(); shared != nil {
		return shared.Decide(ctx, client, debits)
	}
	return inst.Engine.Decide(ctx, client, debits)
}

// Shadow decides about debits of a shadow limit without waiting, or reports that it can't.
func (inst *Instance) Shadow(debits []engine.Debit) (d engine.Decision, decided bool) {
	if shared := inst.regions.Load(); shared != nil {
		return shared.Shadow(debits)
	}
	return inst.Engine.Shadow(debits)
}

// ShadowLater decides about debits for which Shadow couldn't decide, when the store has answered.
func (inst *Instance) ShadowLater(debits []engine.Debit, later func([]engine.Debit, engine.Decision)) {
	if shared := inst.regions.Load(); shared != nil {
		shared.ShadowLater(debits, later)
	} else {
		inst.Engine.ShadowLater(debits, later)
	}
}

// Forecast returns the decision that Decide would make, and changes nothing.
func (inst *Instance) Forecast(ctx context.Context, client *engine.Client, debits []engine.Debit) engine.Decision {
	if shared := inst.regions.Load(); shared != nil {
		shared.Lower(debits)
	}
	return inst.Engine.Forecast(ctx, client, debits)
}

// Charge charges debits of no request: see [engine.Engine.ChargeOnce].
func (inst *Instance) Charge(ctx context.Context, debits []engine.Debit, id *engine.Debit) (engine.Decision,
	bool, error) {
	if shared := inst.regions.Load(); shared != nil {
		shared.Lower(debits)
	}
	return inst.Engine.ChargeOnce(ctx, debits, id)
}

// SharesCounts reports whether other regions know the counts.
func (inst *Instance) SharesCounts() bool { return inst.regions.Load() != nil }

// regionObserver implements [regions.Observer].
type regionObserver struct{ *Instance }

// Published implements regions.Observer.
func (regionObserver) Published(rows int) { meter.Published(rows) }

// Collected implements regions.Observer.
func (regionObserver) Collected(_, applied, made int) {
	meter.Collected(applied, made)
}

// Erred implements regions.Observer.
func (regionObserver) Erred(step string) { meter.ExchangeFailed(step) }

// Failed implements regions.Observer.
func (o regionObserver) Failed(since time.Duration, err error) {
	caddyconf.Logger().Error("counts can't be exchanged with other regions; this region goes on alone until they can",
		zap.Any("exchange", o.exchangedAt.Load()), zap.Duration("since", since), zap.Error(err))
}

// Recovered implements regions.Observer.
func (o regionObserver) Recovered(after time.Duration) {
	caddyconf.Logger().Info("counts are exchanged with other regions again", zap.Any("exchange", o.exchangedAt.Load()),
		zap.Duration("after", after))
}

var _ regions.Observer = regionObserver{}
