package gate

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// networkOf returns a network, one for each number.
func networkOf(i int) netip.Prefix {
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{192, 0, 2, byte(i)}), 32)
}

// One network with many connections takes every other turn, not all: of seven requests that come one
// after another, each is let in after at most one of theirs.
func TestManyConnectionsStarveNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, r := new(Gate), Rule{Most: 1, Wait: 3 * time.Second, Queue: 100}
		ask := func(ctx context.Context, network int) error {
			_, err := g.Enter(ctx, "key", networkOf(network), r, nil)
			if err == nil {
				time.Sleep(time.Second)
				g.Leave("key")
			}
			return err
		}
		ctx, cancel := context.WithCancel(t.Context())
		for range 40 {
			go func() {
				for ctx.Err() == nil {
					ask(ctx, 1)
				}
			}()
		}
		synctest.Wait()
		for i := range 7 {
			began := time.Now()
			if err := ask(t.Context(), 2); err != nil || time.Since(began) > 3*time.Second {
				t.Errorf("request %d: got %v after %v", i, err, time.Since(began))
			}
		}
		cancel()
		time.Sleep(time.Minute)
	})
}

// A network that fills all positions with requests for other keys keeps nobody out: the last of its own
// have to go.
func TestWhoHoldsMostHasToGo(t *testing.T) {
	for _, c := range []struct {
		name  string
		queue int
		gates int
	}{{"one line", 50, 1}, {"all lines", MaxWaiting, 20}} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := Rule{Most: 1, Wait: time.Minute, Queue: c.queue}
				gates := make([]Gate, c.gates)
				for i := range gates {
					if _, err := gates[i].Enter(t.Context(), "key", networkOf(0), r, nil); err != nil {
						t.Fatal(err)
					}
				}
				var mu sync.Mutex
				var went []int // guarded by mu
				most := min(c.queue, MaxWaiting)
				for i := range most {
					go func() {
						if _, err := gates[i%c.gates].Enter(context.Background(), "key", networkOf(1), r, nil); errors.Is(err, ErrFull) {
							mu.Lock()
							went = append(went, i)
							mu.Unlock()
						}
					}()
					synctest.Wait()
				}
				another := new(Gate)
				for _, g := range []*Gate{&gates[0], another} {
					if g == another && c.gates == 1 {
						continue // it has a line of its own, with room
					}
					if g == another {
						if _, err := g.Enter(t.Context(), "key", networkOf(0), r, nil); err != nil {
							t.Fatal(err)
						}
					}
					go g.Enter(context.Background(), "key", networkOf(2), r, nil)
					synctest.Wait()
				}
				want := []int{most - 1}
				if c.gates > 1 {
					want = append(want, most-2)
				}
				mu.Lock()
				if !slices.Equal(went, want) {
					t.Errorf("%v had to go, want %v", went, want)
				}
				mu.Unlock()
				if _, err := gates[0].Enter(t.Context(), "key", networkOf(1), r, nil); !errors.Is(err, ErrFull) {
					t.Errorf("one more of those who hold most: got %v", err)
				}
				time.Sleep(2 * time.Minute)
				if n := allWaiting(); n != 0 {
					t.Errorf("%d wait still", n)
				}
			})
		})
	}
}

// position is a request that waits, in a list that knows nothing of parties and heaps.
type position struct {
	number, network int
	since           int // when its network last had a turn, or came
}

// slowLine is the line as its promises say.
type slowLine struct {
	most, in, queue int
	now             int
	waiting         []position
	entered, full   []int
}

// next returns the index of the request whose turn it is: the earliest of the network that has waited
// longest for its turn.
func (s *slowLine) next() int {
	best := 0
	for i, p := range s.waiting {
		if p.since < s.waiting[best].since {
			best = i
		}
	}
	return best
}

func (s *slowLine) admit() {
	for len(s.waiting) > 0 && s.in < s.most {
		i := s.next()
		p := s.waiting[i]
		s.waiting = slices.Delete(s.waiting, i, i+1)
		s.now++
		for j := range s.waiting {
			if s.waiting[j].network == p.network {
				s.waiting[j].since = s.now
			}
		}
		s.in++
		s.entered = append(s.entered, p.number)
	}
}

func (s *slowLine) held(network int) (n int) {
	for _, p := range s.waiting {
		if p.network == network {
			n++
		}
	}
	return n
}

func (s *slowLine) enter(number, network int) {
	s.now++
	if s.in < s.most {
		s.in++
		s.entered = append(s.entered, number)
		return
	}
	if len(s.waiting) == s.queue {
		most := 0
		for _, p := range s.waiting {
			most = max(most, s.held(p.network))
		}
		if most <= s.held(network)+1 {
			s.full = append(s.full, number)
			return
		}
		last := -1 // which of several networks with the most has to go is left open: see the test
		for i, p := range s.waiting {
			if s.held(p.network) == most {
				last = i
			}
		}
		s.full = append(s.full, s.waiting[last].number)
		s.waiting = slices.Delete(s.waiting, last, last+1)
	}
	p := position{number, network, s.now}
	for _, q := range s.waiting {
		if q.network == network {
			p.since = q.since
		}
	}
	s.waiting = append(s.waiting, p)
}

// leave is a request that gives up.
func (s *slowLine) leave(number int) {
	s.now++
	s.waiting = slices.DeleteFunc(s.waiting, func(p position) bool { return p.number == number })
}

// Random clients, some of which leave, are let in and turned away in the order that a slow line says.
func TestTurnsAreThoseOfASlowLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		seed := rand.Uint64()
		random := rand.New(rand.NewPCG(seed, 1))
		turned, left, overtaken := 0, 0, 0
		for round := range 60 {
			g := new(Gate)
			slow := &slowLine{most: 1 + random.IntN(3), queue: 1 + random.IntN(12)}
			r := Rule{Most: int64(slow.most), Wait: time.Hour, Queue: slow.queue}
			var entered, full []int
			cancels := make(map[int]context.CancelFunc)
			for number := range 200 {
				switch random.IntN(5) {
				case 0, 1, 2:
					network := random.IntN(1 + random.IntN(5)) // some have many
					if len(slow.waiting) == slow.queue && slow.isTied(network) {
						continue
					}
					ctx, cancel := context.WithCancel(context.Background())
					cancels[number] = cancel
					slow.enter(number, network)
					go func() {
						switch _, err := g.Enter(ctx, "key", networkOf(network), r, nil); err {
						case nil:
							entered = append(entered, number)
						case ErrFull:
							full = append(full, number)
						}
					}()
				case 3:
					if slow.in > 0 {
						slow.in--
						slow.admit()
						g.Leave("key")
					}
				case 4:
					if len(slow.waiting) > 0 {
						p := slow.waiting[random.IntN(len(slow.waiting))]
						slow.leave(p.number)
						cancels[p.number]()
						left++
					}
				}
				synctest.Wait()
				if !slices.Equal(entered, slow.entered) || !slices.Equal(full, slow.full) || g.Waiting() != len(slow.waiting) {
					t.Fatalf("seed %d, round %d: entered %v, turned away %v, %d wait; want %v, %v, %d",
						seed, round, entered, full, g.Waiting(), slow.entered, slow.full, len(slow.waiting))
				}
			}
			turned += len(full)
			if !slices.IsSorted(entered) {
				overtaken++
			}
			for _, cancel := range cancels {
				cancel()
			}
			synctest.Wait()
			for ; slow.in > 0; slow.in-- {
				g.Leave("key")
			}
			if g.Len() != 0 || allWaiting() != 0 {
				t.Fatalf("seed %d: %d keys and %d that wait are left", seed, g.Len(), allWaiting())
			}
		}
		if turned < 100 || left < 100 || overtaken < 10 {
			t.Errorf("seed %d: %d were turned away, %d have left, in %d rounds somebody was overtaken", seed, turned, left, overtaken)
		}
	})
}

// isTied reports whether several networks have as many as any, one of which a new request would displace.
func (s *slowLine) isTied(network int) bool {
	most, with := 0, 0
	for n := range 5 {
		switch held := s.held(n); {
		case held > most:
			most, with = held, 1
		case held == most:
			with++
		}
	}
	return most > s.held(network)+1 && with > 1
}
