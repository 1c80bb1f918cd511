package instance

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/caddy-tally/caddy-tally/identity"
	"github.com/caddy-tally/caddy-tally/internal/caddyconf"
	"github.com/caddy-tally/caddy-tally/internal/rules"
	"github.com/caddy-tally/caddy-tally/storage"
)

// This file has how an instance reads and changes operators' statements in a store that machines
// share.

// keepRemoved is how long it is known that a statement was removed: a machine that has not heard of
// it for longer, and tells a store that has lost its data what it knows, would bring it back.
const keepRemoved = 7 * 24 * time.Hour

// noted implements engine.Options.Noted.
func (s *SharedRules) noted(notes []storage.Note, all bool) {
	sealer, err := s.instance.Names.Secret.Load().Sealer("statements")
	if err != nil {
		caddyconf.Logger().Error("the bans, allowances and API keys in the store can't be read", s.instance.Settings.where(), zap.Error(err))
		return
	}
	if unread := s.take(sealer, notes, all); unread > 0 {
		caddyconf.Logger().Error("some bans, allowances or API keys in the store can't be read: they were made with another secret_file, or by a later version",
			s.instance.Settings.where(), zap.Int("notes", unread))
	}
	s.tell()
}

// statementsOnStore returns what instances of this process know that use the same store, or nil.
func statementsOnStore(of Settings) (known *SharedRules) {
	Each(func(h *Instance) {
		if of.Address != "" && h.Settings.Store == of.Store && h.Settings.Secret == of.Secret {
			known = &h.Shared
		}
	})
	return known
}

// changes are notes to be put, of each name the last.
type changes struct {
	sealer *identity.Sealer
	names  identity.Hasher
	notes  map[storage.Key]storage.Note
}

func (s *SharedRules) newChanges() (c changes, err error) {
	if c.sealer, err = s.instance.Names.Secret.Load().Sealer("statements"); err != nil {
		return c, err
	}
	keys, err := s.instance.Names.Secret.Load().Derive("names of statements")
	if err != nil {
		return c, err
	}
	c.names, c.notes = identity.NewHasher(keys[0]), make(map[storage.Key]storage.Note)
	return c, nil
}

func (c *changes) list() []storage.Note { return slices.Collect(maps.Values(c.notes)) }

func (c *changes) nameOf(action rules.Action, target rules.Target) storage.Key {
	return c.names.Hash(uint64(action), target.String())
}

// Add adds a statement, of a version or a later one.
func (c *changes) add(stated rules.Statement, version int64) {
	c.note(storage.Note{Name: c.nameOf(stated.Action, stated.Target), Version: version}, stated.String(), stated.Until)
}

// note adds a note that says something until a time, or for good if that is zero.
func (c *changes) note(n storage.Note, line string, until time.Time) {
	if !until.IsZero() {
		n.Until = until.UnixNano()
	}
	n.Value = c.sealer.Seal(string(n.Name[:]), []byte(padded(line)))
	c.notes[n.Name] = n
}

// remove removes statements. Another machine may be about to seal one again that is sealed under an
// older line of the secret: under its new name it is removed as well.
func (c *changes) remove(removed map[storage.Key]foundStatement) (version int64) {
	for name, stated := range removed {
		c.removeOne(name, stated.Until, stated.version)
		if stated.older {
			c.removeOne(c.nameOf(stated.Action, stated.Target), stated.Until, stated.version)
		}
		version = max(version, stated.version+1)
	}
	return version
}

// removeOne removes a note of a version that would have ended at a time, or never if that is zero.
func (c *changes) removeOne(name storage.Key, end time.Time, version int64) {
	until := time.Now().Add(keepRemoved)
	if !end.IsZero() && end.Before(until) {
		until = end
	}
	c.notes[name] = storage.Note{Name: name, Until: until.UnixNano(), Version: version + 1}
}

// padding is the block size that hides the length of a sealed text.
const padding = 64

// padded returns a text with blanks up to the next multiple of padding.
func padded(text string) string {
	return text + strings.Repeat(" ", (padding-len(text)%padding)%padding)
}

// Put puts statements into the store, in the place of those with the same action about the same
// targets. A ban also removes the allowance of its target.
func (s *SharedRules) Put(ctx context.Context, added []rules.Statement) error {
	c, err := s.newChanges()
	if err != nil {
		return err
	}
	for _, stated := range added {
		if stated.Action == rules.Ban {
			c.remove(s.Find(rules.Allow, stated.Target))
			if allowance := c.nameOf(rules.Allow, stated.Target); len(c.notes[allowance].Value) > 0 {
				delete(c.notes, allowance) // it was added before
			}
		}
		version := c.remove(s.Find(stated.Action, stated.Target)) // which has another name under an older secret
		c.add(stated, version)
	}
	return s.instance.Engine.PutNotes(ctx, c.list())
}

// Drop removes the statements about a target with an action from the store, and returns how many
// there were.
func (s *SharedRules) Drop(ctx context.Context, action rules.Action, target rules.Target) (int, error) {
	found := s.Find(action, target)
	if len(found) == 0 {
		return 0, nil
	}
	c, err := s.newChanges()
	if err != nil {
		return 0, err
	}
	c.remove(found)
	return len(found), s.instance.Engine.PutNotes(ctx, c.list())
}

// sealedAgain is how many statements, and how many API keys, are sealed again at once.
const sealedAgain = 100

// sealAgain seals some of the notes that are sealed under an older line of the secret, which
// may be removed some day, under the line in use. What operators change meanwhile stays.
func (s *SharedRules) sealAgain() error {
	again, keys := s.someOlder(sealedAgain), s.someOlderKeys(sealedAgain)
	if len(again)+len(keys) == 0 {
		return nil
	}
	c, err := s.newChanges()
	if err != nil {
		return err
	}
	for name, stated := range again {
		c.removeOne(name, stated.Until, stated.version)
		c.add(stated.Statement, stated.version+1)
	}
	for name, key := range keys {
		c.removeOne(name, key.Expires, key.version)
		c.addKey(key.Stored, key.version+1)
	}
	ctx, cancel := context.WithTimeout(context.Background(), vaultTimeout)
	defer cancel()
	return s.instance.Engine.ReplaceNotes(ctx, c.list())
}

// RulesInForce are those of the file of this machine and those of the store that machines
// share, as if they stood in one file.
type RulesInForce struct {
	File   *rules.File
	merged atomic.Pointer[mergedStatements] // nil until the store is in use

	mu     sync.Mutex
	shared *SharedRules // guarded by mu: of the store; nil before it is known, or if there are none
}

type mergedStatements struct{ file, store, both *rules.Set }

// Now returns the statements in force. It waits for nothing.
func (s *RulesInForce) Now() *rules.Set {
	if m := s.merged.Load(); m != nil {
		return m.both
	}
	return s.File.Value()
}

// Begin has the statements of a store be in force as well, and those that come to be.
func (s *RulesInForce) Begin(shared *SharedRules) {
	s.mu.Lock()
	s.shared = shared
	s.mu.Unlock()
	shared.Follow(s, s.Merge)
	s.Merge()
}

// End ends what begin began.
func (s *RulesInForce) End() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.shared != nil {
		s.shared.Follow(s, nil)
	}
}

// Merge goes by what the file and the store have now. No request does: a large file takes a while.
func (s *RulesInForce) Merge() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.shared == nil {
		return
	}
	is := mergedStatements{file: s.File.Value(), store: s.shared.Set.Load()}
	if was := s.merged.Load(); was != nil && was.file == is.file && was.store == is.store {
		return
	}
	is.both = rules.Union(is.file, is.store)
	s.merged.Store(&is)
}
