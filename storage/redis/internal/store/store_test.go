package store

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/testing/proof"
	"github.com/caddy-tally/caddy-tally/internal/testing/testserver"
	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/limiter/reputation"
	"github.com/caddy-tally/caddy-tally/storage"
	"github.com/caddy-tally/caddy-tally/storage/storagetest"
)

// common is the server of tests that only need a place. It ends with the process.
var common struct {
	once   sync.Once
	server *testserver.RedisServer
	places atomic.Int64
}

func TestMain(m *testing.M) {
	proof.Overlap()
	defer func() {
		if common.server != nil {
			common.server.Close()
		}
	}()
	m.Run()
}

// newPlace returns options for a new place on the common server.
func newPlace(t testing.TB) Options {
	t.Helper()
	testserver.FindRedis(t)
	common.once.Do(func() { common.server = testserver.CommonRedis(t) })
	return Options{
		Addresses: []string{common.server.Address()},
		Prefix:    fmt.Sprintf("{t%d}", common.places.Add(1)),
		Timeout:   10 * time.Second,
	}
}

func TestConformance(t *testing.T) {
	t.Parallel()
	storagetest.Run(t, func(t *testing.T) storage.Opener {
		o := newPlace(t)
		o.wallTime = true
		if !proof.IsOn() {
			o.maxNotes = storagetest.FewNotes
		}
		return Opener(o)
	}, append(storagetest.SweptByServer, storagetest.ServerTime)...)
}

// The server deletes counts and records by itself, not before they expire and soon after that.
func TestExpiry(t *testing.T) {
	t.Parallel()
	s := opened(t, newPlace(t))
	wantExpiry := func(name string, expires, now int64) {
		t.Helper()
		left, err := s.server.client.Do(t.Context(), s.server.client.B().Pttl().Key(name).Build()).AsInt64()
		after := (expires - now) / 1e6
		if err != nil || left < after || left > after+after/1000+3000 {
			t.Errorf("%s is deleted after %d ms (%v), and counts for %d", name, left, err, after)
		}
	}
	for i, p := range []limiter.Params{
		{Amount: 10, Window: time.Minute},
		{Algorithm: limiter.Fixed, Amount: 10, Window: 24 * time.Hour},
		{Algorithm: limiter.Fixed, Amount: 10, Window: limiter.Month},
		{Algorithm: limiter.TokenBucket, Amount: 3600, Window: time.Hour, Burst: 5000},
	} {
		l, err := limiter.New(p)
		if err != nil {
			t.Fatal(err)
		}
		term := &storage.Term{Clock: steadyClock{1}}
		claims := []storage.Claim{{ID: storage.LimitID(i), Key: storage.Key{1}, Limit: l, Claim: limiter.Claim{Min: 1, Want: l.Capacity()}}}
		if err := s.Claim(t.Context(), term, claims, make([]limiter.Grant, 1)); err != nil {
			t.Fatal(err)
		}
		var state limiter.State
		l.Claim(&state, claims[0].Claim)
		wantExpiry(s.server.names.count(claims[0].ID, claims[0].Key), state.Expires(&l, term.Time.Now), term.Time.Now)
	}
	term, records := &storage.Term{Clock: steadyClock{1}}, make([]reputation.Record, 1)
	offense := storage.Offense{Client: storage.Client{Key: storage.Key{1}}, Offense: reputation.Offense{
		Violation: reputation.Violation{At: time.Now().UnixNano(), Reason: reputation.Trapped}, Points: 25,
	}}
	if err := s.Punish(t.Context(), term, []storage.Offense{offense}, records); err != nil {
		t.Fatal(err)
	}
	wantExpiry(s.server.names.record(storage.Key{1}), records[0].Expires(), term.Time.Now)
}
