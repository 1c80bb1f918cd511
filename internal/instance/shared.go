package instance

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddy-tally/caddy-tally/identity"
	"github.com/caddy-tally/caddy-tally/identity/apikeys"
	"github.com/caddy-tally/caddy-tally/internal/rules"
	"github.com/caddy-tally/caddy-tally/storage"
)

// SharedRules are the operators' statements in a store that several machines share. Each is a
// note there: its name is a keyed hash of what it is about, and its value the line that a rules file
// would have, sealed. So who reads the store learns no address.
//
// Those that are known hold while the store can't be used, and another instance on the same store
// begins with them.
//
// API keys in the store are such notes as well, see [sharedKey].
type SharedRules struct {
	instance *Instance
	Set      atomic.Pointer[rules.Set]   // of those in force; nil if there were never any
	Keys     atomic.Pointer[apikeys.Set] // of API keys; nil before the store was read

	mu    sync.Mutex
	notes map[storage.Key]storage.Note    // guarded by mu, like all below: as the store has them
	known map[storage.Key]rules.Statement // what they say
	api   map[storage.Key]apikeys.Stored  // those of API keys say
	older map[storage.Key]bool            // are sealed under an older line of the secret
	hear  map[any]func()                  // called after changes, by who wants to hear of them
}

// take takes notes as the engine tells them, and returns how many of them can't be read.
func (s *SharedRules) take(sealer *identity.Sealer, notes []storage.Note, all bool) (unread int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if all || s.notes == nil {
		s.notes, s.known, s.older = make(map[storage.Key]storage.Note), make(map[storage.Key]rules.Statement), make(map[storage.Key]bool)
		s.api = make(map[storage.Key]apikeys.Stored)
	}
	for _, n := range notes {
		s.notes[n.Name] = n
		s.forgetLocked(n.Name)
		if len(n.Value) == 0 {
			continue
		}
		line, inUse, ok := sealer.Open(string(n.Name[:]), n.Value)
		if !ok || s.learnLocked(n.Name, string(line)) != nil {
			unread++
			continue
		}
		if !inUse {
			s.older[n.Name] = true
		}
	}
	s.collectLocked()
	return unread
}

// learnLocked takes what a note says.
func (s *SharedRules) learnLocked(name storage.Key, line string) (err error) {
	if key, ok := strings.CutPrefix(line, keyNote); ok {
		stored, err := apikeys.ParseStored(key)
		if err == nil {
			s.api[name] = stored
		}
		return err
	}
	stated, err := rules.ParseStatement(line)
	if err == nil {
		s.known[name] = stated
	}
	return err
}

// forgetLocked forgets what a note has said.
func (s *SharedRules) forgetLocked(name storage.Key) {
	delete(s.known, name)
	delete(s.api, name)
	delete(s.older, name)
}

// collectLocked makes the set of what is in force, and forgets what has ended.
func (s *SharedRules) collectLocked() {
	now := time.Now()
	for name, n := range s.notes {
		if n.IsOver(now.UnixNano() - int64(storage.KeepNotes)) {
			delete(s.notes, name)
			s.forgetLocked(name)
		}
	}
	s.Set.Store(rules.NewSet(slices.Collect(maps.Values(s.known))))
	s.Keys.Store(apikeys.SetOf(slices.Collect(maps.Values(s.api))))
}

// tell tells those who hear of changes that there were some.
func (s *SharedRules) tell() {
	s.mu.Lock()
	hear := slices.Collect(maps.Values(s.hear))
	s.mu.Unlock()
	for _, f := range hear {
		f()
	}
}

// Follow has who hear of changes, or not any more if f is nil.
func (s *SharedRules) Follow(who any, f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.hear == nil {
		s.hear = make(map[any]func())
	}
	if s.hear[who] = f; f == nil {
		delete(s.hear, who)
	}
}

// allNotes returns all that is known, as notes.
func (s *SharedRules) allNotes() []storage.Note {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Values(s.notes))
}

// Begin takes what another instance knows, unless the store has told already what there is.
func (s *SharedRules) begin(other *SharedRules) {
	if other == nil {
		return
	}
	other.mu.Lock()
	notes, known, older, set := maps.Clone(other.notes), maps.Clone(other.known), maps.Clone(other.older), other.Set.Load()
	api, keys := maps.Clone(other.api), other.Keys.Load()
	other.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.notes == nil && notes != nil {
		s.notes, s.known, s.older, s.api = notes, known, older, api
		s.Set.Store(set)
		s.Keys.Store(keys)
	}
}

// List returns the statements that have not ended, in the order of their lines.
func (s *SharedRules) List() (list []rules.Statement) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	for _, stated := range s.known {
		if stated.Until.IsZero() || now.Before(stated.Until) {
			list = append(list, stated)
		}
	}
	slices.SortFunc(list, func(a, b rules.Statement) int { return strings.Compare(a.String(), b.String()) })
	return list
}

// foundStatement is a statement as the store has it.
type foundStatement struct {
	rules.Statement
	version int64 // of its note
	older   bool  // it is sealed under an older line of the secret
}

// Find returns the names of the statements about a target with an action, or with any if it is 0,
// and what they say.
func (s *SharedRules) Find(action rules.Action, target rules.Target) map[storage.Key]foundStatement {
	s.mu.Lock()
	defer s.mu.Unlock()
	found := make(map[storage.Key]foundStatement)
	for name, stated := range s.known {
		if stated.Target == target && (action == 0 || action == stated.Action) {
			found[name] = s.foundLocked(name)
		}
	}
	return found
}

// countOlder returns how many notes are sealed under an older line of the secret.
func (s *SharedRules) countOlder() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.older)
}

// someOlder returns some of the statements that are sealed under an older line of the secret.
func (s *SharedRules) someOlder(most int) map[storage.Key]foundStatement {
	s.mu.Lock()
	defer s.mu.Unlock()
	found := make(map[storage.Key]foundStatement)
	for name := range s.older {
		if len(found) == most {
			break
		}
		if _, ok := s.known[name]; ok {
			found[name] = s.foundLocked(name)
		}
	}
	return found
}

func (s *SharedRules) foundLocked(name storage.Key) foundStatement {
	return foundStatement{s.known[name], s.notes[name].Version, s.older[name]}
}

// Has reports whether a statement is one of those in the store.
func (s *SharedRules) Has(stated *rules.Statement) bool {
	for _, found := range s.Find(stated.Action, stated.Target) {
		if found.Statement == *stated {
			return true
		}
	}
	return false
}
