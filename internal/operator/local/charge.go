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

// onceADay is the limit of the ids of charges, which have keys of their own.
var onceADay = func() *engine.Limit {
	l, err := limiter.New(limiter.Params{Amount: 1, Window: 24 * time.Hour})
	if err != nil {
		panic(err)
	}
	return &engine.Limit{ID: 0x1d50_0fca_11ed_5a1d, Rate: l}
}()

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
	var id *engine.Debit
	if c.ID != "" {
		id = &engine.Debit{Limit: onceADay, Key: fmt.Appendf(nil, "%q %q %s", c.Zone, t.String(), c.ID)}
	}
	if c.Units < 0 {
		done.Units, done.Repeats, err = t.Instance.Engine.GiveBack(ctx, charges.Debits, id)
		done.Units = -done.Units
		report.GivenBack(t.App.Config, charges, -done.Units)
	} else {
		err = t.charge(ctx, &done, charges, id)
	}
	switch {
	case errors.Is(err, storage.ErrUnknownOutcome):
		return done, operator.Errorf(http.StatusServiceUnavailable, "%v; with an id it can be sent again: it is counted at least once", err)
	case err != nil:
		return done, operator.Errorf(http.StatusServiceUnavailable, "the store can't be used at the moment; nothing was charged: %v", err)
	}
	if done.Units != 0 {
		entry := t.entry("charge", operator.Command{By: c.By, Reason: fmt.Sprintf("zone %s: %d units", c.Zone, done.Units)})
		if _, err := t.Instance.Audit.WriteSoon(context.WithoutCancel(ctx), entry); err != nil {
			return done, operator.Errorf(http.StatusServiceUnavailable, "it was done, but the audit doesn't have it: %v", err)
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
	report.Charged(sub.App.Config, c, d)
	limit := d.Debit
	if done.Allowed = d.Allowed; d.Allowed {
		done.Units = c.Debits[0].Cost
		for i, left := range c.Debits {
			if left.Known && left.Quota.Remaining < c.Debits[limit].Quota.Remaining {
				limit = i
			}
		}
	} else if done.Outcome = meter.Outcomes[d.Reason]; d.Retry > 0 && d.Retry != limiter.Never {
		done.Retry = operator.SecondsOf(d.Retry)
	}
	if done.Limit = c.Policies[limit].Name; c.Debits[limit].Known {
		done.Left = &c.Debits[limit].Quota.Remaining
	}
	return nil
}

// charges returns the debits of a charge: one from each enforced limit of the zone that counts the target.
func (sub *subject) charges(c operator.Charge) (charges enforce.Charges, err error) {
	zones, err := sub.App.zonesNamed(c.Zone)
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
			return charges, operator.Errorf(http.StatusConflict, "client: %s: zone %s counts per %s: expected %s", sub, z.Name, z.PerText(), expectedFor[z.Per])
		}
		tier, _ := sub.tierIn(z)
		for _, s := range z.SetsByTier(sub.App.Tiers) {
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
				charges.Debits = append(charges.Debits, engine.Debit{Limit: &p.Limit, Key: key, Cost: max(c.Units, -c.Units)})
				d := &charges.Debits[len(charges.Debits)-1]
				if p.Scaling != nil && sub.Kind == operator.APIKey {
					d.Scaling, d.Client = p.Scaling, &engine.Client{Key: key}
				}
				sub.raise(p, d)
			}
		}
	}
	if len(charges.Debits) == 0 {
		return charges, operator.Errorf(http.StatusConflict, "zone: %s has no limit of units for %s: places of concurrent requests, limits in shadow and connections can't be charged", c.Zone, sub)
	}
	return charges, nil
}

// expectedFor says which clients a zone can count by their name alone.
var expectedFor = map[string]string{
	enforce.PerIP: "an address", enforce.PerKey: "key:TEXT, the value of its key", enforce.PerAPIKey: "api-key:NAME",
	enforce.PerClient: "api-key:NAME, as others are told apart by their requests", enforce.PerEveryone: "a zone with a key: nobody is told apart in this one",
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
