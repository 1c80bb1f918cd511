package engine

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/testing/bubble"
	"github.com/caddy-tally/caddy-tally/internal/testing/proof"
	"github.com/caddy-tally/caddy-tally/storage"
)

// Keys are made, changed and revoked on machines that come and go, while the store is lost, or replaced by a copy
// from before. A revoked key stays revoked on every machine, as long as one that has heard of it, or the store,
// goes on. A run that never reached one of the cases fails.
func TestRevokedNotesStayRevoked(t *testing.T) {
	reached := make(map[string]int)
	for seed := range uint64(proof.Times(8, 3000)) {
		bubble.Test(t, func(t *testing.T) {
			w := &revocations{t: t, fleet: newFleet(t, 5*time.Millisecond), rng: rand.New(rand.NewPCG(seed, 54)), limit: sliding(t, 1_000_000, time.Minute), reached: reached,
				revoked: make(map[storage.Key]bool), all: make(map[storage.Key]bool)}
			defer func() {
				if t.Failed() {
					t.Logf("with seed %d", seed)
				}
			}()
			w.run()
		})
	}
	for _, c := range []string{"revoked", "lost", "copied", "cut off", "restarted", "changed late", "known to one machine only"} {
		if reached[c] == 0 {
			t.Errorf("%q was never reached; reached %v", c, reached)
		}
	}
}

type revocations struct {
	t       *testing.T
	fleet   *fleet
	rng     *rand.Rand
	reached map[string]int
	readers []*reader
	copied  *fleetDisk           // the store of some time before; nil if there is none
	all     map[storage.Key]bool // keys that were made
	revoked map[storage.Key]bool // those that were, while somebody knows
	made    int
	limit   *Limit
}

func (w *revocations) run() {
	for range 3 {
		w.readers = append(w.readers, startReader(w.fleet))
	}
	defer func() {
		for _, r := range w.readers {
			if err := r.Close(context.Background()); err != nil {
				w.t.Error(err)
			}
		}
	}()
	for range 40 {
		w.step(w.readers[w.rng.IntN(len(w.readers))])
		for _, r := range w.readers { // a machine without writes wouldn't notice a copy of the store
			r.ask(debit(w.limit, "k", 1))
		}
		w.forget()
		time.Sleep(time.Duration(w.rng.IntN(1500)) * time.Millisecond)
		w.forget()
	}
	for _, r := range w.readers {
		r.dead.Store(false)
	}
	for range 60 {
		hearNews()
	}
	w.check()
}

func (w *revocations) step(r *reader) {
	switch w.rng.IntN(14) {
	case 0, 1, 2:
		w.made++
		n := noteOf(fmt.Sprintf("key %d", w.made), "free")
		if r.PutNotes(w.t.Context(), []storage.Note{n}) == nil {
			w.all[n.Name] = true
		}
	case 3, 4, 5:
		w.change(r, func(n *storage.Note) error {
			n.Value, n.Until = nil, r.Now()+int64(7*24*time.Hour)
			err := r.PutNotes(w.t.Context(), []storage.Note{*n})
			if err == nil {
				w.revoked[n.Name] = true
				w.reached["revoked"]++
			}
			return err
		})
	case 6, 7:
		w.change(r, func(n *storage.Note) error {
			if w.revoked[n.Name] {
				w.reached["changed late"]++
			}
			n.Value, n.Version = []byte("pro"), n.Version+1
			return r.ReplaceNotes(w.t.Context(), []storage.Note{*n})
		})
	case 8, 9:
		if cut := !r.dead.Load(); cut {
			r.committer.degrade(errDisk)
			r.dead.Store(true)
			w.reached["cut off"]++
		} else {
			r.dead.Store(false)
		}
	case 10, 11, 12:
		w.replaceStore()
	case 13:
		if r.dead.Load() {
			return
		}
		if err := r.Close(context.Background()); err != nil {
			w.t.Error(err)
		}
		w.readers[slices.Index(w.readers, r)] = startReader(w.fleet)
		w.reached["restarted"]++
	}
}

// change changes a key that a machine knows.
func (w *revocations) change(r *reader, do func(n *storage.Note) error) {
	r.mu.Lock()
	known := slices.DeleteFunc(slices.SortedFunc(maps.Values(r.notes), func(a, b storage.Note) int { return slices.Compare(a.Name[:], b.Name[:]) }),
		func(n storage.Note) bool { return len(n.Value) == 0 })
	r.mu.Unlock()
	if len(known) > 0 {
		_ = do(&known[w.rng.IntN(len(known))]) // an outage: nothing has changed
	}
}

// replaceStore loses the data of the store, or notes a copy, or brings the copy back. Machines notice a copy by
// writes of their own that are lost, so all are connected then.
func (w *revocations) replaceStore() {
	w.fleet.mu.Lock()
	defer w.fleet.mu.Unlock()
	from := w.fleet.disk.Load()
	switch w.rng.IntN(3) {
	case 0:
		w.fleet.disk.Store(newFleetDisk())
		w.reached["lost"]++
	case 1:
		w.copied = newFleetDisk()
		w.copied.db.Store(from.db.Load().Clone())
		w.copied.names, w.copied.numbers = maps.Clone(from.names), maps.Clone(from.numbers)
	default:
		if w.copied != nil && !slices.ContainsFunc(w.readers, func(r *reader) bool { return r.dead.Load() || r.committer.degraded.Load() }) {
			w.fleet.disk.Store(w.copied)
			w.copied = nil
			w.reached["copied"]++
		}
	}
}

// forget exempts keys that nobody knows to be revoked any more.
func (w *revocations) forget() {
	raw := w.fleet.disk.Load().raw()
	defer raw.Close()
	news := mustTell(w.t, raw)
	for name := range w.revoked {
		knows := 0
		if slices.ContainsFunc(news, func(n storage.Note) bool { return n.Name == name && len(n.Value) == 0 }) {
			knows = 2
		}
		for _, r := range w.readers {
			r.mu.Lock()
			if n, ok := r.notes[name]; ok && len(n.Value) == 0 {
				knows++
			}
			r.mu.Unlock()
		}
		switch knows {
		case 0:
			delete(w.revoked, name)
		case 1:
			w.reached["known to one machine only"]++
		}
	}
}

func (w *revocations) check() {
	for i, r := range w.readers {
		r.mu.Lock()
		for name := range w.revoked {
			if n := r.notes[name]; len(n.Value) > 0 {
				w.t.Errorf("machine %d knows %s again, as %q", i, name[:], n.Value)
			}
		}
		for name := range w.all {
			if one, other := r.notes[name].Value, w.readers[0].notes[name].Value; string(one) != string(other) {
				w.t.Errorf("machine %d has %q for %s, machine 0 has %q", i, one, name[:], other)
			}
		}
		r.mu.Unlock()
	}
}
