package memory

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"sync"

	"github.com/caddy-tally/caddy-tally/storage/internal/rows"
)

// rowList has rows of package rows: one list for each letter that names begin with, in the order of the names. It
// has a lock of its own, so that no claim waits for it.
type rowList struct {
	mu    sync.Mutex
	lists map[byte][]row // guarded by mu, like all below
	bytes int
}

type row struct {
	name  string
	value []byte
}

// rowBytes is what a row takes beside its name and its value.
const rowBytes = 40

func (r *row) size() int { return rowBytes + len(r.name) + len(r.value) }

// maxHistory bounds the history, in bytes. At the bound, reports are not counted until rows expire.
const maxHistory = 32 << 20

// side implements [rows.Backend]. A list that takes most bytes is not changed any more.
type side struct {
	*Store
	list *rowList
	most int
}

// look runs f with the rows locked, unless the store is closed or the context is done.
func (s side) look(ctx context.Context, doing string, f func(l *rowList)) error {
	if err := s.with(ctx, doing, func(*Database) error { return nil }); err != nil {
		return err
	}
	s.list.mu.Lock()
	defer s.list.mu.Unlock()
	f(s.list)
	return nil
}

// Update implements [rows.Backend].
func (s side) Update(ctx context.Context, doing string, names []string, decide func(rows map[string][]byte)) error {
	return s.look(ctx, doing, func(l *rowList) {
		if l.bytes >= s.most {
			return
		}
		values := make(map[string][]byte, len(names))
		for _, name := range names {
			if i, found := l.findLocked(name[0], name); found {
				values[name] = l.lists[name[0]][i].value
			}
		}
		decide(values)
		for _, name := range names {
			i, found := l.findLocked(name[0], name)
			if found {
				l.deleteLocked(name[0], i, i+1)
			}
			if r := (row{name, values[name]}); len(r.value) > 0 {
				l.lists[name[0]] = slices.Insert(l.lists[name[0]], i, r)
				l.bytes += r.size()
			}
		}
	})
}

// findLocked returns the place of a name in a list.
func (l *rowList) findLocked(letter byte, name string) (index int, found bool) {
	return slices.BinarySearchFunc(l.lists[letter], name,
		func(r row, name string) int { return cmp.Compare(r.name, name) })
}

func (l *rowList) deleteLocked(letter byte, from, end int) {
	for _, r := range l.lists[letter][from:end] {
		l.bytes -= r.size()
	}
	l.lists[letter] = slices.Delete(l.lists[letter], from, end)
}

// rangeLocked returns the part of a list that is a range.
func (l *rowList) rangeLocked(r rows.Range) (from, end int) {
	from, _ = l.findLocked(r.From[0], r.From)
	end, _ = l.findLocked(r.From[0], r.End)
	return from, max(from, end)
}

// Scan implements [rows.Backend].
func (s side) Scan(ctx context.Context, doing string, r rows.Range, f func(name string, value []byte)) error {
	return s.look(ctx, doing, func(l *rowList) {
		from, end := l.rangeLocked(r)
		part := l.lists[r.From[0]][from:end]
		if r.Newest > 0 {
			part = slices.Clone(part[max(len(part)-r.Skip-r.Newest, 0):max(len(part)-r.Skip, 0)])
			slices.Reverse(part)
		}
		for _, row := range part {
			if strings.HasSuffix(row.name, r.Rest) {
				f(row.name, row.value)
			}
		}
	})
}

// Remove implements [rows.Backend].
func (s side) Remove(ctx context.Context, doing string, ranges []rows.Range, most int) (removed int, err error) {
	err = s.look(ctx, doing, func(l *rowList) {
		for _, r := range ranges {
			from, end := l.rangeLocked(r)
			end = min(end-from, most-removed) + from
			l.deleteLocked(r.From[0], from, end)
			removed += end - from
		}
	})
	return removed, err
}

// sweepRows deletes all expired rows.
func (s *Store) sweepRows(ctx context.Context, now int64) error {
	var errs []error
	for _, list := range []*rowList{&s.db.history, &s.db.acts} {
		_, err := side{s, list, 0}.Remove(ctx, "sweep", rows.Expired(now), math.MaxInt)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

var _ rows.Backend = side{}
