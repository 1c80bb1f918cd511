package sqlstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/caddy-tally/caddy-tally/limiter/reputation"
	"github.com/caddy-tally/caddy-tally/storage"
	"github.com/caddy-tally/caddy-tally/storage/internal/cells"
)

// Records implements [storage.Store].
func (s *Store) Records(ctx context.Context, clients []storage.Client, now int64, records []reputation.Record) error {
	return s.records(ctx, nil, clients, now, records)
}

// records reads what is known of clients. Only where something is known under a former name, it
// writes as well.
func (s *Store) records(ctx context.Context, term *storage.Term, clients []storage.Client, now int64, records []reputation.Record) error {
	if len(clients) != len(records) {
		return s.place.wrap("records", fmt.Errorf("%d clients need as many records, got %d", len(clients), len(records)))
	}
	if len(clients) == 0 && term == nil {
		return s.place.wrap("records", ctx.Err())
	}
	b := &batch{term: term, now: now, locks: locksOn("clients", clientNames(clients)), peek: true}
	b.decide = func(tx *transaction) error {
		for i, c := range clients {
			if tx.peek && c.Former != (storage.Key{}) && len(tx.rows["clients"][string(c.Former[:])].state) > 0 {
				return errMoves
			}
			records[i] = tx.recordOf(c, tx.at.Now)
		}
		return nil
	}
	err := s.transact(ctx, "records", b)
	if errors.Is(err, errMoves) {
		b.peek = false
		err = s.transact(ctx, "records", b)
	}
	return err
}

// errMoves says that records are to be moved to another name.
var errMoves = errors.New("records are to be moved")

// Punish implements [storage.Store].
func (s *Store) Punish(ctx context.Context, offenses []storage.Offense, records []reputation.Record) error {
	return s.punish(ctx, nil, offenses, records)
}

func (s *Store) punish(ctx context.Context, term *storage.Term, offenses []storage.Offense, records []reputation.Record) error {
	if len(offenses) != len(records) {
		return s.place.wrap("punish", fmt.Errorf("%d offenses need as many records, got %d", len(offenses), len(records)))
	}
	if len(offenses) == 0 && term == nil {
		return s.place.wrap("punish", ctx.Err())
	}
	clients := make([]storage.Client, len(offenses))
	for i := range offenses {
		clients[i] = offenses[i].Client
	}
	return s.transact(ctx, "punish", &batch{term: term, locks: locksOn("clients", clientNames(clients)), decide: func(tx *transaction) error {
		for i, o := range offenses {
			known := tx.recordOf(o.Client, o.At)
			known.Commit(o.Offense)
			tx.keepRecord(o.Key, known)
			records[i] = known
		}
		return nil
	}})
}

func clientNames(clients []storage.Client) (names []string) {
	for _, c := range clients {
		names = append(names, string(c.Key[:]))
		if c.Former != (storage.Key{}) {
			names = append(names, string(c.Former[:]))
		}
	}
	return names
}

// recordOf returns what is known of a client at a time, and moves what is kept under its former
// name.
func (tx *transaction) recordOf(c storage.Client, now int64) reputation.Record {
	known, _ := tx.record(c.Key, now)
	if c.Former == (storage.Key{}) || c.Former == c.Key {
		return known
	}
	former, found := tx.record(c.Former, now)
	if !found {
		return known
	}
	known = known.Merge(former)
	tx.rows["clients"][string(c.Former[:])].state = nil
	tx.keepRecord(c.Key, known)
	return known
}

func (tx *transaction) record(key storage.Key, now int64) (r reputation.Record, found bool) {
	kept := tx.rows["clients"][string(key[:])].state
	r = cells.ParseRecord(kept)
	r.Clamp(now)
	return r, len(kept) > 0
}

func (tx *transaction) keepRecord(key storage.Key, r reputation.Record) {
	to := tx.rows["clients"][string(key[:])]
	to.state, to.expires = cells.AppendRecord(nil, r), r.Expires()
}
