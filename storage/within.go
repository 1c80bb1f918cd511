package storage

import (
	"context"
	"fmt"

	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/limiter/reputation"
)

// InTerm has the calls of a [Store] that a term bounds. If the term is nil, they use the time in their
// arguments. They needn't check them: claims have limits, and each call has room for all its answers.
type InTerm struct {
	Claim   func(ctx context.Context, term *Term, claims []Claim, grants []limiter.Grant) error
	Records func(ctx context.Context, term *Term, clients []Client, now int64, records []reputation.Record) error
	Punish  func(ctx context.Context, term *Term, offenses []Offense, records []reputation.Record) error
	Sweep   func(ctx context.Context, term *Term, now int64) (Swept, error)
}

// Calls implements these calls for a store that embeds it; see [Within].
type Calls struct {
	name string // of the store
	in   InTerm
	term *Term
}

// NewCalls returns the calls of a store. Its name begins their errors.
func NewCalls(name string, in InTerm) Calls { return Calls{name: name, in: in} }

// Claim implements [Store].
func (c Calls) Claim(ctx context.Context, claims []Claim, grants []limiter.Grant) error {
	if err := CheckClaims(claims, grants); err != nil {
		return fmt.Errorf("%s: claim: %w", c.name, err)
	}
	return c.in.Claim(ctx, c.term, claims, grants)
}

// Records implements [Store].
func (c Calls) Records(ctx context.Context, clients []Client, now int64, records []reputation.Record) error {
	if len(clients) != len(records) {
		return fmt.Errorf("%s: records: %d clients need as many records, got %d", c.name, len(clients), len(records))
	}
	return c.in.Records(ctx, c.term, clients, now, records)
}

// Punish implements [Store].
func (c Calls) Punish(ctx context.Context, offenses []Offense, records []reputation.Record) error {
	if len(offenses) != len(records) {
		return fmt.Errorf("%s: punish: %d offenses need as many records, got %d", c.name, len(offenses), len(records))
	}
	return c.in.Punish(ctx, c.term, offenses, records)
}

// Sweep implements [Store].
func (c Calls) Sweep(ctx context.Context, now int64) (Swept, error) {
	return c.in.Sweep(ctx, c.term, now)
}

// Within returns a store with its calls within a term.
func Within(s Store, c Calls, term *Term) Store {
	c.term = term
	return within{others{s}, c}
}

// within is a store whose calls are within a term. The methods of Calls hide those of the store, which are embedded
// one level deeper.
type (
	within struct {
		others
		Calls
	}
	others struct{ Store }
)

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
