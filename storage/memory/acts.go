package memory

import (
	"cmp"
	"context"
	"slices"

	"github.com/caddy-tally/caddy-tally/storage"
)

// maxActs is how many acts are kept. The oldest are dropped first.
const maxActs = 10_000

// Audit implements [storage.Store]. The entries end with the process, like all data of this store.
func (s *Store) Audit(ctx context.Context, act *storage.Act) error {
	return s.look(ctx, "audit", func(h *history) {
		act.Cut()
		i, taken := slices.BinarySearchFunc(h.acts, act.At, compareActs)
		for ; taken; act.At++ {
			i, taken = slices.BinarySearchFunc(h.acts, act.At+1, compareActs)
		}
		h.acts = slices.Insert(h.acts, i, *act)
		h.acts = slices.Delete(h.acts, 0, max(len(h.acts)-maxActs, 0))
	})
}

func compareActs(a storage.Act, at int64) int { return cmp.Compare(a.At, at) }

// Acts implements [storage.Store].
func (s *Store) Acts(ctx context.Context, before int64, n int) (list []storage.Act, err error) {
	err = s.look(ctx, "audit", func(h *history) {
		end, _ := slices.BinarySearchFunc(h.acts, before, compareActs)
		from := max(end-min(max(n, 0), storage.MaxActs), 0)
		list = slices.Clone(h.acts[from:end])
		slices.Reverse(list)
	})
	return list, err
}
