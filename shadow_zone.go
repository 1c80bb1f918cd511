package tally

import (
	"fmt"
	"slices"

	"go.uber.org/zap"

	"github.com/caddy-tally/caddy-tally/internal/enforce"
)

// This file has what shadow means in a config.

// wantsShadow reports whether a zone that isn't provisioned yet enforces no limit. Those of tiers
// are not looked at.
func (z *Zone) wantsShadow() bool {
	return z.Shadow || len(z.Limits) > 0 && !slices.ContainsFunc(z.Limits, func(l Limit) bool { return !l.Shadow })
}

// mayShadow reports whether a zone that isn't provisioned yet may have a shadow limit.
func (z *Zone) mayShadow() bool {
	return z.Shadow || z.Tiers || z.Tier != "" || slices.ContainsFunc(z.Limits, func(l Limit) bool { return l.Shadow })
}

// provisionShadow settles whether the zone refuses anything, and warns of options that have no
// effect if it doesn't.
func (z *zoneSetup) provisionShadow() error {
	if z.Shadow {
		z.run.Denied = &enforce.Policy{Zone: z.run, Name: "denied", Shadow: true, Set: new(enforce.LimitSet)}
	}
	enforces := func(s *enforce.LimitSet) bool { return len(s.Policies) > 0 }
	z.run.IsShadow = !slices.ContainsFunc(z.run.Sets(), enforces)
	if !z.run.IsShadow {
		z.warnOfShadowOrder()
		return nil
	}
	if !z.Shadow && z.OnEmptyKey == enforce.EmptyDeny {
		z.warn("shadow: no limit of the zone is enforced, and on_empty_key deny refuses requests all the same", "shadow into a line of its own, for the whole zone")
	}
	if z.OnExceeded == onExceededChallenge {
		z.warn("on_exceeded: no limit of the zone is enforced, so nobody is challenged while shadow is there", "on_exceeded challenge with limits that are enforced")
	}
	if z.Ban != nil {
		z.warn("ban: no limit of the zone is enforced, so nobody is banned while shadow is there", "ban with limits that are enforced")
	}
	z.log.Info("this zone is in shadow: no limit of it is enforced, so it refuses nothing", zap.String("zone", z.Name))
	return nil
}

// warnOfShadowOrder warns of a shadow limit above an enforced one of its kind. These are told
// apart by their order, so that the enforced one would begin to count anew.
func (z *zoneSetup) warnOfShadowOrder() {
	for _, set := range z.run.Sets() {
		if p := set.Misplaced; p != nil {
			z.warn(fmt.Sprintf("limit: %s shadow stands above an enforced limit of the same window, which counts from zero when another one comes in before it", enforce.LimitText(p.Limit.Limit)),
				"it below the enforced limits")
			return
		}
	}
}
