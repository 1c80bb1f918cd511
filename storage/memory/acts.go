package memory

import (
	"context"
	"slices"

	"github.com/caddy-tally/caddy-tally/storage"
)

// maxActs is how many acts are kept. The oldest go first.
const maxActs = 10_000

// Audit implements [storage.Auditor]. What is noted ends with the process, as all that this
// store keeps.
func (s *Store) Audit(ctx context.Context, act *storage.Act) error {
	return s.look(ctx, "audit", func(p *past) {
		act.Cut()
		i, taken := slices.BinarySearchFunc(p.acts, act.At, compareActs)
		for ; taken; act.At++ {
			i, taken = slices.BinarySearchFunc(p.acts, act.At+1, compareActs)
		}
		p.acts = slices.Insert(p.acts, i, *act)
		p.acts = slices.Delete(p.acts, 0, max(len(p.acts)-maxActs, 0))
	})
}

func compareActs(a storage.Act, at int64) int {
	switch {
	case a.At < at:
		return -1
	case a.At > at:
		return 1
	}
	return 0
}

// Acts implements [storage.Auditor].
func (s *Store) Acts(ctx context.Context, before int64, n int) (list []storage.Act, err error) {
	err = s.look(ctx, "audit", func(p *past) {
		end, _ := slices.BinarySearchFunc(p.acts, before, compareActs)
		from := max(end-min(max(n, 0), storage.MaxActs), 0)
		list = slices.Clone(p.acts[from:end])
		slices.Reverse(list)
	})
	return list, err
}

var _ storage.Auditor = (*Store)(nil)
