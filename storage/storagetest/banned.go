package storagetest

import (
	"context"
	"errors"
	"maps"
	"reflect"
	"testing"
	"time"

	"github.com/caddy-tally/caddy-tally/limiter/reputation"
	"github.com/caddy-tally/caddy-tally/storage"
)

// testBanned bans some of more clients than the store reads at once through one handle, and lists
// them through another. The list has the bans in force, and at most the requested number.
func testBanned(t *testing.T, open storage.Opener) {
	const clients = MaxStep + 300
	s, lister := must(t, open), must(t, open)
	var offenses []storage.Offense
	want := make(map[storage.Key]reputation.Record)
	for i := range clients {
		o := offense(storage.Client{Key: key(i)}, start, 25)
		if i%100 == 7 { // few
			o.Ban = reputation.Ban{After: 1, Within: time.Hour, For: time.Duration(i+1) * time.Minute,
				Most: reputation.MaxBan}
		}
		offenses = append(offenses, o)
	}
	for i, r := range punish(t, s, offenses...) {
		if i%100 == 7 {
			want[key(i)] = r
		}
	}
	wantBanned(t, lister, start, 1000, want)
	shortest := want[key(7)].Until
	wantBanned(t, lister, shortest-1, len(want), want)
	left := maps.Clone(want)
	delete(left, key(7))
	wantBanned(t, lister, shortest, len(want), left)
	for _, most := range []int{-1, 0, 1, len(want) - 1} {
		if list, err := lister.Banned(context.Background(), start, most); err != nil || len(list) != max(most, 0) {
			t.Errorf("asked for %d: got %d, %v", most, len(list), err)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := lister.Banned(ctx, start, 1); !errors.Is(err, context.Canceled) {
		t.Errorf("after its context ended, it says %v", err)
	}
	if err := lister.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := lister.Banned(context.Background(), start, 1); !errors.Is(err, storage.ErrClosed) {
		t.Errorf("a closed store says %v", err)
	}
}

func wantBanned(t *testing.T, lister storage.Store, now int64, most int, want map[storage.Key]reputation.Record) {
	t.Helper()
	got, err := lister.Banned(context.Background(), now, most)
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%d are banned, %v, want %d: %v, %v", len(got), err, len(want), got, want)
	}
}
