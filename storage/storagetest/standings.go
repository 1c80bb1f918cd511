package storagetest

import (
	"context"
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/caddy-tally/caddy-tally/limiter/reputation"
	"github.com/caddy-tally/caddy-tally/storage"
)

// testStandings commits offenses of several clients in several batches, and compares the records
// with the arithmetic of package reputation, also after opening the store again.
func testStandings(t *testing.T, open storage.Opener) {
	s, model := must(t, open), map[storage.Key]*reputation.Record{}
	rule := reputation.Ban{After: 3, Within: time.Hour, For: time.Minute}
	now := start
	for batch := range 40 {
		var offenses []storage.Offense
		for i := range batch%5 + 1 {
			now += int64(7 * time.Second)
			offenses = append(offenses, storage.Offense{
				Client: storage.Client{Key: key(i % 3)},
				Offense: reputation.Offense{
					Violation: reputation.Violation{At: now, Zone: uint32(i), Reason: reputation.OverLimit},
					Points:    batch % 7, Ban: rule,
				},
			})
		}
		blocked := storage.Offense{Client: storage.Client{Key: key(3 + batch%2)}} // which may begin anew, or not
		blocked.At, blocked.Reason = now, reputation.Blocked
		blocked.Ban = reputation.Ban{For: time.Minute, Within: time.Duration(batch%2) * 30 * time.Second}
		offenses = append(offenses, blocked)
		for i, got := range punish(t, s, offenses...) {
			k := offenses[i].Key
			if model[k] == nil {
				model[k] = new(reputation.Record)
			}
			model[k].Commit(offenses[i].Offense)
			if want := *model[k]; !reflect.DeepEqual(got, want) {
				t.Fatalf("batch %d, offense %d: the record is %+v, want %+v", batch, i, got, want)
			}
		}
		if batch%10 == 9 {
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			s = must(t, open)
		}
	}
	for k, want := range model {
		if got := standing(t, s, At(now), storage.Client{Key: k}); !reflect.DeepEqual(got, *want) {
			t.Errorf("the record is %+v, want %+v", got, *want)
		}
	}
	if got := standing(t, s, At(now), storage.Client{Key: key(99)}); !reflect.DeepEqual(got, reputation.Record{}) {
		t.Errorf("a client that nothing is known of has the record %+v", got)
	}
}

// testRenamed reads the records of renamed clients.
func testRenamed(t *testing.T, open storage.Opener) {
	s := must(t, open)
	before := storage.Client{Key: key(1)}
	after := storage.Client{Key: key(2), Former: key(1)}
	want := punish(t, s, offense(before, start, 25))[0]
	for range 2 { // the first time moves it
		if got := standing(t, s, At(start), after); !reflect.DeepEqual(got, want) {
			t.Fatalf("under its new name the client has the record %+v, want %+v", got, want)
		}
	}
	if got := standing(t, s, At(start), before); !reflect.DeepEqual(got, reputation.Record{}) {
		t.Errorf("what was moved is still known under the former name: %+v", got)
	}
	want.Commit(offense(after, start+1, 25).Offense)
	if got := punish(t, s, offense(after, start+1, 25))[0]; !reflect.DeepEqual(got, want) {
		t.Errorf("an offense under the new name leads to %+v, want %+v", got, want)
	}
	third := storage.Client{Key: key(3), Former: key(2)}
	want.Commit(offense(third, start+2, 25).Offense)
	if got := punish(t, s, offense(third, start+2, 25))[0]; !reflect.DeepEqual(got, want) {
		t.Errorf("a first offense under a new name leads to %+v, want %+v", got, want)
	}
	if got := standing(t, s, At(start+2), after); !reflect.DeepEqual(got, reputation.Record{}) {
		t.Errorf("what an offense moved is still known under the former name: %+v", got)
	}
}

// testBanUnderTwoNames has one process ban a client under its old name, while another commits a
// lesser offense under the new one.
func testBanUnderTwoNames(t *testing.T, open storage.Opener) {
	s := must(t, open)
	ban := offense(storage.Client{Key: key(1)}, start, 25)
	ban.Ban = reputation.Ban{After: 1, Within: time.Hour, For: time.Hour}
	until := punish(t, s, ban)[0].Until
	punish(t, s, offense(storage.Client{Key: key(2)}, start+int64(time.Minute), 25))
	both := storage.Client{Key: key(2), Former: key(1)}
	if got := standing(t, s, At(start+int64(2*time.Minute)), both); until == 0 || got.Until != until {
		t.Errorf("banned until %d, want %d", got.Until, until)
	}
}

// testSweepStandings sweeps records, some of which have expired.
func testSweepStandings(t *testing.T, open storage.Opener) {
	const clients = MaxStep + 200
	s := must(t, open)
	var offenses []storage.Offense
	for i := range clients {
		offenses = append(offenses, offense(storage.Client{Key: key(i)}, start, 25))
	}
	expires := punish(t, s, offenses...)[0].Expires()
	if rows := sweepAll(t, s, At(expires-1)); rows != 0 {
		t.Errorf("a sweep deleted %d records that say something", rows)
	}
	if rows := sweepAll(t, s, At(expires)); rows != clients {
		t.Errorf("a sweep deleted %d expired records, want %d", rows, clients)
	}
}

// testSweepCounted sweeps records with violations that cost nothing and may still lead to a ban.
func testSweepCounted(t *testing.T, open storage.Opener) {
	s := must(t, open)
	violation := offense(storage.Client{Key: key(1)}, start, 0)
	violation.Ban = reputation.Ban{After: 2, Within: 30 * 24 * time.Hour, For: time.Hour}
	punish(t, s, violation)
	later := start + int64(violation.Ban.Within)
	if rows := sweepAll(t, s, At(later-1)); rows != 0 {
		t.Errorf("a sweep deleted %d violations that count", rows)
	}
	violation.At = later - 1
	if got := punish(t, s, violation)[0]; !got.Banned(later) {
		t.Errorf("two violations in time lead to %+v", got)
	}
	third := offense(storage.Client{Key: key(2)}, start, 0)
	third.Ban = violation.Ban
	punishIn(t, s, At(later-1), third)
	if rows := sweepAll(t, s, At(later)); rows != 1 {
		t.Errorf("a sweep deleted %d violations that count no more, want 1", rows)
	}
}

// testBadStandings makes invalid calls about clients.
func testBadStandings(t *testing.T, open storage.Opener) {
	s := must(t, open)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	offenses, none := []storage.Offense{offense(storage.Client{Key: key(1)}, start, 25)}, []reputation.Record{}
	if s.Punish(context.Background(), At(start), offenses, none) == nil {
		t.Error("a record is missing, and there is no error")
	}
	if s.Records(context.Background(), At(start), make([]storage.Client, 1), none) == nil {
		t.Error("a record is missing, and there is no error")
	}
	room := make([]reputation.Record, 1)
	if err := s.Punish(ctx, At(start), offenses, room); !errors.Is(err, context.Canceled) {
		t.Errorf("after its context ended, punish says %v", err)
	}
	if got := standing(t, s, At(start), offenses[0].Client); !reflect.DeepEqual(got, reputation.Record{}) {
		t.Errorf("a call that failed has led to %+v", got)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.Punish(context.Background(), At(start), offenses, room); !errors.Is(err, storage.ErrClosed) {
		t.Errorf("a closed store says %v", err)
	}
	if err := s.Records(context.Background(), At(start), make([]storage.Client, 1), room); !errors.Is(err,
		storage.ErrClosed) {
		t.Errorf("a closed store says %v", err)
	}
}

func offense(c storage.Client, at int64, points int) storage.Offense {
	return storage.Offense{Client: c, Offense: reputation.Offense{
		Violation: reputation.Violation{At: at, Reason: reputation.Trapped}, Points: points,
	}}
}

// punish sends offenses at the time of the first one.
func punish(t *testing.T, s storage.Store, offenses ...storage.Offense) []reputation.Record {
	t.Helper()
	return punishIn(t, s, At(offenses[0].At), offenses...)
}

func punishIn(t *testing.T, s storage.Store, term *storage.Term, offenses ...storage.Offense) []reputation.Record {
	t.Helper()
	records := make([]reputation.Record, len(offenses))
	if err := s.Punish(context.Background(), term, offenses, records); err != nil {
		t.Fatalf("punish: %v", err)
	}
	return records
}

func standing(t *testing.T, s storage.Store, term *storage.Term, c storage.Client) reputation.Record {
	t.Helper()
	records := make([]reputation.Record, 1)
	if err := s.Records(context.Background(), term, []storage.Client{c}, records); err != nil {
		t.Fatalf("standings: %v", err)
	}
	return records[0]
}
