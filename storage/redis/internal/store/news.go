package store

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/caddy-tally/caddy-tally/storage"
)

// news is what other machines have changed.
type news struct{ machine *machine }

// Resets implements [storage.Store].
func (n news) Resets(ctx context.Context, after int64) (storage.Resets, error) {
	heard, err := n.ask(ctx, "resets", storage.Seen{Resets: after, Changes: -1, Notes: -1})
	return heard.Resets, err
}

// News implements [storage.Network].
func (n news) News(ctx context.Context, seen storage.Seen) (storage.News, error) {
	return n.ask(ctx, "news", seen)
}

func (n news) ask(ctx context.Context, what string, seen storage.Seen) (heard storage.News, err error) {
	r, err := n.machine.read(ctx, n.look(what, seen, ""))
	if err == nil {
		if heard, err = newsOf(r, seen); err != nil {
			err = fmt.Errorf("redis: %s: %w", what, err)
		}
	}
	return heard, err
}

// look returns the call that asks for news. With "0" as dropBefore it also drops old notes of resets.
func (n news) look(what string, seen storage.Seen, dropBefore string) call {
	names := n.machine.server.names
	return call{what: what, script: newsScript, request: func(int64) request {
		return request{
			keys: []string{names.resets(), names.changes(), names.resetIDs(), names.notes(), names.noteNumbers(),
				names.processes()},
			args: []string{strconv.FormatInt(seen.Resets, 10), strconv.FormatInt(seen.Changes, 10), dropBefore,
				strconv.FormatInt(seen.Notes, 10)},
		}
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
