package store

import (
	"testing"

	"github.com/caddy-tally/caddy-tally/internal/testing/testserver"
	"github.com/caddy-tally/caddy-tally/storage"
)

// A machine whose own writes are all there doesn't notice that a server has lost notes of others,
// for example by a failover. It reports all later notes.
func TestNotesAfterOthersWereLost(t *testing.T) {
	server := testserver.Redis(t)
	opened(t, at(server.Address()))
	server.Must(t, "SAVE")
	put := func(name byte) {
		s := opened(t, at(server.Address()))
		if err := s.PutNotes(t.Context(), []storage.Note{{Name: storage.Key{name}, Value: []byte("x"), Version: 1}}, false); err != nil {
			t.Fatal(err)
		}
	}
	notesAfter := func(after int64) []storage.Note {
		news, err := opened(t, at(server.Address())).News(t.Context(), storage.Seen{Changes: -1, Notes: after})
		if err != nil {
			t.Fatal(err)
		}
		return news.Notes
	}
	put(1)
	put(2)
	seen := notesAfter(0)
	restoreOld(t, server)
	put(3)
	if now := notesAfter(seen[len(seen)-1].Number); len(now) != 1 || now[0].Name != (storage.Key{3}) {
		t.Errorf("after %+v were lost, machines that knew them are told of %+v, want the third note", seen, now)
	}
}

// If notes were deleted from the server by hand, machines report the others, and all other news.
func TestNotesRemovedByHand(t *testing.T) {
	server := testserver.Redis(t)
	s := opened(t, at(server.Address()))
	put := func(name byte) {
		if err := s.PutNotes(t.Context(), []storage.Note{{Name: storage.Key{name}, Value: []byte("x"), Version: 1}}, false); err != nil {
			t.Fatal(err)
		}
	}
	put(1)
	server.Must(t, "DEL", s.server.names.notes())
	put(2)
	news, err := s.News(t.Context(), storage.Seen{Changes: -1})
	if err != nil || len(news.Notes) != 1 || news.Notes[0].Name != (storage.Key{2}) {
		t.Errorf("after the first note was removed by hand: %+v (%v), want the second", news.Notes, err)
	}
}
