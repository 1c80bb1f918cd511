package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/rueidis"

	"github.com/caddy-tally/caddy-tally/storage"
)

// notes are the notes by name.
type notes struct{ machine *machine }

// PutNotes implements [storage.Network].
func (n notes) PutNotes(ctx context.Context, list []storage.Note, replay bool) error {
	if err := storage.CheckNotes(list); err != nil {
		return fmt.Errorf("redis: notes: %w", err)
	}
	names := n.machine.server.names
	r, err := n.machine.upkeep(ctx,
		call{what: "notes", script: notesScript, writes: true, request: func(int64) request {
			q := request{
				keys: []string{names.notes(), names.noteNumbers(), names.noteEnds()},
				args: []string{strconv.FormatInt(bit(replay), 10),
					strconv.Itoa(cmp.Or(n.machine.server.options.maxNotes, storage.MaxNotes))},
			}
			for i := range list {
				note := &list[i]
				q.args = append(q.args, string(note.Name[:]), strconv.FormatInt(note.Version, 10),
					strconv.FormatInt(note.Until, 10), strconv.FormatInt((note.Until+999_999)/1_000_000, 10),
					string(note.Value))
			}
			return q
		}})
	if err == nil && r.status == "full" {
		err = fmt.Errorf("redis: notes: %w", storage.ErrNotesFull)
	}
	if err != nil {
		return err
	}
	versions := words{text: r.answer}
	for i := range list {
		list[i].Version = versions.next()
	}
	if versions.err != nil {
		return fmt.Errorf("redis: notes: %w", versions.err)
	}
	return nil
}

// notesOf returns the notes in an answer for news, and whether there are more.
func notesOf(r reply) (notes []storage.Note, more bool, err error) {
	if len(r.more) < 4 {
		return nil, false, errors.New("the server's answer is too short")
	}
	names, err := r.more[2].AsStrSlice()
	if err != nil {
		return nil, false, err
	}
	values, err := r.more[3].AsStrSlice()
	if err != nil {
		return nil, false, err
	}
	for i, name := range names {
		if i == storage.MaxNotesTold {
			return notes, true, nil
		}
		note, err := parseKept(name, values[i])
		if err != nil {
			return nil, false, err
		}
		notes = append(notes, note)
	}
	return notes, false, nil
}

// parseKept parses a note that notes.lua has stored.
func parseKept(name, kept string) (n storage.Note, err error) {
	parts := strings.SplitN(kept, " ", 4)
	if len(parts) != 4 || len(name) != len(n.Name) {
		return n, fmt.Errorf("the note %q can't be read", name)
	}
	copy(n.Name[:], name)
	n.Value = []byte(parts[3])
	for i, field := range []*int64{&n.Number, &n.Version, &n.Until} {
		if *field, err = strconv.ParseInt(parts[i], 10, 64); err != nil {
			return n, err
		}
	}
	return n, nil
}

// maxNotesDropped is how many notes a sweep removes at once.
const maxNotesDropped = 500

var dropNotesScript = rueidis.NewLuaScript(`
local names = redis.call('ZRANGEBYSCORE', KEYS[3], '-inf', ARGV[1], 'LIMIT', 0, ARGV[2])
if #names > 0 then
  redis.call('HDEL', KEYS[1], unpack(names))
  redis.call('ZREM', KEYS[2], unpack(names))
  redis.call('ZREM', KEYS[3], unpack(names))
end
return #names
`)

// drop removes obsolete notes.
func (n notes) drop(ctx context.Context, now int64) (dropped int64, err error) {
	names := n.machine.server.names
	before := max(now-int64(storage.KeepNotes), 0) / 1e6
	err = n.machine.server.beside(ctx, "sweep", func(ctx context.Context) error {
		dropped, err = dropNotesScript.Exec(ctx, n.machine.server.client,
			[]string{names.notes(), names.noteNumbers(), names.noteEnds()},
			[]string{strconv.FormatInt(before, 10), strconv.Itoa(maxNotesDropped)}).AsInt64()
		return err
	})
	return dropped, err
}
