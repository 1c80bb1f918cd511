package dashboard

import (
	"slices"

	"github.com/caddy-tally/caddy-tally/internal/operator"
)

// healthPage describes the stores.
type healthPage struct{ operator.Status }

// OK reports whether nothing needs attention.
func (p healthPage) OK() bool { return sound(p.Status) }

func loadHealth(v *visit) (any, error) {
	status, err := v.d.options.Service.Status(v.r.Context())
	return healthPage{status}, err
}

// sound reports whether all stores and files are all right.
func sound(s operator.Status) bool {
	for _, store := range s.Stores {
		if store.Degraded || store.APIKeys != nil || store.Region != nil && store.Region.Since != nil {
			return false
		}
	}
	failing := func(list operator.BlockList) bool { return list.Reason != "" }
	return s.Rules.Trouble == nil && !slices.ContainsFunc(s.Rules.Lists, failing)
}
