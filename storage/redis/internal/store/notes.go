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

// PutNotes implements [storage.Network].
func (s *Store) PutNotes(ctx context.Context, notes []storage.Note, replay bool) error {
	if err := storage.CheckNotes(notes); err != nil {
		return fmt.Errorf("redis: notes: %w", err)
	}
	r, err := s.upkeep(ctx, call{what: "notes", script: notesScript, writes: true, request: func(int64) (request, error) {
		q := request{
			keys: []string{s.names.notes(), s.names.noteNumbers(), s.names.noteEnds()},
			args: []string{strconv.FormatInt(bit(replay), 10), strconv.Itoa(cmp.Or(s.options.maxNotes, storage.MaxNotes))},
		}
		for i := range notes {
			n := &notes[i]
			q.args = append(q.args, string(n.Name[:]), strconv.FormatInt(n.Version, 10),
				strconv.FormatInt(n.Until, 10), strconv.FormatInt((n.Until+999_999)/1_000_000, 10), string(n.Value))
		}
		return q, nil
	}})
	if err == nil && r.status == "full" {
		err = fmt.Errorf("redis: notes: %w", storage.ErrNotesFull)
	}
	if err != nil {
		return err
	}
	versions := words{text: r.answer}
	for i := range notes {
		notes[i].Version = versions.next()
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

// dropNotes removes obsolete notes.
func (s *Store) dropNotes(ctx context.Context, now int64) (dropped int64, err error) {
	before := max(now-int64(storage.KeepNotes), 0) / 1e6
	err = s.beside(ctx, "sweep", func(ctx context.Context) error {
		dropped, err = dropNotesScript.Exec(ctx, s.client,
			[]string{s.names.notes(), s.names.noteNumbers(), s.names.noteEnds()},
			[]string{strconv.FormatInt(before, 10), strconv.Itoa(maxNotesDropped)}).AsInt64()
		return err
	})
	return dropped, err
}
