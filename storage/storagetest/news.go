package storagetest

import (
	"context"
	"errors"
	"reflect"
	"testing"

	"github.com/caddy-tally/caddy-tally/storage"
)

func news(t *testing.T, s storage.Network, seen storage.Seen) storage.News {
	t.Helper()
	read, err := s.News(context.Background(), seen)
	if err != nil {
		t.Fatalf("news: %v", err)
	}
	return read
}

// testNews commits offenses and resets through one handle. Another one reports each change once,
// with the names of the original call.
func testNews(t *testing.T, open storage.Opener) {
	s, other, c := network(t, open), network(t, open), &processClock{wall: start, source: 1}
	if first := news(t, s, storage.Seen{Changes: -1}); len(first.Changed) > 0 || first.Newest != 0 ||
		first.Resets.Newest != 0 || first.Resets.Lost {
		t.Fatalf("of a new store there is the news %+v", first)
	}
	var seen storage.Seen
	total := int64(0)
	for round := range 5 {
		var want []storage.Client
		for i := range round {
			client := storage.Client{Key: key(10*round + i)}
			if i%2 == 1 {
				client.Former = key(10*round + i - 1)
			}
			want = append(want, client)
			punishIn(t, other, termNow(t, other, c), offense(client, start, 25))
		}
		total += int64(len(want))
		reset(t, other, c, storage.Reset{ID: int64(1 + round), Client: true, Key: key(1)})
		got := news(t, s, seen)
		if !reflect.DeepEqual(got.Changed, want) || got.Newest != total || got.Missed {
			t.Fatalf("round %d: %+v, want %d changes of %+v", round, got, total, want)
		}
		if known := got.Resets; known.Newest != int64(1+round) || len(known.List) != 1 || known.Lost ||
			known.List[0].Key != key(1) {
			t.Fatalf("round %d: the resets are %+v", round, known)
		}
		seen = storage.Seen{Resets: got.Resets.Newest, Changes: got.Newest}
		if again := news(t, s, seen); len(again.Changed) > 0 || again.Missed || len(again.Resets.List) > 0 ||
			again.Newest != total {
			t.Fatalf("round %d: there is more: %+v", round, again)
		}
	}
}

// testNewsMissed requests more changes than a store keeps, and changes with the numbers of another
// place.
func testNewsMissed(t *testing.T, open storage.Opener) {
	s := network(t, open)
	const many = storage.MaxChanges + 10
	for made := 0; made < many; {
		var offenses []storage.Offense
		for range min(100, many-made) {
			offenses = append(offenses, offense(storage.Client{Key: key(made)}, start, 1))
			made++
		}
		punish(t, s, offenses...)
	}
	got := news(t, s, storage.Seen{})
	if n := len(got.Changed); !got.Missed || got.Newest != many || n > storage.MaxChanges || n < storage.MaxChanges/2 ||
		got.Changed[n-1].Key != key(many-1) {
		t.Errorf("%d of %d changes are known, missed is %v", n, got.Newest, got.Missed)
	}
	for _, number := range []int64{-1, many + 1} {
		if got := news(t, s, storage.Seen{Changes: number}); got.Newest != many || len(got.Changed) > 0 || !got.Missed {
			t.Errorf("after %d: %d changes, the newest is %d, missed is %v", number, len(got.Changed),
				got.Newest, got.Missed)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.News(context.Background(), storage.Seen{}); !errors.Is(err, storage.ErrClosed) {
		t.Errorf("closed: %v, want %v", err, storage.ErrClosed)
	}
}
