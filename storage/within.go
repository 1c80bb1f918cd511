package storage

import (
	"context"
	"fmt"

	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/limiter/reputation"
)

// Calls are the methods of a [Store] that a term bounds. If term is nil, they use the time in their
// arguments. It helps to implement [Store.Within].
type Calls struct {
	Claim   func(ctx context.Context, term *Term, claims []Claim, grants []limiter.Grant) error
	Records func(ctx context.Context, term *Term, clients []Client, now int64, records []reputation.Record) error
	Punish  func(ctx context.Context, term *Term, offenses []Offense, records []reputation.Record) error
	Sweep   func(ctx context.Context, term *Term, now int64) (Swept, error)
}

// Within returns a store with its calls within a term.
func (c *Calls) Within(s Store, term *Term) Store { return within{s, c, term} }

// within is a store whose calls are within a term.
type within struct {
	Store
	calls *Calls
	term  *Term
}

func (w within) Claim(ctx context.Context, claims []Claim, grants []limiter.Grant) error {
	return w.calls.Claim(ctx, w.term, claims, grants)
}

func (w within) Records(ctx context.Context, clients []Client, now int64, records []reputation.Record) error {
	return w.calls.Records(ctx, w.term, clients, now, records)
}

func (w within) Punish(ctx context.Context, offenses []Offense, records []reputation.Record) error {
	return w.calls.Punish(ctx, w.term, offenses, records)
}

func (w within) Sweep(ctx context.Context, now int64) (Swept, error) {
	return w.calls.Sweep(ctx, w.term, now)
}

// CheckClaims returns an error if a batch is malformed: there isn't one grant for each claim, or a
// claim has no limit.
func CheckClaims(claims []Claim, grants []limiter.Grant) error {
	if len(claims) != len(grants) {
		return fmt.Errorf("%d claims need as many grants, got %d", len(claims), len(grants))
	}
	for i := range claims {
		if claims[i].Limit.Amount() == 0 {
			return fmt.Errorf("claim %d has no limit", i)
		}
	}
	return nil
}
