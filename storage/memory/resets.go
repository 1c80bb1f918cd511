package memory

import (
	"context"
	"slices"

	"github.com/caddy-tally/caddy-tally/storage"
)

// Reset implements [storage.Store].
func (s *Store) Reset(ctx context.Context, term *storage.Term, resets []storage.Reset) error {
	return s.with(ctx, "reset", func(db *Database) error {
		t, err := s.enterLocked(term)
		if err != nil {
			return err
		}
		for i := range resets {
			db.resetLocked(&resets[i], t)
		}
		s.last.Resets, term.Time.Resets = db.clock.Resets, db.clock.Resets
		return nil
	})
}

// resetLocked performs and notes a reset, unless it is noted already.
func (db *Database) resetLocked(reset *storage.Reset, t storage.Time) {
	if i := slices.IndexFunc(db.resets, func(r storage.Reset) bool { return r.ID == reset.ID }); i >= 0 {
		reset.Number, reset.At, reset.Found = db.resets[i].Number, db.resets[i].At, db.resets[i].Found
		return
	}
	db.clock.Resets++
	reset.Number, reset.At = db.clock.Resets, t.Now-t.Shift
	reset.Found = db.forgetLocked(reset, reset.Key)
	if reset.Former != (storage.Key{}) {
		reset.Found = db.forgetLocked(reset, reset.Former) || reset.Found
	}
	if len(db.resets) == storage.MaxResets {
		db.resets = slices.Delete(db.resets, 0, 1)
	}
	db.resets = append(db.resets, *reset)
}

// forgetLocked removes the state or record of a reset under one name, and reports whether there was one.
func (db *Database) forgetLocked(reset *storage.Reset, name storage.Key) (found bool) {
	sh := db.shardOf(name)
	if reset.Client {
		_, found = sh.clients[name]
		db.dropLocked(name)
		return found
	}
	owner := stateKey{reset.Limit, name}
	_, found = sh.states[owner]
	db.removeLocked(owner)
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

// sweepResetsLocked drops old resets.
func (db *Database) sweepResetsLocked(t storage.Time) {
	until := t.Now - t.Shift - int64(storage.KeepResets)
	db.resets = slices.DeleteFunc(db.resets, func(r storage.Reset) bool { return r.At <= until })
}
