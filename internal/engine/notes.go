package engine // fleet

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/caddy-tally/caddy-tally/storage"
)

// notes are the notes of a store ([storage.Note]), shared by all machines on it, as far as
// memory knows them. Only the poller's goroutine uses them.
//
// Memory keeps them while the store can't be used. A store that doesn't continue the previous one
// may have lost its data. It is given the notes of memory, and then returns all of its own.
type notes struct {
	known map[storage.Key]storage.Note // including the removed ones
	from  storage.Store                // the store that was given them and asked for all of its own; nil if none was
	seen  int64                        // the number of the last change returned by the store
	anew  map[storage.Key]storage.Note // the notes returned since all were requested; nil once all have come
	read  int64                        // when all changes were last read
}

func newNotes(known []storage.Note) notes {
	n := notes{known: make(map[storage.Key]storage.Note, len(known))}
	for _, note := range known {
		n.known[note.Name] = note
	}
	return n
}

// errNoNotes says that the store keeps no notes.
var errNoNotes = errors.New("this store keeps no notes")

const (
	// readAllAfter is the time without news after which all notes are read again. The store may no
	// longer know that some of them were removed.
	readAllAfter = 24 * time.Hour
	// replayedNotes is how many notes are given at once to a store that may have lost them.
	replayedNotes = 250
)

// PutNotes puts notes into the store, all or none. When it returns nil, this process knows them,
// and all machines on the store will within a second. The version of a note is the caller's or a
// later one. After an error that wraps [storage.ErrUnknownOutcome] the notes may have been put, and
// can be put again. If ctx ends first, they are put in the background.
func (e *Engine) PutNotes(ctx context.Context, notes []storage.Note) error {
	return e.committer.poller.run(ctx, notes, (*poller).put)
}

// ReplaceNotes puts notes into the store that replace known notes by another form of the same
// content. Each takes effect only if its version is higher than the one in the store, so that
// changes by others stay. This process receives them with the news.
func (e *Engine) ReplaceNotes(ctx context.Context, notes []storage.Note) error {
	return e.committer.poller.run(ctx, notes, (*poller).replace)
}

// run calls do with copies of notes, on the poller's goroutine.
func (p *poller) run(ctx context.Context, notes []storage.Note, do func(*poller, []storage.Note) error) error {
	own := slices.Clone(notes)
	t := newTask(func() error { return do(p, own) })
	select {
	case p.tasks <- t:
	case <-p.done:
		return ErrUnavailable
	case <-ctx.Done():
		return ctx.Err()
	}
	return t.wait(ctx)
}

// put puts notes into the store, each as the latest version.
func (p *poller) put(notes []storage.Note) error {
	for i := range notes {
		n := &notes[i]
		n.Version = max(n.Version, p.committer.clock.Now()/1000, p.notes.known[n.Name].Version+1)
	}
	err := p.write(notes, false)
	if err == nil {
		p.learn(notes)
	}
	return err
}

// replace puts notes into the store, except those older than its own or of the same version.
func (p *poller) replace(notes []storage.Note) error { return p.write(notes, true) }

// write puts notes into the store, which sets their versions.
func (p *poller) write(notes []storage.Note, replay bool) error {
	m := p.committer
	store := m.conn.store.Load()
	if store == nil || m.degraded.Load() {
		return ErrUnavailable
	}
	if store.network == nil {
		return errNoNotes
	}
	ctx, cancel := m.conn.call()
	defer cancel()
	err := store.network.PutNotes(ctx, notes, replay)
	if err != nil && !errors.Is(err, storage.ErrNotesFull) {
		m.degrade(err)
	}
	return err
}

// learn stores the changes that are newer than the known notes, and reports them.
func (p *poller) learn(changed []storage.Note) {
	fresh := make([]storage.Note, 0, len(changed))
	for _, n := range changed {
		if n.Version > p.notes.known[n.Name].Version {
			p.notes.known[n.Name] = n
			fresh = append(fresh, n)
		}
	}
	if len(fresh) > 0 {
		p.committer.opts.Noted(fresh, false)
	}
}

// notesSeen returns the number of the last known change, as the start of a request for notes, or -1
// if the store isn't asked. It writes the known notes to a store that may not have them.
func (p *poller) notesSeen(store storage.Network) int64 {
	if p.committer.opts.Noted == nil {
		return -1
	}
	n, now := &p.notes, p.committer.clock.Now()
	switch {
	case n.from == nil || n.from != store && !store.Continues(n.from):
		if p.replay(store) != nil {
			return -1 // the next request tries again
		}
		n.seen, n.anew = 0, make(map[storage.Key]storage.Note)
	case now-n.read > int64(readAllAfter):
		n.seen, n.anew = 0, make(map[storage.Key]storage.Note)
	}
	n.from = store
	return n.seen
}

// replay writes the known notes to a store. If the store is full, memory adopts the store's notes.
func (p *poller) replay(store storage.Network) error {
	now, known := p.committer.clock.Now(), make([]storage.Note, 0, len(p.notes.known))
	for _, n := range p.notes.known {
		if !n.IsOver(now) {
			known = append(known, n)
		}
	}
	for some := range slices.Chunk(known, replayedNotes) {
		if isClosed(p.stop) {
			return errNotSent
		}
		ctx, cancel := p.committer.conn.call()
		err := store.PutNotes(ctx, some, true)
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

// takeNotes takes notes from the store's answer, and requests the rest.
func (p *poller) takeNotes(store storage.Network, news storage.News) {
	for n := &p.notes; ; {
		for _, note := range news.Notes {
			n.seen = note.Number
			if n.anew != nil {
				n.anew[note.Name] = note
			}
		}
		if n.anew == nil {
			p.learn(news.Notes)
		}
		if !news.MoreNotes {
			break
		}
		ctx, cancel := p.committer.conn.call()
		var err error
		news, err = store.News(ctx, storage.Seen{Resets: p.committer.conn.resets.Load(), Changes: -1, Notes: n.seen})
		cancel()
		if err != nil || isClosed(p.stop) {
			return // the next request continues
		}
	}
	p.haveRead()
}

// haveRead notes that all changes are read. After a request for all notes it drops the known notes
// that the store didn't return.
func (p *poller) haveRead() {
	n := &p.notes
	n.read = p.committer.clock.Now()
	if n.anew == nil {
		return
	}
	n.known, n.anew = n.anew, nil
	p.committer.opts.Noted(slices.Collect(maps.Values(n.known)), true)
}

// forgetNotes forgets the notes that are over for long enough.
func (p *poller) forgetNotes() {
	over := p.committer.clock.Now() - int64(storage.KeepNotes)
	for name, n := range p.notes.known {
		if n.IsOver(over) {
			delete(p.notes.known, name)
		}
	}
}
