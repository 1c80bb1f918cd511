package engine

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/caddy-tally/caddy-tally/storage"
)

// notes is what memory knows of the notes of a store ([storage.Notebook]), which all machines that
// share it know. It belongs to the newsroom's goroutine.
//
// What is known stays known while the store can't be used. A store that doesn't continue the one
// before is told of it, because it may have lost its data, and then says what there is.
type notes struct {
	known map[storage.Key]storage.Note // those that were removed among them
	from  storage.Store                // that was told of them and asked for all; nil if none was
	seen  int64                        // the number of the last change that it told
	anew  map[storage.Key]storage.Note // what it has told since it was asked for all; nil if that is done
	read  int64                        // when all that was changed was read last
}

func newNotes(known []storage.Note) notes {
	n := notes{known: make(map[storage.Key]storage.Note, len(known))}
	for _, note := range known {
		n.known[note.Name] = note
	}
	return n
}

// ErrNoNotes says that the store keeps no notes.
var ErrNoNotes = errors.New("this store keeps no notes")

const (
	// readAllAfter is after how long without news all notes are read again: of some it may not be
	// known any more that they were removed.
	readAllAfter = 24 * time.Hour
	// replayedNotes is how many notes a store is told at once of those that it may have lost.
	replayedNotes = 250
)

// PutNotes puts notes into the store, all or none. When it returns nil, this process knows them,
// and all that share the store do within a second. The version of a note is that of the caller or a
// later one. After an error that wraps [storage.ErrUnknownOutcome] the notes may have been put, and
// can be put again. If ctx ends first, they are put in the background.
func (e *Engine) PutNotes(ctx context.Context, notes []storage.Note) error {
	return e.committer.newsroom.order(ctx, notes, (*newsroom).put)
}

// ReplaceNotes puts notes into the store that say in another way what notes said that this process
// knows. Each takes effect only if its version is higher than the one in the store: what others have
// changed meanwhile stays. This process hears of them with the news.
func (e *Engine) ReplaceNotes(ctx context.Context, notes []storage.Note) error {
	return e.committer.newsroom.order(ctx, notes, (*newsroom).replace)
}

// order calls do with copies of notes, on the goroutine of the newsroom.
func (w *newsroom) order(ctx context.Context, notes []storage.Note, do func(*newsroom, []storage.Note) error) error {
	own := slices.Clone(notes)
	o := newOrder(func() error { return do(w, own) })
	select {
	case w.orders <- o:
	case <-w.done:
		return ErrUnavailable
	case <-ctx.Done():
		return ctx.Err()
	}
	return o.wait(ctx)
}

// put puts notes into the store, each as the latest version.
func (w *newsroom) put(notes []storage.Note) error {
	for i := range notes {
		n := &notes[i]
		n.Version = max(n.Version, w.committer.clock.now()/1000, w.notes.known[n.Name].Version+1)
	}
	err := w.write(notes, false)
	if err == nil {
		w.learn(notes)
	}
	return err
}

// replace puts notes into the store that has none of the same or a later version.
func (w *newsroom) replace(notes []storage.Note) error { return w.write(notes, true) }

// write puts notes into the store, which sets their versions.
func (w *newsroom) write(notes []storage.Note, replay bool) error {
	m := w.committer
	store := m.conn.store.Load()
	if store == nil || m.degraded.Load() {
		return ErrUnavailable
	}
	book, ok := store.Store.(storage.Notebook)
	if !ok {
		return ErrNoNotes
	}
	ctx, cancel := m.conn.call()
	defer cancel()
	err := book.PutNotes(ctx, notes, replay)
	if err != nil && !errors.Is(err, storage.ErrNotesFull) {
		m.degrade(err)
	}
	return err
}

// learn notes changes that are later than what is known, and reports them.
func (w *newsroom) learn(changed []storage.Note) {
	fresh := make([]storage.Note, 0, len(changed))
	for _, n := range changed {
		if n.Version > w.notes.known[n.Name].Version {
			w.notes.known[n.Name] = n
			fresh = append(fresh, n)
		}
	}
	if len(fresh) > 0 {
		w.committer.opts.Noted(fresh, false)
	}
}

// notesSeen returns the number after which a store is asked for notes, or -1 if it isn't. It tells
// the store what is known unless that is from there.
func (w *newsroom) notesSeen(store storage.Store) int64 {
	book, ok := store.(storage.Notebook)
	if !ok || w.committer.opts.Noted == nil {
		return -1
	}
	n, now := &w.notes, w.committer.clock.now()
	switch {
	case n.from == nil || n.from != store && !store.Continues(n.from):
		if w.replay(book) != nil {
			return -1 // the next question tries it again
		}
		n.seen, n.anew = 0, make(map[storage.Key]storage.Note)
	case now-n.read > int64(readAllAfter):
		n.seen, n.anew = 0, make(map[storage.Key]storage.Note)
	}
	n.from = store
	return n.seen
}

// replay tells a store what is known. If that is more than it keeps, memory goes by what it keeps.
func (w *newsroom) replay(book storage.Notebook) error {
	now, known := w.committer.clock.now(), make([]storage.Note, 0, len(w.notes.known))
	for _, n := range w.notes.known {
		if !n.IsOver(now) {
			known = append(known, n)
		}
	}
	for some := range slices.Chunk(known, replayedNotes) {
		if isClosed(w.stop) {
			return errNotSent
		}
		ctx, cancel := w.committer.conn.call()
		err := book.PutNotes(ctx, some, true)
		cancel()
		if errors.Is(err, storage.ErrNotesFull) {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// takeNotes takes what the store has told, and asks it for the rest.
func (w *newsroom) takeNotes(store storage.Store, news storage.News) {
	for n := &w.notes; ; {
		for _, told := range news.Notes {
			n.seen = told.Number
			if n.anew != nil {
				n.anew[told.Name] = told
			}
		}
		if n.anew == nil {
			w.learn(news.Notes)
		}
		if !news.MoreNotes {
			break
		}
		ctx, cancel := w.committer.conn.call()
		var err error
		news, err = store.(storage.Watcher).News(ctx, storage.Seen{Resets: w.committer.conn.resets.Load(), Changes: -1, Notes: n.seen})
		cancel()
		if err != nil || isClosed(w.stop) {
			return // the next question goes on
		}
	}
	w.haveRead()
}

// haveRead notes that all that was changed is read. If all was asked for, what the store didn't
// tell is over.
func (w *newsroom) haveRead() {
	n := &w.notes
	n.read = w.committer.clock.now()
	if n.anew == nil {
		return
	}
	n.known, n.anew = n.anew, nil
	all := make([]storage.Note, 0, len(n.known))
	for _, note := range n.known {
		all = append(all, note)
	}
	w.committer.opts.Noted(all, true)
}

// forgetNotes forgets the notes that nobody needs any more.
func (w *newsroom) forgetNotes() {
	over := w.committer.clock.now() - int64(storage.KeepNotes)
	for name, n := range w.notes.known {
		if n.IsOver(over) {
			delete(w.notes.known, name)
		}
	}
}
