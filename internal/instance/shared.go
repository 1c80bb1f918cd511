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

// SharedRules are the operators' rules in a shared store. Each is a note there: its name is a keyed
// hash of its target, and its value is the sealed line of a rules file. So readers of the store
// learn no address.
//
// Known rules apply while the store can't be used, and another instance on the same store begins
// with them.
//
// API keys in the store are such notes as well, see [sharedKey].
type SharedRules struct {
	instance *Instance
	Set      atomic.Pointer[rules.Set]   // the rules in force; nil if there never were any
	Keys     atomic.Pointer[apikeys.Set] // API keys; nil before the store was read

	mu    sync.Mutex
	notes map[storage.Key]storage.Note    // guarded by mu, like all below: as in the store
	known map[storage.Key]rules.Statement // rules by the names of their notes
	api   map[storage.Key]apikeys.Stored  // API keys by the names of their notes
	older map[storage.Key]bool            // notes sealed with an older line of the secret
	hear  map[any]func()                  // listeners, called after changes
}

// take takes notes from the engine, and returns the number of unreadable ones.
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

// learnLocked adds the rule or key of a note.
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

// forgetLocked removes the rule or key of a note.
func (s *SharedRules) forgetLocked(name storage.Key) {
	delete(s.known, name)
	delete(s.api, name)
	delete(s.older, name)
}

// collectLocked makes the set of rules in force, and forgets those that have ended.
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

// tell notifies the listeners of changes.
func (s *SharedRules) tell() {
	s.mu.Lock()
	hear := slices.Collect(maps.Values(s.hear))
	s.mu.Unlock()
	for _, f := range hear {
		f()
	}
}

// Follow registers f, with the key who, to be called after changes. A nil f unregisters it.
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

// allNotes returns all known notes.
func (s *SharedRules) allNotes() []storage.Note {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Values(s.notes))
}

// begin takes another instance's rules, unless the store has already delivered its own.
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

// foundStatement is a rule in the store.
type foundStatement struct {
	rules.Statement
	version int64 // of its note
	older   bool  // sealed with an older line of the secret
}

// Find returns the rules with a target and an action, by the names of their notes. An action of 0
// matches any.
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

// countOlder returns how many notes are sealed with an older line of the secret.
func (s *SharedRules) countOlder() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.older)
}

// someOlder returns some of the rules sealed with an older line of the secret.
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

// Has reports whether the store has a rule.
func (s *SharedRules) Has(stated *rules.Statement) bool {
	for _, found := range s.Find(stated.Action, stated.Target) {
		if found.Statement == *stated {
			return true
		}
	}
	return false
}
