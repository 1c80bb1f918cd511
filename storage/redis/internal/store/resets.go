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
	r, err := s.inTerm(ctx, term, call{what: "reset", script: resetScript, writes: true, request: func(now int64) (request, error) {
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
	numbers := words{text: r.answer}
	for i := range resets {
		resets[i].Number, resets[i].At, resets[i].Found = numbers.next(), numbers.next()*1000, numbers.next() == 1
	}
	if numbers.err != nil {
		return fmt.Errorf("redis: reset: %w", numbers.err)
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

// parseNote parses a note: the number and time of the reset, whether something was found, its ID, and
// the text of noteOf.
func parseNote(note string) (r storage.Reset, err error) {
	fields := strings.Split(note, " ")
	if len(fields) != 8 {
		return r, errors.New("a note of a reset can't be read")
	}
	limit, limitErr := strconv.ParseUint(fields[5], 16, 64)
	numbers := words{text: strings.Join(fields[:5], " ")}
	r = storage.Reset{Number: numbers.next(), At: numbers.next() * 1000, Found: numbers.next() == 1, ID: numbers.next(), Client: numbers.next() == 1, Limit: storage.LimitID(limit)}
	_, keyErr := hex.Decode(r.Key[:], []byte(fields[6])[:min(len(fields[6]), 2*len(r.Key))])
	_, formerErr := hex.Decode(r.Former[:], []byte(fields[7])[:min(len(fields[7]), 2*len(r.Former))])
	return r, errors.Join(numbers.err, limitErr, keyErr, formerErr)
}

// Resets implements [storage.Store].
func (s *Store) Resets(ctx context.Context, after int64) (storage.Resets, error) {
	news, err := s.newsAs(ctx, "resets", storage.Seen{Resets: after, Changes: -1, Notes: -1})
	return news.Resets, err
}

// News implements [storage.Network].
func (s *Store) News(ctx context.Context, seen storage.Seen) (storage.News, error) {
	return s.newsAs(ctx, "news", seen)
}

func (s *Store) newsAs(ctx context.Context, what string, seen storage.Seen) (news storage.News, err error) {
	r, err := s.read(ctx, s.look(what, seen, ""))
	if err == nil {
		if news, err = newsOf(r, seen); err != nil {
			err = fmt.Errorf("redis: %s: %w", what, err)
		}
	}
	return news, err
}

// look returns the call that asks for news. With "0" as dropBefore it also drops old notes of resets.
func (s *Store) look(what string, seen storage.Seen, dropBefore string) call {
	return call{what: what, script: newsScript, request: func(int64) (request, error) {
		return request{
			keys: []string{s.names.resets(), s.names.changes(), s.names.resetIDs(), s.names.notes(), s.names.noteNumbers(), s.names.processes()},
			args: []string{strconv.FormatInt(seen.Resets, 10), strconv.FormatInt(seen.Changes, 10), dropBefore, strconv.FormatInt(seen.Notes, 10)},
		}, nil
	}}
}

// newsOf returns the news in an answer.
func newsOf(r reply, seen storage.Seen) (news storage.News, err error) {
	if len(r.more) < 2 {
		return news, errors.New("the server's answer is too short")
	}
	notes, err := r.more[0].AsStrSlice()
	if err != nil {
		return news, err
	}
	changed, err := r.more[1].AsStrSlice()
	if err != nil {
		return news, err
	}
	news.Resets.Newest = r.resets
	for _, note := range notes {
		reset, err := parseNote(note)
		if err != nil {
			return news, err
		}
		news.Resets.List = append(news.Resets.List, reset)
	}
	news.Resets.Lost = int64(len(news.Resets.List)) != news.Resets.Newest-seen.Resets
	newest := words{text: r.answer}
	news.Newest = newest.next()
	news.Processes = int(newest.next())
	for _, value := range changed {
		var client storage.Client
		copy(client.Key[:], value)
		copy(client.Former[:], value[min(len(value), len(client.Key)):])
		news.Changed = append(news.Changed, client)
	}
	news.Missed = int64(len(news.Changed)) != news.Newest-seen.Changes
	if newest.err != nil {
		return news, newest.err
	}
	news.Notes, news.MoreNotes, err = notesOf(r)
	return news, err
}
