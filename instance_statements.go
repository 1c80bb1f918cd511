package tally

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/caddy-tally/caddy-tally/identity"
	"github.com/caddy-tally/caddy-tally/internal/rules"
	"github.com/caddy-tally/caddy-tally/storage"
)

// This file has how an instance reads and changes operators' statements in a store that machines
// share.

// keepRemoved is how long it is known that a statement was removed: a machine that has not heard of
// it for longer, and tells a store that has lost its data what it knows, would bring it back.
const keepRemoved = 7 * 24 * time.Hour

// noted implements engine.Options.Noted.
func (h *instance) noted(notes []storage.Note, all bool) {
	sealer, err := h.secret.Load().Sealer("statements")
	if err != nil {
		logger().Error("the bans and allowances in the store can't be read", h.settings.where(), zap.Error(err))
		return
	}
	if unread := h.shared.take(sealer, notes, all); unread > 0 {
		logger().Error("some bans and allowances in the store can't be read: they were made with another secret_file, or by a later version",
			h.settings.where(), zap.Int("statements", unread))
	}
	h.shared.tell()
}

// statementsOnStore returns what instances of this process know that use the same store, or nil.
func statementsOnStore(of settings) (known *sharedStatements) {
	eachInstance(func(h *instance) {
		if of.address != "" && h.settings.store == of.store && h.settings.secret == of.secret {
			known = &h.shared
		}
	})
	return known
}

// changes are notes to be put, of each name the last.
type changes map[storage.Key]storage.Note

func (c changes) list() []storage.Note { return slices.Collect(maps.Values(c)) }

// remove removes statements.
func (c changes) remove(removed map[storage.Key]rules.Statement) {
	for name, stated := range removed {
		until := time.Now().Add(keepRemoved)
		if !stated.Until.IsZero() && stated.Until.Before(until) {
			until = stated.Until
		}
		c[name] = storage.Note{Name: name, Until: until.UnixNano()}
	}
}

// padding is what the length of a sealed line is a multiple of, so that it says little.
const padding = 64

// put puts statements into the store, in the place of those with the same action about the same
// targets. A ban also removes the allowance of its target.
func (h *instance) put(ctx context.Context, added []rules.Statement) error {
	sealer, err := h.secret.Load().Sealer("statements")
	if err != nil {
		return err
	}
	keys, err := h.secret.Load().Derive("names of statements")
	if err != nil {
		return err
	}
	names, notes := identity.NewHasher(keys[0]), make(changes)
	nameOf := func(action rules.Action, target rules.Target) storage.Key {
		return names.Hash(uint64(action), target.String())
	}
	for _, stated := range added {
		notes.remove(h.shared.find(stated.Action, stated.Target)) // which has another name under an older secret
		if stated.Action == rules.Ban {
			notes.remove(h.shared.find(rules.Allow, stated.Target))
			if allowance := nameOf(rules.Allow, stated.Target); len(notes[allowance].Value) > 0 {
				delete(notes, allowance) // it was added before
			}
		}
		n := storage.Note{Name: nameOf(stated.Action, stated.Target)}
		if !stated.Until.IsZero() {
			n.Until = stated.Until.UnixNano()
		}
		line := stated.String()
		line += strings.Repeat(" ", (padding-len(line)%padding)%padding)
		n.Value = sealer.Seal(string(n.Name[:]), []byte(line))
		notes[n.Name] = n
	}
	return h.engine.PutNotes(ctx, notes.list())
}

// drop removes the statements about a target with an action from the store, and returns them.
func (h *instance) drop(ctx context.Context, action rules.Action, target rules.Target) ([]rules.Statement, error) {
	found, notes := h.shared.find(action, target), make(changes)
	if len(found) == 0 {
		return nil, nil
	}
	notes.remove(found)
	if err := h.engine.PutNotes(ctx, notes.list()); err != nil {
		return nil, err
	}
	return slices.Collect(maps.Values(found)), nil
}

// sealAgain seals some of the statements that are sealed under an older line of the secret, which
// may be removed some day, under the line in use.
func (h *instance) sealAgain() error {
	var again []rules.Statement
	h.shared.mu.Lock()
	for name := range h.shared.older {
		if again = append(again, h.shared.known[name]); len(again) == 100 {
			break
		}
	}
	h.shared.mu.Unlock()
	if len(again) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), vaultTimeout)
	defer cancel()
	return h.put(ctx, again)
}

// awaitStatements waits until the statements in the store are read, or it is known that they can't
// be, up to readyTimeout after the instance was made.
func (h *instance) awaitStatements(ctx context.Context) {
	select {
	case <-h.engine.Ready():
		return
	default:
	}
	if left := readyTimeout - time.Since(h.begun); left > 0 {
		select {
		case <-h.engine.Ready():
		case <-time.After(left):
		case <-ctx.Done():
		}
	}
}
