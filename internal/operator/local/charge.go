package local

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/enforce"
	"github.com/caddy-tally/caddy-tally/internal/engine"
	"github.com/caddy-tally/caddy-tally/internal/meter"
	"github.com/caddy-tally/caddy-tally/internal/operator"
	"github.com/caddy-tally/caddy-tally/internal/report"
	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/storage"
)

// idWindow is how long an id is used up.
const idWindow = 24 * time.Hour

// idOf returns the debit that uses up the id of a charge. Its amount stands for the units of the charge, so that the
// store knows them.
func idOf(c operator.Charge, target operator.Target) (*engine.Debit, error) {
	if c.ID == "" {
		return nil, nil
	}
	amount := c.Units
	if amount < 0 {
		amount += 2*operator.MaxUnits + 1
	}
	rate, err := limiter.New(limiter.Params{Amount: amount, Window: idWindow})
	return &engine.Debit{
		Limit: &engine.Limit{ID: 0x1d50_0fca_11ed_5a1e, Rate: rate},
		Key:   fmt.Appendf(nil, "%q %q %s", c.Zone, target, c.ID), Cost: amount,
	}, err
}

// unitsOf returns the units of a charge from the amount of its id.
func unitsOf(amount int64) int64 {
	if amount > operator.MaxUnits {
		amount -= 2*operator.MaxUnits + 1
	}
	return amount
}

// Charge implements operator.Service.
func (r running) Charge(ctx context.Context, c operator.Charge) (operator.Charged, error) {
	if err := c.Check(); err != nil {
		return operator.Charged{}, err
	}
	t, err := r.target(ctx, c.Client)
	if err != nil {
		return operator.Charged{}, err
	}
	charges, err := t.charges(c)
	if err != nil {
		return operator.Charged{}, err
	}
	done := operator.Charged{Zone: c.Zone, Client: t.String(), Outcome: meter.Outcomes[engine.None], Allowed: true}
	if c.Units > 0 && t.stillBanned() != "" {
		done.Allowed, done.Outcome = false, meter.Outcomes[engine.Banned]
		return done, nil
	}
	id, err := idOf(c, t.Target)
	if err != nil {
		return operator.Charged{}, err
	}
	if c.Units < 0 {
		err = t.giveBack(ctx, &done, charges, id)
	} else {
		err = t.charge(ctx, &done, charges, id)
	}
	other := (*engine.OtherUnitsError)(nil)
	switch {
	case errors.As(err, &other):
		return done, operator.Errorf(http.StatusConflict,
			"id: %q was used for %d units, got %d: a repetition has the same units; take another id for another charge", c.ID, unitsOf(other.Cost), c.Units)
	case errors.Is(err, storage.ErrUnknownOutcome) && c.Units < 0:
		return done, operator.Errorf(http.StatusServiceUnavailable, "%v; it isn't known whether units were given back; sent again with the same id they are given back once at most, and not at all if the id is used up", err)
	case errors.Is(err, storage.ErrUnknownOutcome):
		return done, operator.Errorf(http.StatusServiceUnavailable,
			"%v; with an id it can be sent again: it is counted at least once", err)
	case err != nil:
		return done, operator.Errorf(http.StatusServiceUnavailable,
			"the store can't be used at the moment; nothing was charged or given back, and the id is free: %v", err)
	}
	if done.Units != 0 {
		entry := t.entry("charge",
			operator.Command{By: c.By, Reason: fmt.Sprintf("zone %s: %d units", c.Zone, done.Units)})
		entry.Log = storage.Charges
		if _, err := t.Instance.Audit.WriteSoon(context.WithoutCancel(ctx), entry); err != nil {
			return done, operator.Errorf(http.StatusServiceUnavailable,
				"it was done, but the list of charges doesn't have it: %v", err)
		}
	}
	return done, nil
}

// charge charges the debits, counts them, and completes the answer.
func (sub *subject) charge(ctx context.Context, done *operator.Charged, c enforce.Charges, id *engine.Debit) error {
	d, repeated, err := sub.Instance.Charge(ctx, c.Debits, id)
	if done.Repeats = repeated; err != nil || repeated {
		return err
	}
	report.Charged(sub.Config.Config, c, d)
	limit := d.Debit
	if done.Allowed = d.Allowed; d.Allowed {
		done.Units = c.Debits[0].Cost
		limit = fewestLeft(c, limit)
	} else if done.Outcome = meter.Outcomes[d.Reason]; d.Retry > 0 && d.Retry != limiter.Never {
		done.Retry = operator.SecondsOf(d.Retry)
	}
	tellLeft(done, c, limit)
	return nil
}

// giveBack gives units back, and completes the answer.
func (sub *subject) giveBack(ctx context.Context, done *operator.Charged, c enforce.Charges, id *engine.Debit) error {
	units, repeated, err := sub.Instance.Engine.GiveBack(ctx, c.Debits, id)
	done.Units, done.Repeats = -units, repeated
	report.GivenBack(sub.Config.Config, c, units)
	switch {
	case errors.Is(err, engine.ErrTooFarBack):
		done.Allowed, done.Outcome = false, operator.TooFarBack
		return nil
	case err == nil && !repeated:
		tellLeft(done, c, fewestLeft(c, 0))
	}
	return err
}

// fewestLeft returns the index of the limit with the fewest units left, beginning with a choice.
func fewestLeft(c enforce.Charges, limit int) int {
	for i, d := range c.Debits {
		if d.Known && (!c.Debits[limit].Known || d.Quota.Remaining < c.Debits[limit].Quota.Remaining) {
			limit = i
		}
	}
	return limit
}

// tellLeft names a limit in the answer, with its units left.
func tellLeft(done *operator.Charged, c enforce.Charges, limit int) {
	if done.Limit = c.Policies[limit].Name; c.Debits[limit].Known {
		done.Left = &c.Debits[limit].Quota.Remaining
	}
}

// charges returns the debits of a charge: one from each enforced limit of the zone that counts the target.
func (sub *subject) charges(c operator.Charge) (charges enforce.Charges, err error) {
	zones, err := sub.Config.zonesNamed(c.Zone)
	if err != nil {
		return charges, err
	}
	if c.Zone == "" {
		return charges, operator.Errorf(http.StatusNotFound, "zone: expected one in the path, such as charge/mails")
	}
	for _, z := range zones {
		if z.Sites != nil {
			return charges, operator.Errorf(http.StatusConflict, "zone: %s counts each site apart, so a charge has no count: name the zone's sites apart, in zones of their own", z.Name)
		}
		key := sub.chargedKey(z)
		if key == nil {
			return charges, operator.Errorf(http.StatusConflict, "client: %s: zone %s counts per %s: expected %s", sub,
				z.Name, z.PerText(), expectedFor[z.Per])
		}
		tier, _ := sub.tierIn(z)
		for _, s := range z.SetsByTier(sub.Config.Tiers) {
			if s.Tier != "" && s.Tier != tier {
				continue
			}
			for _, p := range s.Set.Policies {
				if c.Units < 0 && (!p.CountsSlots() || sub.Instance.SharesCounts()) {
					return charges, operator.Errorf(http.StatusConflict, "units: limit %s can't give units back: it is a token bucket, which refills by itself, or shared with other regions, which have counted them", p.Name)
				}
				if slices.ContainsFunc(charges.Policies, func(other *enforce.Policy) bool { return other.ID == p.ID }) {
					continue // of a zone with this name in another place
				}
				charges.Policies = append(charges.Policies, p)
				charges.Debits = append(charges.Debits,
					engine.Debit{Limit: &p.Limit, Key: key, Cost: max(c.Units, -c.Units)})
				d := &charges.Debits[len(charges.Debits)-1]
				if p.Scaling != nil && sub.Kind == operator.APIKey {
					d.Scaling, d.Client = p.Scaling, &engine.Client{Key: key}
				}
				sub.raise(p, d)
			}
		}
	}
	if len(charges.Debits) == 0 && sub.Kind == operator.APIKey && sub.keyTier() == "" {
		return charges, operator.Errorf(http.StatusConflict, "client: %s%s", sub, sub.unknownHint())
	}
	if len(charges.Debits) == 0 {
		return charges, operator.Errorf(http.StatusConflict, "zone: %s has no limit of units for %s: places of concurrent requests, limits in shadow and connections can't be charged", c.Zone, sub)
	}
	return charges, nil
}

// expectedFor says which clients a zone can count by their name alone.
var expectedFor = map[string]string{
	enforce.PerIP: "an address", enforce.PerKey: "key:TEXT, the value of its key", enforce.PerAPIKey: "api-key:NAME",
	enforce.PerClient:   "api-key:NAME, as others are told apart by their requests",
	enforce.PerEveryone: "a zone with a key: nobody is told apart in this one",
}

// chargedKey returns the key of the target in a zone, or nil if its name isn't enough.
func (sub *subject) chargedKey(z *enforce.Zone) []byte {
	if z.Per == enforce.PerKey && sub.Kind == operator.Address {
		return nil // the zone may fall back to addresses, or have them as texts
	}
	if keys := sub.keysIn(z); len(keys) > 0 {
		return keys[0]
	}
	return nil
}
