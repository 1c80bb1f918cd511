package dashboard

import (
	"slices"

	"github.com/caddy-tally/caddy-tally/internal/operator"
)

func loadHealth(v *visit) (any, error) { return v.d.options.Service.Status(v.r.Context()) }

// sound reports whether all stores and files are all right.
func sound(s operator.Status) bool {
	for _, store := range s.Stores {
		if store.Degraded || store.History != nil || store.APIKeys != nil || store.Names != nil ||
			store.Region != nil && (store.Region.Since != nil || len(store.Region.Faults) > 0) {
			return false
		}
	}
	failing := func(list operator.BlockList) bool { return list.Reason != "" }
	return s.Rules.Trouble == nil && !slices.ContainsFunc(s.Rules.Lists, failing)
}
