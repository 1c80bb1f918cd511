package store

import (
	"context"
	"encoding/binary"
	"slices"

	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/storage"
	"github.com/caddy-tally/caddy-tally/storage/internal/cells"
)

// Claim implements [storage.Store].
func (s *Store) Claim(ctx context.Context, term *storage.Term, claims []storage.Claim, grants []limiter.Grant) error {
	return s.answer(ctx, "claim", term, claims, grants, false)
}

// Probe implements [storage.Store].
func (s *Store) Probe(ctx context.Context, term *storage.Term, claims []storage.Claim, grants []limiter.Grant) error {
	return s.answer(ctx, "probe", term, claims, grants, true)
}

// answer answers claims, and charges them unless peek is true.
func (s *Store) answer(ctx context.Context, what string, term *storage.Term, claims []storage.Claim,
	grants []limiter.Grant, peek bool) error {
	if err := storage.CheckClaims(claims, grants); err != nil {
		return s.place.wrap(what, err)
	}
	b := &batch{locks: locksOf(claims), peek: peek}
	b.decide = func(tx *transaction) error {
		decide(tx, claims, grants)
		return nil
	}
	return s.batches.inTerm(ctx, what, term, b)
}

// cellName returns the name of the row of a key of a limit.
func cellName(id storage.LimitID, key storage.Key) string {
	var name [8 + len(key)]byte
	binary.BigEndian.PutUint64(name[:8], uint64(id))
	copy(name[8:], key[:])
	return string(name[:])
}

// locksOf returns the rows of claims.
func locksOf(claims []storage.Claim) []lock {
	names := make([]string, 0, len(claims))
	for i := range claims {
		c := &claims[i]
		names = append(names, cellName(c.ID, c.Key))
		if c.IsRenamed() {
			names = append(names, cellName(c.ID, c.Former))
		}
	}
	locks := locksOn("cells", names)
	for i := range locks {
		locks[i].open = true // most missing rows of a batch belong to new keys
	}
	return locks
}

// locksOn returns locks on rows, or none if there are no rows.
func locksOn(t table, names []string) []lock {
	if len(names) == 0 {
		return nil
	}
	slices.Sort(names)
	return []lock{{table: t, names: slices.Compact(names)}}
}

// decide answers claims with the states in the rows of a transaction, and changes the rows.
func decide(tx *transaction, claims []storage.Claim, grants []limiter.Grant) {
	rows, states := tx.rows["cells"], make(map[string]*cells.State, len(claims))
	stateOf := func(name string) *cells.State {
		st := states[name]
		if st == nil {
			st = &cells.State{Expires: rows[name].expires}
			st.Parse(rows[name].state)
			states[name] = st
		}
		return st
	}
	for i := range claims {
		c := &claims[i]
		c.Now = tx.at.Now
		var former *cells.State
		if c.IsRenamed() {
			former = stateOf(cellName(c.ID, c.Former))
		}
		grants[i] = stateOf(cellName(c.ID, c.Key)).Claim(c, former)
		if former != nil {
			*former = cells.State{}
		}
	}
	for name, st := range states {
		rows[name].state, rows[name].expires = st.Append(nil), st.Expires
	}
}
