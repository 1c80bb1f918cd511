package memory

import (
	"context"
	"slices"

	"github.com/caddy-tally/caddy-tally/storage"
)

// changes are the clients whose records were changed, as far as they are known.
type changes struct {
	known  []storage.Client // the last of them, in order
	newest int64            // how many there were ever
}

func (c *changes) note(client storage.Client) {
	if len(c.known) == storage.MaxChanges {
		c.known = slices.Delete(c.known, 0, storage.MaxChanges/4)
	}
	c.known = append(c.known, client)
	c.newest++
}

// after returns the changes after a number.
func (c *changes) after(number int64) (changed []storage.Client, missed bool) {
	if number == c.newest {
		return nil, false
	}
	if number < 0 || number > c.newest {
		return nil, true
	}
	n := min(c.newest-number, int64(len(c.known)))
	return slices.Clone(c.known[int64(len(c.known))-n:]), n < c.newest-number
}

// News implements [storage.Watcher].
func (s *Store) News(ctx context.Context, seen storage.Seen) (news storage.News, err error) {
	err = s.with(ctx, "news", func(db *Database) error {
		news.Resets = db.resetsLocked(seen.Resets)
		news.Changed, news.Missed = db.changes.after(seen.Changes)
		news.Newest = db.changes.newest
		news.Notes, news.MoreNotes = db.notes.tell(seen.Notes)
		return nil
	})
	return news, err
}

var _ storage.Watcher = (*Store)(nil)
