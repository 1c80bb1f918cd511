package local

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/caddy-tally/caddy-tally/identity"
	"github.com/caddy-tally/caddy-tally/identity/reference"
	"github.com/caddy-tally/caddy-tally/internal/engine"
	"github.com/caddy-tally/caddy-tally/internal/instance"
	"github.com/caddy-tally/caddy-tally/internal/operator"
	"github.com/caddy-tally/caddy-tally/limiter/reputation"
	"github.com/caddy-tally/caddy-tally/storage"
)

// This file lists bans for violations: those in memory, and those that only the store knows because
// their clients haven't come to this process since its start. The store names a client by a keyed
// hash, so operators name it by a reference.

// conductBans returns bans for violations, at most operator.MaxItems. missing says why there may be
// more, or is "".
func (cfg runningConfig) conductBans(ctx context.Context, inst *instance.Instance) (bans []operator.Rule,
	missing string) {
	now, wall := inst.Engine.Now(), time.Now()
	stored, err := storedBans(ctx, inst)
	full := len(stored) == maxStoredBans
	for _, c := range inst.Engine.Clients(engine.ClientsQuery{
		Banned: true, N: operator.MaxItems + 1,
		Match: func(key []byte) bool { return key[0] != identity.TagNetwork }, // a network is throttled, not banned
	}) {
		ban := cfg.banOf(c, now, wall)
		ban.Tag = inst.Names.Tag(c.Key)
		bans = append(bans, *ban)
		name, _ := inst.Engine.NameOf(nil, c.Key) // after an error it is listed twice
		delete(stored, name.Key)
		delete(stored, name.Former)
	}
	for name, r := range stored {
		if !slices.ContainsFunc(r.Past, isThrottling) && len(bans) <= operator.MaxItems {
			bans = append(bans, cfg.storedBan(inst, name, r, wall))
		}
	}
	slices.SortStableFunc(bans, func(a, b operator.Rule) int { return b.Until.Compare(*a.Until) })
	switch {
	case err != nil:
		missing = "those of clients that haven't come since the start aren't: " + err.Error()
	case full || len(bans) > operator.MaxItems:
		missing = "there are more"
	}
	return bans[:min(len(bans), operator.MaxItems)], missing
}

// isThrottling reports whether a violation is a network's, whose ban throttles it.
func isThrottling(v reputation.Violation) bool { return v.Reason == reputation.Crowded }

// storedBan describes a ban that only the store knows.
func (cfg runningConfig) storedBan(inst *instance.Instance, name storage.Key, r reputation.Record,
	wall time.Time) operator.Rule {
	lasting, _ := inst.Engine.Lasting()
	ban := cfg.banOf(engine.ClientRecord{Record: r, Banned: time.Duration(r.Until - lasting)}, lasting, wall)
	content := reference.Refusal{Reason: uint8(engine.Banned), Time: *cmp.Or(ban.Since, &wall), Name: name}
	ban.Client, ban.Text = "ref:"+inst.Names.Refer(content, nil, ""), "a client that hasn't come since the start"
	return *ban
}

// Bounds of a reading of the store: the bans, of which some are in memory, and the time.
const (
	maxStoredBans = 2*operator.MaxItems + 1
	bansTimeout   = 3 * time.Second
)

// storedBans returns the bans in the store. Several callers share one reading, so that a disk that
// hangs doesn't collect them.
func storedBans(ctx context.Context, inst *instance.Instance) (map[storage.Key]reputation.Record, error) {
	store := inst.Store.Load()
	if store == nil || inst.Engine.Degraded() {
		return nil, errors.New("the store can't be used at the moment")
	}
	now, _ := inst.Engine.Lasting()
	reading := inst.Bans.DoChan("", func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), bansTimeout)
		defer cancel()
		return (*store).Banned(ctx, now, maxStoredBans)
	})
	select {
	case r := <-reading:
		banned, _ := r.Val.(map[storage.Key]reputation.Record)
		return maps.Clone(banned), r.Err
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(bansTimeout):
		return nil, errors.New("the store takes too long")
	}
}
