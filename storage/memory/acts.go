package memory

import (
	"cmp"
	"context"
	"slices"

	"github.com/caddy-tally/caddy-tally/storage"
)

// Audit implements [storage.Store]. The entries end with the process, like all data of this store.
func (s *Store) Audit(ctx context.Context, log storage.Log, act *storage.Act) error {
	return s.look(ctx, "audit", func(h *history) {
		act.Cut()
		acts := h.acts[log]
		i, taken := slices.BinarySearchFunc(acts, act.At, compareActs)
		for ; taken; act.At++ {
			i, taken = slices.BinarySearchFunc(acts, act.At+1, compareActs)
		}
		acts = slices.Insert(acts, i, *act)
		over := max(len(acts)-storage.MaxActsKept, 0)
		clear(acts[:over])
		h.acts[log] = acts[over:] // moves no others: that would take milliseconds
	})
}

func compareActs(a storage.Act, at int64) int { return cmp.Compare(a.At, at) }

// Acts implements [storage.Store].
func (s *Store) Acts(ctx context.Context, log storage.Log, before int64, n int) (list []storage.Act, err error) {
	err = s.look(ctx, "audit", func(h *history) {
		acts := h.acts[log]
		end, _ := slices.BinarySearchFunc(acts, before, compareActs)
		from := max(end-min(max(n, 0), storage.MaxActs), 0)
		list = slices.Clone(acts[from:end])
		slices.Reverse(list)
	})
	return list, err
}
