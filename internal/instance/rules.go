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

// This file reads and changes operators' rules in a shared store.

// keepRemoved is how long the store remembers that a rule was removed. A machine that hasn't heard
// of a removal for longer would bring the rule back when it restores a store that lost its data.
const keepRemoved = 7 * 24 * time.Hour

// noted implements engine.Options.Noted.
func (s *SharedRules) noted(notes []storage.Note, all bool) {
	if unread := s.take(s.instance.Names.Secret.Load().Sealer("statements"), notes, all); unread > 0 {
		caddyconf.Logger().Error("some bans, allowances or API keys in the store can't be read: they were made with another secret_file, or by a later version",
			s.instance.Settings.where(), zap.Int("notes", unread))
	}
	s.tell()
}

// changes are notes to put, the last one for each name.
type changes struct {
	sealer *identity.Sealer
	names  identity.Hasher
	notes  map[storage.Key]storage.Note
}

func (s *SharedRules) newChanges() changes {
	secret := s.instance.Names.Secret.Load()
	return changes{secret.Sealer("statements"), identity.NewHasher(secret.Derive("names of statements")[0]),
		make(map[storage.Key]storage.Note)}
}

func (c *changes) list() []storage.Note { return slices.Collect(maps.Values(c.notes)) }

func (c *changes) nameOf(action rules.Action, target rules.Target) storage.Key {
	return c.names.Hash(uint64(action), target.String())
}

// add adds a rule with this version or a later one.
func (c *changes) add(stated rules.Rule, version int64) {
	c.note(storage.Note{Name: c.nameOf(stated.Action, stated.Target), Version: version}, stated.String(), stated.Until)
}

// note adds a note that applies until a time, or without end if that is zero.
func (c *changes) note(n storage.Note, line string, until time.Time) {
	if !until.IsZero() {
		n.Until = until.UnixNano()
	}
	n.Value = c.sealer.Seal(string(n.Name[:]), []byte(padded(line)))
	c.notes[n.Name] = n
}

// remove removes rules. If a rule is sealed with an older line of the secret, another machine may
// be about to reseal it, so remove also removes it by its new name.
func (c *changes) remove(removed map[storage.Key]foundRule) (version int64) {
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

// padded pads a text with blanks to a multiple of padding.
func padded(text string) string {
	return text + strings.Repeat(" ", (padding-len(text)%padding)%padding)
}

// Put puts rules into the store. They replace rules with the same action and target. A ban also
// removes the allowance of its target.
func (s *SharedRules) Put(ctx context.Context, added []rules.Rule) error {
	c := s.newChanges()
	for _, stated := range added {
		if stated.Action == rules.Ban {
			c.remove(s.Find(rules.Allow, stated.Target))
			if allowance := c.nameOf(rules.Allow, stated.Target); len(c.notes[allowance].Value) > 0 {
				delete(c.notes, allowance) // it was added before
			}
		}
		version := c.remove(s.Find(stated.Action, stated.Target)) // it has another name under an older secret
		c.add(stated, version)
	}
	return s.instance.Engine.PutNotes(ctx, c.list())
}

// Drop removes the rules with a target and an action from the store, and returns their number.
func (s *SharedRules) Drop(ctx context.Context, action rules.Action, target rules.Target) (int, error) {
	found := s.Find(action, target)
	if len(found) == 0 {
		return 0, nil
	}
	c := s.newChanges()
	c.remove(found)
	return len(found), s.instance.Engine.PutNotes(ctx, c.list())
}

// sealedAgain bounds how many rules, and how many API keys, are resealed at once.
const sealedAgain = 100

// sealAgain reseals some of the notes that are sealed with an older line of the secret with the
// line in use, because the older one may be removed some day. It preserves operators' concurrent
// changes.
func (s *SharedRules) sealAgain() error {
	again, keys := s.someOlder(sealedAgain)
	if len(again)+len(keys) == 0 {
		return nil
	}
	c := s.newChanges()
	for name, stated := range again {
		c.removeOne(name, stated.Until, stated.version)
		c.add(stated.Rule, stated.version+1)
	}
	for name, key := range keys {
		c.removeOne(name, key.Expires, key.version)
		c.addKey(key.Stored, key.version+1)
	}
	ctx, cancel := context.WithTimeout(context.Background(), vaultTimeout)
	defer cancel()
	return s.instance.Engine.ReplaceNotes(ctx, c.list())
}

// RulesInForce merges the rules of this machine's file with those of the shared store.
type RulesInForce struct {
	File   *rules.File
	merged atomic.Pointer[mergedRules] // nil until the store is in use

	mu     sync.Mutex
	shared *SharedRules // guarded by mu: of the store; nil before it is known, or without a shared store
}

type mergedRules struct{ file, store, both *rules.Set }

// Now returns the rules in force. It never blocks.
func (r *RulesInForce) Now() *rules.Set {
	if m := r.merged.Load(); m != nil {
		return m.both
	}
	return r.File.Value()
}

// Begin adds the rules of a store, and follows their changes.
func (r *RulesInForce) Begin(shared *SharedRules) {
	r.mu.Lock()
	r.shared = shared
	r.mu.Unlock()
	shared.Follow(r, r.Merge)
	r.Merge()
}

// End stops following the store's changes.
func (r *RulesInForce) End() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.shared != nil {
		r.shared.Follow(r, nil)
	}
}

// Merge merges the current rules of the file and the store. Requests don't call it, because a large
// file takes a while.
func (r *RulesInForce) Merge() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.shared == nil {
		return
	}
	merged := mergedRules{file: r.File.Value(), store: r.shared.Set.Load()}
	if was := r.merged.Load(); was != nil && was.file == merged.file && was.store == merged.store {
		return
	}
	merged.both = rules.Union(merged.file, merged.store)
	r.merged.Store(&merged)
}
