package operations

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/caddy-tally/caddy-tally/identity"
	"github.com/caddy-tally/caddy-tally/identity/reference"
	"github.com/caddy-tally/caddy-tally/internal/instance"
	"github.com/caddy-tally/caddy-tally/internal/operator"
	"github.com/caddy-tally/caddy-tally/limiter/engine"
	"github.com/caddy-tally/caddy-tally/limiter/reputation"
	"github.com/caddy-tally/caddy-tally/storage"
)

// This file lists the bans for violations: those in memory, and those that only the store knows
// because their clients haven't come to this process since it started. Of these the store has no
// more than a keyed hash, so a reference names them.

// conductBans returns the bans for violations, at most operator.MaxItems. Those of the store may be
// as old as maxAge. missing says why there may be more, or is "".
func (a Config) conductBans(ctx context.Context, h *instance.Instance, maxAge time.Duration) (bans []operator.Ban, missing string) {
	const most = operator.MaxItems
	now, wall := h.Engine.Now(), time.Now()
	names := make(map[storage.Key]bool)
	for _, c := range h.Engine.Clients(engine.ClientsQuery{
		Banned: true, N: most + 1,
		Match: func(key []byte) bool { return key[0] != identity.TagNetwork }, // a network is throttled, not banned
	}) {
		ban := a.banOf(c, now, wall)
		ban.Tag = h.Names.Tag(c.Key)
		bans = append(bans, *ban)
		if name, err := h.Engine.NameOf(nil, c.Key); err == nil {
			names[name.Key], names[name.Former] = true, true
		}
	}
	stored, err := h.StoredBans(ctx, 2*most, maxAge)
	lasting, _ := h.Engine.Lasting()
	for _, b := range stored {
		if b.Record.Move(now - lasting); b.Record.Banned(now) && !names[b.Key] && !isThrottled(&b.Record) {
			bans = append(bans, a.storedBan(h, b, now, wall))
		}
	}
	switch {
	case err != nil:
		missing = "those of clients that haven't come since the start can't be read: " + err.Error()
	case len(bans) > most || len(stored) == 2*most:
		missing = "there are more"
	}
	return bans[:min(len(bans), most)], missing
}

// isThrottled reports whether a record is a network's: its ban throttles it.
func isThrottled(r *reputation.Record) bool {
	return slices.ContainsFunc(r.Past, func(v reputation.Violation) bool { return v.Reason == reputation.Crowded })
}

// storedBan describes a ban that only the store knows.
func (a Config) storedBan(h *instance.Instance, b storage.Banned, now int64, wall time.Time) operator.Ban {
	ban := a.banOf(engine.ClientRecord{Record: b.Record, Banned: time.Duration(b.Record.Until - now)}, now, wall)
	ref := h.Names.Refer(reference.Refusal{Reason: uint8(engine.Banned), Time: *cmp.Or(ban.Since, &wall), Name: b.Key}, nil, "")
	if ref != "" {
		ban.Client = operator.Target{Kind: operator.Reference, Value: ref}.String()
	}
	ban.Text = "a client that hasn't come since the start"
	return *ban
}

// maxBansAge is how old the bans may be that a status counts: dashboards ask for it all the time.
const maxBansAge = 10 * time.Second

// describeConduct counts the bans for violations. It returns nil if nothing is counted.
func (a Config) describeConduct(ctx context.Context) *operator.ConductBans {
	h := a.Instance.Load()
	if h == nil {
		return nil
	}
	bans, missing := a.conductBans(ctx, h, maxBansAge)
	return &operator.ConductBans{Bans: len(bans), Missing: missing}
}
