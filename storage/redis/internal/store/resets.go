package store

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/caddy-tally/caddy-tally/storage"
)

// Reset implements [storage.Store].
func (s *Store) Reset(ctx context.Context, term *storage.Term, resets []storage.Reset) error {
	r, err := s.do(ctx, call{what: "reset", script: resetScript, term: term, writes: true, request: func(now int64) (request, error) {
		q := request{keys: []string{s.names.resets(), s.names.resetIDs()}, args: []string{""}}
		for i := range resets {
			keys := s.keysOf(&resets[i])
			q.keys = append(q.keys, keys...)
			q.args = append(q.args, strconv.FormatInt(resets[i].ID, 10), strconv.Itoa(len(keys)), noteOf(&resets[i]))
		}
		return q, nil
	}})
	if err != nil {
		return err
	}
	said := words{text: r.answer}
	for i := range resets {
		resets[i].Number, resets[i].At, resets[i].Found = said.next(), said.next()*1000, said.next() == 1
	}
	if said.err != nil {
		return fmt.Errorf("redis: reset: %w", said.err)
	}
	return nil
}

// keysOf returns the keys that a reset removes.
func (s *Store) keysOf(r *storage.Reset) (keys []string) {
	for _, key := range []storage.Key{r.Key, r.Former} {
		switch {
		case key == (storage.Key{}) && len(keys) > 0:
		case r.Client:
			keys = append(keys, s.names.record(key))
		default:
			keys = append(keys, s.names.count(r.Limit, key))
		}
	}
	return keys
}

// noteOf returns the text of a reset's note.
func noteOf(r *storage.Reset) string {
	return fmt.Sprintf("%d %016x %x %x", bit(r.Client), uint64(r.Limit), r.Key, r.Former)
}

// parseNote returns the reset of a note: its number, time, whether something was found, its id, and
// the text of noteOf.
func parseNote(note string) (r storage.Reset, err error) {
	said := strings.Split(note, " ")
	if len(said) != 8 {
		return r, errors.New("a note of a reset can't be read")
	}
	limit, limitErr := strconv.ParseUint(said[5], 16, 64)
	numbers := words{text: strings.Join(said[:5], " ")}
	r = storage.Reset{Number: numbers.next(), At: numbers.next() * 1000, Found: numbers.next() == 1, ID: numbers.next(), Client: numbers.next() == 1, Limit: storage.LimitID(limit)}
	_, keyErr := hex.Decode(r.Key[:], []byte(said[6])[:min(len(said[6]), 2*len(r.Key))])
	_, formerErr := hex.Decode(r.Former[:], []byte(said[7])[:min(len(said[7]), 2*len(r.Former))])
	return r, errors.Join(numbers.err, limitErr, keyErr, formerErr)
}

// Resets implements [storage.Store].
func (s *Store) Resets(ctx context.Context, after int64) (storage.Resets, error) {
	is, err := s.look(ctx, "resets", nil, storage.Seen{Resets: after, Changes: -1, Notes: -1}, false)
	return is.Resets, err
}

// News implements [storage.Network].
func (s *Store) News(ctx context.Context, seen storage.Seen) (storage.News, error) {
	return s.look(ctx, "news", nil, seen, false)
}

// look asks for news. Within a term it can also drop old notes.
func (s *Store) look(ctx context.Context, what string, term *storage.Term, seen storage.Seen, drop bool) (is storage.News, err error) {
	before := ""
	if drop {
		before = "0"
	}
	c := call{what: what, script: newsScript, term: term, request: func(int64) (request, error) {
		return request{
			keys: []string{s.names.resets(), s.names.changes(), s.names.resetIDs(), s.names.notes(), s.names.noteNumbers(), s.names.processes()},
			args: []string{strconv.FormatInt(seen.Resets, 10), strconv.FormatInt(seen.Changes, 10), before, strconv.FormatInt(seen.Notes, 10)},
		}, nil
	}}
	by := s.read
	if term != nil {
		by = s.do
	}
	r, err := by(ctx, c)
	if err == nil {
		is, err = newsOf(r, seen)
		if err != nil {
			err = fmt.Errorf("redis: %s: %w", what, err)
		}
	}
	return is, err
}

// newsOf returns the news in an answer.
func newsOf(r reply, seen storage.Seen) (is storage.News, err error) {
	if len(r.more) < 2 {
		return is, errors.New("the server's answer is too short")
	}
	notes, err := r.more[0].AsStrSlice()
	if err != nil {
		return is, err
	}
	changed, err := r.more[1].AsStrSlice()
	if err != nil {
		return is, err
	}
	is.Resets.Newest = r.resets
	for _, note := range notes {
		reset, err := parseNote(note)
		if err != nil {
			return is, err
		}
		is.Resets.List = append(is.Resets.List, reset)
	}
	is.Resets.Lost = int64(len(is.Resets.List)) != is.Resets.Newest-seen.Resets
	newest := words{text: r.answer}
	is.Newest = newest.next()
	is.Processes = int(newest.next())
	for _, value := range changed {
		var client storage.Client
		copy(client.Key[:], value)
		copy(client.Former[:], value[min(len(value), len(client.Key)):])
		is.Changed = append(is.Changed, client)
	}
	is.Missed = int64(len(is.Changed)) != is.Newest-seen.Changes
	if newest.err != nil {
		return is, newest.err
	}
	is.Notes, is.MoreNotes, err = notesOf(r)
	return is, err
}
