package instance

import (
	"maps"
	"math"
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
// Known rules apply while the store can't be used.
//
// API keys in the store are such notes as well, see [sharedKey].
type SharedRules struct {
	instance *Instance
	Set      atomic.Pointer[rules.Set]   // the rules in force; nil if there never were any
	Keys     atomic.Pointer[apikeys.Set] // API keys; nil before the store was read

	mu    sync.Mutex
	notes map[storage.Key]storage.Note // guarded by mu, like all below: as in the store
	known map[storage.Key]foundRule    // rules by the names of their notes
	api   map[storage.Key]sharedKey    // API keys by the names of their notes
	from  *storage.Store               // the store that all notes were last read from; nil before
	hear  map[any]func()               // listeners, called after changes
}

// foundRule is a rule in the store.
type foundRule struct {
	rules.Rule
	origin
}

// origin is the note that a rule or an API key is from.
type origin struct {
	version int64
	older   bool // sealed with an older line of the secret
}

func (o origin) isOlder() bool { return o.older }

// take takes notes from the engine, and returns the number of unreadable ones.
func (s *SharedRules) take(sealer *identity.Sealer, notes []storage.Note, all bool) (unread int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if all || s.notes == nil {
		s.notes, s.known, s.api = make(map[storage.Key]storage.Note), make(map[storage.Key]foundRule),
			make(map[storage.Key]sharedKey)
	}
	if all {
		s.from = s.instance.Store.Load()
	}
	for _, n := range notes {
		s.notes[n.Name] = n
		s.forgetLocked(n.Name)
		if len(n.Value) == 0 {
			continue
		}
		line, inUse, ok := sealer.Open(string(n.Name[:]), n.Value)
		if !ok || s.learnLocked(n.Name, string(line), origin{n.Version, !inUse}) != nil {
			unread++
		}
	}
	s.collectLocked()
	return unread
}

// learnLocked adds the rule or key of a note.
func (s *SharedRules) learnLocked(name storage.Key, line string, from origin) (err error) {
	if key, ok := strings.CutPrefix(line, keyNote); ok {
		stored, err := apikeys.ParseStored(key)
		if err == nil {
			s.api[name] = sharedKey{stored, from}
		}
		return err
	}
	stated, err := rules.ParseRule(line)
	if err == nil {
		s.known[name] = foundRule{stated, from}
	}
	return err
}

// forgetLocked removes the rule or key of a note.
func (s *SharedRules) forgetLocked(name storage.Key) {
	delete(s.known, name)
	delete(s.api, name)
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
	s.Set.Store(rules.NewSet(s.rulesLocked()))
	s.Keys.Store(apikeys.SetOf(s.keysLocked()))
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

// rulesLocked returns all known rules.
func (s *SharedRules) rulesLocked() (list []rules.Rule) {
	for _, found := range s.known {
		list = append(list, found.Rule)
	}
	return list
}

// List returns the rules that have not ended, in the order of their lines.
func (s *SharedRules) List() []rules.Rule {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	list := slices.DeleteFunc(s.rulesLocked(),
		func(stated rules.Rule) bool { return !stated.Until.IsZero() && !now.Before(stated.Until) })
	slices.SortFunc(list, func(a, b rules.Rule) int { return strings.Compare(a.String(), b.String()) })
	return list
}

// Find returns the rules with a target and an action, by the names of their notes. An action of 0
// matches any.
func (s *SharedRules) Find(action rules.Action, target rules.Target) map[storage.Key]foundRule {
	s.mu.Lock()
	defer s.mu.Unlock()
	return matching(s.known, len(s.known), func(stated foundRule) bool {
		return stated.Target == target && (action == 0 || action == stated.Action)
	})
}

// someOlder returns some of the rules and keys sealed with an older line of the secret.
func (s *SharedRules) someOlder(most int) (map[storage.Key]foundRule, map[storage.Key]sharedKey) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return matching(s.known, most, foundRule.isOlder), matching(s.api, most, sharedKey.isOlder)
}

// countOlder returns how many notes are sealed with an older line of the secret.
func (s *SharedRules) countOlder() int {
	stated, keys := s.someOlder(math.MaxInt)
	return len(stated) + len(keys)
}

// laterLines returns how many notes the first line of the secret doesn't open. known is false unless
// they are those of the store in use: it may be a copy that was not read yet.
func (s *SharedRules) laterLines() (n int, known bool) {
	n = s.countOlder()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, note := range s.notes {
		n += min(len(note.Value), 1) // removed ones have no value
	}
	store := s.instance.Store.Load()
	return n - len(s.known) - len(s.api), s.from != nil && (s.from == store || (*store).Continues(*s.from))
}

// matching returns at most so many of the rules or keys, those that match.
func matching[T any](all map[storage.Key]T, most int, match func(T) bool) map[storage.Key]T {
	found := make(map[storage.Key]T)
	for name, one := range all {
		if len(found) < most && match(one) {
			found[name] = one
		}
	}
	return found
}

// Has reports whether the store has a rule.
func (s *SharedRules) Has(stated *rules.Rule) bool {
	for _, found := range s.Find(stated.Action, stated.Target) {
		if found.Rule == *stated {
			return true
		}
	}
	return false
}
