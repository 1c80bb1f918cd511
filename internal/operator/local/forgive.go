package local

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/enforce"
	"github.com/caddy-tally/caddy-tally/internal/engine"
	"github.com/caddy-tally/caddy-tally/internal/operator"
	"github.com/caddy-tally/caddy-tally/limiter/reputation"
	"github.com/caddy-tally/caddy-tally/storage"
)

// This file forgets violations and counts.

// resetAll performs the resets, and writes an audit entry unless nothing has changed. It returns the number of
// items that it found.
func (sub *subject) resetAll(ctx context.Context, resets []engine.Reset, action operator.Action,
	o operator.Command) (found int, err error) {
	err = sub.Instance.Engine.Reset(ctx, resets)
	if errors.Is(err, engine.ErrUnavailable) {
		return 0, operator.Errorf(http.StatusServiceUnavailable, "%v; nothing was changed", err)
	}
	for i, r := range resets {
		if counts := r.Penalty != nil && resets[i-1].Found; r.Found && !counts || r.Lifts > 0 { // one item with its counts
			found++
		}
	}
	if err != nil || found > 0 { // after an error it may have happened, or happen later
		if _, failed := sub.Instance.Audit.WriteSoon(context.WithoutCancel(ctx), sub.entry(action, o)); failed != nil {
			return 0, operator.Errorf(http.StatusServiceUnavailable,
				"it was done, but the audit doesn't have it: %v", failed)
		}
	}
	if errors.Is(err, storage.ErrUnknownOutcome) {
		err = operator.Errorf(http.StatusServiceUnavailable, "%v; once more does no harm", err)
	}
	return found, err
}

// reset forgets the counts of a client.
func (r running) reset(ctx context.Context, o operator.Command) (operator.Done, error) {
	t, err := r.target(ctx, o.Client)
	if err != nil {
		return operator.Done{}, err
	}
	zones, err := t.Config.zonesNamed(o.Zone)
	if err != nil {
		return operator.Done{}, err
	}
	var resets []engine.Reset
	keys, limits := t.countedKeys(zones, operator.MaxItems), t.Config.limitsOf(zones)
	for _, c := range keys {
		resets = append(resets, engine.Reset{Limit: &c.Limit, Key: c.key, Name: c.name})
		if p := penaltyIn(limits[c.ID]); p != nil && (c.key != "" || !c.Shadow) { // a shadow's record has another name
			resets = append(resets, engine.Reset{Limit: &c.Limit, Penalty: p, Key: c.key, Name: c.name})
		}
	}
	if len(resets) == 0 {
		return operator.Done{}, operator.Errorf(http.StatusNotFound, "%s: no limit counts it%s", t, t.unknownHint())
	}
	done := operator.Done{Client: t.String()}
	if done.Changed, err = t.resetAll(ctx, resets, operator.Reset, o); err != nil {
		return operator.Done{}, err
	}
	if done.Changed == 0 {
		return operator.Done{}, operator.Errorf(http.StatusNotFound, "%s: no limit has counted anything for it%s", t,
			t.unknownHint())
	}
	if r := t.Referred; r != nil && r.Policy != nil && r.Policy.Zone.Per == enforce.PerEveryone {
		done.Notes = append(done.Notes, "the limit counts all clients together: it counts from zero for all of them")
	}
	if len(keys) == operator.MaxItems {
		done.Notes = append(done.Notes, "there may be more: reset it again")
	}
	return done, nil
}

// unknownHint suggests another way to name a client that wasn't found, or returns "".
func (sub *subject) unknownHint() string {
	switch {
	case sub.Kind == operator.Reference:
		return ""
	case sub.Kind == operator.APIKey && sub.keyTier() == "":
		return "; there is no API key of that name: caddy rate-limit key list lists them"
	}
	return "; name it by the reference of one of its refusals (ref:...) if it is one that zones per client tell apart by more than its address"
}

// forgive forgets the violations of a client, which ends the ban that they caused. It returns the
// number of clients with violations, and the number of ended bans.
func (sub *subject) forgive(ctx context.Context, o operator.Command) (forgiven, banned int, err error) {
	var resets []engine.Reset
	var lasts []time.Duration
	for _, c := range sub.clients(operator.MaxItems) {
		if resets = append(resets, engine.Reset{Key: c.Key}); slices.ContainsFunc(c.Record.Past, isThrottling) {
			lasts = append(lasts, 0) // no other region has it
		} else {
			lasts = append(lasts, c.Banned)
		}
		if c.Banned > 0 {
			banned++
		}
	}
	if sub.Referred != nil && sub.Referred.Limit == enforce.BanName && sub.Referred.Name != (storage.Key{}) {
		resets, lasts = append(resets, engine.Reset{Name: sub.Referred.Name}), append(lasts, reputation.MaxBan)
		banned++
	}
	if key := sub.key(); len(resets) == 0 && key != "" && sub.Instance.BannedElsewhere(key) {
		resets, lasts = append(resets, engine.Reset{Key: key}), append(lasts, 0)
		banned++
	}
	if len(resets) == 0 {
		return 0, 0, nil
	}
	done := sub.Instance.Lift(resets, lasts)
	if forgiven, err = sub.resetAll(ctx, resets, operator.Unban, o); err == nil {
		done()
	}
	return forgiven, min(banned, forgiven), err
}
