package tally

import (
	"fmt"

	"github.com/caddy-tally/caddy-tally/internal/wording"
	"github.com/caddy-tally/caddy-tally/limiter/region"
)

// checkShortWindows finds limits that stay regional because their windows are over before
// other regions hear of them.
func (z *zoneSetup) checkShortWindows() []Advice {
	if z.app.Region == nil {
		return nil
	}
	for _, set := range z.run.Sets() {
		for _, p := range set.Policies {
			if p.Window() < region.MinWindow {
				return []Advice{z.advice(fmt.Sprintf("region: the limit %q counts in each region on its own, because its window of %s is over before other regions hear of it", p.Name, wording.Duration(p.Window())),
					fmt.Sprintf("a window of at least %s beside it, for all regions together", wording.Duration(region.MinWindow)))}
			}
		}
	}
	return nil
}
