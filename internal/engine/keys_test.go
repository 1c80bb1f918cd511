package engine

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/limiter/reputation"
	"github.com/caddy-tally/caddy-tally/storage"
)

func TestKeysAreWhatWasUsedAndRefused(t *testing.T) {
	for _, algorithm := range algorithms {
		t.Run(algorithm.String(), func(t *testing.T) {
			f, random := newFixture(t), rand.New(rand.NewPCG(1, uint64(algorithm)))
			limits := []*Limit{
				newLimit(t, limiter.Params{Algorithm: algorithm, Amount: 10, Window: 24 * time.Hour}),
				newLimit(t, limiter.Params{Algorithm: algorithm, Amount: 30, Window: 24 * time.Hour}),
			}
			type count struct {
				limit         *Limit
				key           string
				used, refused int64
			}
			var want []*count
			for i := range 40 {
				c := &count{limit: limits[i%2], key: fmt.Sprint("key ", i)}
				for range random.IntN(50) {
					if f.ask(debit(c.limit, c.key, 1)).Allowed {
						c.used++
					} else {
						c.refused++
					}
				}
				if c.used > 0 {
					want = append(want, c)
				}
			}
			counts := make(map[storage.LimitID]int64)
			for _, c := range want {
				counts[c.limit.ID]++
			}
			if got := f.KeyCounts(); !maps.Equal(got, counts) {
				t.Errorf("the limits count %v keys, want %v", got, counts)
			}
			for _, q := range []KeysQuery{
				{N: 5}, {N: 100}, {N: 7, Order: ByRefused}, {N: 100, Blocked: true},
				{N: 3, Match: func(id storage.LimitID, key []byte) bool { return id == limits[1].ID && string(key) != "key 3" }}, {N: 0}, {N: -1},
			} {
				expected := slices.DeleteFunc(slices.Clone(want), func(c *count) bool {
					return q.Blocked && c.refused == 0 || q.Match != nil && !q.Match(c.limit.ID, []byte(c.key))
				})
				slices.SortFunc(expected, func(a, b *count) int {
					by := cmp.Compare(b.used*a.limit.Capacity(), a.used*b.limit.Capacity())
					if q.Order == ByRefused {
						by = cmp.Compare(b.refused, a.refused)
					}
					return cmp.Or(by, cmp.Compare(a.limit.ID, b.limit.ID), byHash([]byte(a.key), []byte(b.key)))
				})
				expected = expected[:min(max(q.N, 0), len(expected))]
				got := f.Keys(q)
				if len(got) != len(expected) {
					t.Fatalf("%+v: %d keys, want %d", q, len(got), len(expected))
				}
				for i, k := range got {
					w := expected[i]
					if k.Key != w.key || *k.Limit != *w.limit || k.Used != w.used || k.Left != w.limit.Capacity()-w.used || k.Refused != w.refused || (k.Blocked > 0) != (w.refused > 0) {
						t.Errorf("%+v: key %d is %+v, want %+v", q, i, k, *w)
					}
				}
			}
		})
	}
}

// The order of keys with equal use isn't that of their names, which may be masked addresses.
func TestOrderOfKeysTellsNothing(t *testing.T) {
	f := newFixture(t)
	for i := range 64 {
		f.Punish(&Client{Key: []byte(fmt.Sprintf("client %02d", i))}, reputation.Offense{
			Violation: reputation.Violation{Reason: reputation.Trapped},
			Ban:       reputation.Ban{After: 1, Within: time.Hour, For: time.Hour},
		})
	}
	var names []string
	for _, c := range f.Clients(ClientsQuery{N: 100}) {
		names = append(names, c.Key)
	}
	if len(names) != 64 || slices.IsSorted(names) || byHash([]byte("a"), []byte("b")) == 0 {
		t.Errorf("the clients are listed as %v", names)
	}
}

func TestBannedClientsAreListed(t *testing.T) {
	f := newFixture(t)
	for i, hours := range []int{2, 0, 3, 1} {
		if hours > 0 {
			f.Punish(&Client{Key: []byte(fmt.Sprint("client ", i))}, reputation.Offense{
				Violation: reputation.Violation{Reason: reputation.Trapped},
				Ban:       reputation.Ban{After: 1, Within: time.Hour, For: time.Duration(hours) * time.Hour},
			})
		}
	}
	var got []string
	for _, b := range f.Clients(ClientsQuery{Banned: true, N: 2}) {
		got = append(got, b.Key)
	}
	if want := []string{"client 2", "client 0"}; !slices.Equal(got, want) {
		t.Errorf("banned for longest: %q, want %q", got, want)
	}
	f.fake.advance(150 * time.Minute)
	if got := f.Clients(ClientsQuery{Banned: true, N: 10}); len(got) != 1 || got[0].Key != "client 2" || got[0].Banned != 30*time.Minute {
		t.Errorf("after 150 minutes: %+v", got)
	}
}

func BenchmarkKeys(b *testing.B) {
	const keys = 1_000_000
	e := benchEngine(b)
	limit := newLimit(b, limiter.Params{Amount: 100, Window: time.Hour})
	var asking sync.WaitGroup
	for n := range 7 {
		var texts [][]byte
		for i := n; i < keys; i += 7 {
			texts = append(texts, binary.BigEndian.AppendUint64(nil, uint64(i)))
		}
		asking.Go(func() { askOften(e, limit, texts, 1+n) })
	}
	asking.Wait()
	b.ReportAllocs()
	for b.Loop() {
		if got := e.Keys(KeysQuery{N: 20}); len(got) != 20 {
			b.Fatalf("%d keys", len(got))
		}
	}
}
