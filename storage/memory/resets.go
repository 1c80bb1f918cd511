package memory

import (
	"context"
	"slices"

	"github.com/caddy-tally/caddy-tally/storage"
)

// Reset implements [storage.Store].
func (s *Store) Reset(ctx context.Context, term *storage.Term, resets []storage.Reset) error {
	return s.with(ctx, "reset", func(db *Database) error {
		at, err := s.enterLocked(term, 0)
		if err != nil {
			return err
		}
		for i := range resets {
			db.resetLocked(&resets[i], at)
		}
		s.told.Resets, term.Time.Resets = db.clock.Resets, db.clock.Resets
		return nil
	})
}

// resetLocked does a reset and notes it, unless it is noted already.
func (db *Database) resetLocked(of *storage.Reset, at storage.Time) {
	if i := slices.IndexFunc(db.resets, func(r storage.Reset) bool { return r.ID == of.ID }); i >= 0 {
		of.Number, of.At, of.Found = db.resets[i].Number, db.resets[i].At, db.resets[i].Found
		return
	}
	db.clock.Resets++
	of.Number, of.At = db.clock.Resets, at.Now-at.Shift
	of.Found = db.forgetLocked(of, of.Key)
	if of.Former != (storage.Key{}) {
		of.Found = db.forgetLocked(of, of.Former) || of.Found
	}
	if len(db.resets) == storage.MaxResets {
		db.resets = slices.Delete(db.resets, 0, 1)
	}
	db.resets = append(db.resets, *of)
}

// forgetLocked removes what a reset is of under one name, and reports whether there was
// something.
func (db *Database) forgetLocked(of *storage.Reset, name storage.Key) (found bool) {
	sh := db.shardOf(name)
	if of.Client {
		_, found = sh.clients[name]
		db.dropLocked(name)
		return found
	}
	at := stateKey{of.Limit, name}
	_, found = sh.states[at]
	db.removeLocked(at)
	return found
}

// Resets implements [storage.Store].
func (s *Store) Resets(ctx context.Context, after int64) (known storage.Resets, err error) {
	err = s.with(ctx, "resets", func(db *Database) error {
		known = db.resetsLocked(after)
		return nil
	})
	return known, err
}

// resetsLocked returns the resets after a number.
func (db *Database) resetsLocked(after int64) (known storage.Resets) {
	known.Newest = db.clock.Resets
	for _, r := range db.resets {
		if r.Number > after {
			known.List = append(known.List, r)
		}
	}
	known.Lost = int64(len(known.List)) != known.Newest-after
	return known
}

// sweepResetsLocked drops obsolete notes.
func (db *Database) sweepResetsLocked(at storage.Time) {
	until := at.Now - at.Shift - int64(storage.KeepResets)
	db.resets = slices.DeleteFunc(db.resets, func(r storage.Reset) bool { return r.At <= until })
}
