package sqlite

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/storage"
)

// Claim implements [storage.Store]. It checks the context before the transaction begins and not later: a transaction
// is short, and waits for other processes no longer than [Options.BusyTimeout].
func (s *Store) Claim(ctx context.Context, term *storage.Term, claims []storage.Claim, grants []limiter.Grant) error {
	if err := cmp.Or(ctx.Err(), storage.CheckClaims(claims, grants)); err != nil {
		return wrap("claim", err)
	}
	if a := s.periods.alone.Load(); a != nil && len(claims) > 0 {
		switch err := s.claimAlone(a, term, claims, grants); err {
		case errTransaction:
		case errNotNoted:
			claims = withoutReturns(claims)
		default:
			return s.place.failed(wrap("claim", err))
		}
	}
	return s.tx.with(ctx, "claim", func() error {
		if len(claims) == 0 {
			return nil
		}
		return s.claimLocked(term, claims, grants)
	})
}

func (s *Store) claimLocked(term *storage.Term, claims []storage.Claim, grants []limiter.Grant) error {
	if err := s.folds.foldAllLocked(); err != nil {
		return err
	}
	if s.periods.alone.Load() != nil {
		// A claim of the period that is decided meanwhile would miss these claims, and they would miss it.
		s.periods.reading.Lock()
		defer s.periods.reading.Unlock()
		if err := s.folds.foldRestLocked(); err != nil {
			return err
		}
	}
	err := s.tx.inTermLocked(term, func() (int64, error) { return s.claims.decide(term, claims, grants) })
	if err != nil {
		s.claims.limits.forget()
		return err
	}
	if a := s.periods.alone.Load(); a != nil {
		for i := range s.claims.cells {
			a.filters.add(s.claims.cells[i].id, s.claims.cells[i].key)
		}
	}
	return nil
}

// withoutReturns returns claims for another attempt after an unknown outcome. The units that they give back may
// have been granted to others already. The units that they claim may be charged twice, which makes others wait, but
// admits nothing too much.
func withoutReturns(claims []storage.Claim) []storage.Claim {
	claims = slices.Clone(claims)
	for i := range claims {
		claims[i].Return = limiter.Lease{}
	}
	return claims
}

// claimer applies batches of claims inside a transaction. It reuses its memory from batch to batch, but
// no values that it read.
type claimer struct {
	counters counters
	buckets  buckets
	limits   limits
	renames  renames

	era   int64  // of the batch
	order []int  // the claims' indices, sorted by limit and key
	cells []cell // one for each limit and key, in the same order
}

// cell is one key of one limit, the claims for it, and its state.
type cell struct {
	id     storage.LimitID // in the database, see limitOf
	key    storage.Key
	former storage.Key // an earlier name, whose rows are moved; or zero
	claims []int       // indices, in the batch's order
	state  limiter.State
	slots  []limiter.Slot // the slots that were read
	bucket limiter.Bucket // the bucket that was read
	noted  bool           // there are records of its changes
}

// keptSlots bounds the memory that a cell keeps for the next batch.
const keptSlots = 128

func newClaimer(c *conn) (*claimer, error) {
	cl := &claimer{}
	return cl, errors.Join(cl.counters.prepare(c), cl.buckets.prepare(c), cl.limits.prepare(c), cl.renames.prepare(c))
}

// decide is run as of a term's time, in its transaction.
func (cl *claimer) decide(term *storage.Term, claims []storage.Claim, grants []limiter.Grant) (written int64, err error) {
	cl.era = term.Era
	for i := range claims {
		claims[i].Now = term.Time.Now
	}
	return cl.run(claims, grants)
}

// run decides all claims and writes their changes. It returns the number of written rows.
func (cl *claimer) run(claims []storage.Claim, grants []limiter.Grant) (written int64, err error) {
	cl.gather(claims)
	if err := cl.readStates(claims); err != nil {
		return 0, err
	}
	moved, err := cl.renames.move(claims, cl.cells)
	if err != nil {
		return 0, err
	}
	cl.answer(claims, grants)
	slots, err := cl.counters.write(claims, cl.cells)
	if err != nil {
		return 0, err
	}
	buckets, err := cl.buckets.write(claims, cl.cells)
	if err != nil {
		return 0, err
	}
	written = moved + slots + buckets
	if written > 0 {
		err = cl.limits.see(claims, cl.cells, cl.era)
	}
	return written, err
}

// readStates reads the states of the cells.
func (cl *claimer) readStates(claims []storage.Claim) error {
	if err := cl.counters.read(claims, cl.cells); err != nil {
		return err
	}
	return cl.buckets.read(claims, cl.cells)
}

// answer answers claims with the states of their cells, and changes the states.
func (cl *claimer) answer(claims []storage.Claim, grants []limiter.Grant) {
	for i := range cl.cells {
		c := &cl.cells[i]
		for _, n := range c.claims {
			grants[n] = claims[n].Limit.Claim(&c.state, claims[n].Claim)
		}
	}
}

// gather makes the cells of a batch.
func (cl *claimer) gather(claims []storage.Claim) {
	cl.order = cl.order[:0]
	for i := range claims {
		cl.order = append(cl.order, i)
	}
	slices.SortFunc(cl.order, func(a, b int) int {
		x, y := &claims[a], &claims[b]
		return cmp.Or(cmp.Compare(int64(x.ID), int64(y.ID)), bytes.Compare(x.Key[:], y.Key[:]), cmp.Compare(a, b))
	})
	n := 0
	for from := 0; from < len(cl.order); n++ {
		first := &claims[cl.order[from]]
		to := from + 1
		for to < len(cl.order) && claims[cl.order[to]].ID == first.ID && claims[cl.order[to]].Key == first.Key {
			to++
		}
		if n == len(cl.cells) {
			cl.cells = append(cl.cells, cell{})
		}
		cl.cells = cl.cells[:n+1]
		cl.cells[n].reset(first, cl.order[from:to])
		cl.cells[n].id = limitOf(first.ID, cl.era)
		from = to
	}
	cl.cells = cl.cells[:n]
}

func (c *cell) reset(first *storage.Claim, claims []int) {
	c.key, c.former, c.claims = first.Key, first.Former, claims
	if cap(c.slots) > keptSlots {
		c.slots, c.state.Slots = nil, nil
	}
	c.state = limiter.State{Slots: c.state.Slots[:0]}
	c.slots = c.slots[:0]
	c.bucket = limiter.Bucket{}
}
