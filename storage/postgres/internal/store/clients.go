package store

import (
	"context"
	"errors"

	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/limiter/reputation"
	"github.com/caddy-tally/caddy-tally/storage"
	"github.com/caddy-tally/caddy-tally/storage/internal/cells"
)

// Records implements [storage.Store].
func (s *Store) Records(ctx context.Context, term *storage.Term, clients []storage.Client,
	records []reputation.Record) error {
	return s.readFor(ctx, "records", term, &batch{peek: true}, clients, records, func(*transaction) {})
}

// ClaimFor implements [storage.Network].
func (s *Store) ClaimFor(ctx context.Context, term *storage.Term, clients []storage.Client, records []reputation.Record,
	claims []storage.Claim, grants []limiter.Grant) error {
	if err := storage.CheckClaims(claims, grants); err != nil {
		return s.place.wrap("claim", err)
	}
	b := &batch{locks: locksOf(claims), peek: len(claims) == 0}
	return s.readFor(ctx, "claim", term, b, clients, records, func(tx *transaction) { decide(tx, claims, grants) })
}

// readFor runs a batch that also reads records. It locks them only if one of them must be moved from a
// former name.
func (s *Store) readFor(ctx context.Context, what string, term *storage.Term, b *batch, clients []storage.Client,
	records []reputation.Record, more func(*transaction)) error {
	if err := storage.CheckRecords(len(clients), records); err != nil {
		return s.place.wrap(what, err)
	}
	before := len(b.locks)
	b.locks = append(b.locks, locksOn("clients", clientNames(clients))...)
	reads := b.locks[before:]
	for i := range reads {
		reads[i].peek = true
	}
	b.decide = func(tx *transaction) error {
		for i, c := range clients {
			if len(reads) > 0 && reads[0].peek && tx.isMoved(c) {
				return errMoves
			}
			records[i] = tx.recordOf(c, tx.at.Now)
		}
		more(tx)
		return nil
	}
	err := s.batches.inTerm(ctx, what, term, b)
	if errors.Is(err, errMoves) {
		b.peek, reads[0].peek = false, false
		err = s.batches.inTerm(ctx, what, term, b)
	}
	return err
}

// errMoves says that a record must be moved, but is not locked.
var errMoves = errors.New("a record must be moved to another name")

// isMoved reports whether there is a record under the former name of a client.
func (tx *transaction) isMoved(c storage.Client) bool {
	return c.IsRenamed() && len(tx.rows["clients"][string(c.Former[:])].state) > 0
}

// Punish implements [storage.Store]. It also notes the changed records. One call runs at a time, so that all machines
// see the changes in the same order.
func (s *Store) Punish(ctx context.Context, term *storage.Term, offenses []storage.Offense,
	records []reputation.Record) error {
	if err := storage.CheckRecords(len(offenses), records); err != nil {
		return s.place.wrap("punish", err)
	}
	clients := make([]storage.Client, len(offenses))
	for i := range offenses {
		clients[i] = offenses[i].Client
	}
	b := &batch{locks: locksOn("clients", clientNames(clients)), alone: true}
	b.decide = func(tx *transaction) error {
		for i, o := range offenses {
			known := tx.recordOf(o.Client, o.At)
			known.Commit(o.Offense)
			tx.keepRecord(o.Key, known)
			records[i] = known
		}
		tx.noteChanges(clients)
		return nil
	}
	return s.batches.inTerm(ctx, "punish", term, b)
}

func clientNames(clients []storage.Client) (names []string) {
	for _, c := range clients {
		names = append(names, string(c.Key[:]))
		if c.IsRenamed() {
			names = append(names, string(c.Former[:]))
		}
	}
	return names
}

// recordOf returns the record of a client at a time, and moves the record under its former name.
func (tx *transaction) recordOf(c storage.Client, now int64) reputation.Record {
	known := tx.record(c.Key, now)
	if !tx.isMoved(c) {
		return known
	}
	known = known.Merge(tx.record(c.Former, now))
	tx.rows["clients"][string(c.Former[:])].state = nil
	tx.keepRecord(c.Key, known)
	return known
}

func (tx *transaction) record(key storage.Key, now int64) reputation.Record {
	r := cells.ParseRecord(tx.rows["clients"][string(key[:])].state)
	r.Clamp(now)
	return r
}

func (tx *transaction) keepRecord(key storage.Key, r reputation.Record) {
	row := tx.rows["clients"][string(key[:])]
	row.state, row.expires = cells.AppendRecord(nil, r), r.Expires()
}

// bannedPage is how many records one statement reads.
const bannedPage = 1000

// Banned implements [storage.Store]. A record expires [reputation.Probation] after its ban, so the
// server can skip most records without a ban.
func (s *Store) Banned(ctx context.Context, now int64, most int) (banned map[storage.Key]reputation.Record, err error) {
	banned = make(map[storage.Key]reputation.Record)
	page := make(result, bannedPage)
	for after := []byte(nil); len(page) == bannedPage && len(banned) < most; {
		results, err := s.chores.query(ctx, "bans",
			s.place.script().add("SELECT name, state FROM ", table("clients"), " WHERE name > ", after,
				" AND expires > ", now+int64(reputation.Probation), " ORDER BY name LIMIT ", bannedPage), 1)
		if err != nil {
			return banned, err
		}
		page = results[0]
		for _, row := range page {
			after = row[0]
			cells.AddBanned(banned, storage.Key(after), row[1], now, most)
		}
	}
	return banned, nil
}
