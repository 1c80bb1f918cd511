package readahead

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"testing/synctest"
)

func requestOf(ctx context.Context, body io.Reader) *http.Request {
	r, _ := http.NewRequestWithContext(ctx, http.MethodPost, "http://example.com/", io.NopCloser(body))
	return r
}

// Held returns the memory of all bodies, in bytes.
func (p *Pool) Held() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.held
}

func networkOf(n int) netip.Prefix {
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(n >> 16), byte(n >> 8), byte(n)}), 32)
}

// check fails if a pool's memory isn't that of its bodies, or is above its bound.
func (p *Pool) check(t *testing.T) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	sum, most := int64(0), int64(0)
	for network, h := range p.holders {
		held := int64(0)
		for e := h.bodies.Front(); e != nil; e = e.Next() {
			b := e.Value.(*Body)
			if b.held < int64(cap(b.data)) || b.network != network {
				t.Fatalf("a body of %v has %d bytes, and %d are reserved", network, cap(b.data), b.held)
			}
			held += b.held
		}
		if held != h.held || h.bodies.Len() == 0 || p.ranking[h.rank] != h {
			t.Fatalf("%v has %d bytes in %d bodies, got %d", network, held, h.bodies.Len(), h.held)
		}
		sum, most = sum+held, max(most, held)
	}
	if sum != p.held || sum > p.most || len(p.ranking) != len(p.holders) || len(p.ranking) > 0 && p.ranking[0].held != most {
		t.Fatalf("%d bytes are held, got %d, want at most %d", sum, p.held, p.most)
	}
}

// What is read ahead is read again, byte for byte, whatever the pieces that it comes in.
func TestBodiesComeBack(t *testing.T) {
	for _, size := range []int{0, 1, 2, 511, 512, 513, 1000, 4096, 5000} {
		for name, pieces := range map[string]func(io.Reader) io.Reader{"whole": func(r io.Reader) io.Reader { return r }, "byte by byte": iotest.OneByteReader, "half": iotest.HalfReader, "with the end": iotest.DataErrReader} {
			for _, fills := range [][]int{{0}, {1}, {511}, {512}, {4096}, {9999}, {10, 600, 4999, 5000}, {600, 10}} {
				p, want := NewPool(1<<20), []byte(strings.Repeat("0123456789", size)[:size])
				r := requestOf(t.Context(), pieces(bytes.NewReader(want)))
				b := p.Of(r, networkOf(1))
				for _, most := range fills {
					longer, err := p.Of(r, networkOf(1)).Fill(most)
					if top := slices.Max(fills); err != nil || len(fills) == 1 && longer != (size > top) {
						t.Fatalf("%d bytes %s, of which at most %d are read: longer %v, %v", size, name, most, longer, err)
					}
					p.check(t)
				}
				if text, err := b.Text(); err != nil || !strings.HasPrefix(string(want), text) {
					t.Errorf("%d bytes %s: text %q, %v", size, name, text, err)
				}
				if got, err := io.ReadAll(r.Body); err != nil || !bytes.Equal(got, want) || p.Held() != 0 {
					t.Errorf("%d bytes %s come back as %d, %v, and %d stay in memory", size, name, len(got), err, p.Held())
				}
			}
		}
	}
}

// A request that ends, and a body that is closed, take no memory.
func TestEndedBodiesTakeNoMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := NewPool(1 << 20)
		ctx, end := context.WithCancel(t.Context())
		p.Of(requestOf(ctx, strings.NewReader("guess")), networkOf(1)).Fill(100)
		closed := p.Of(requestOf(t.Context(), strings.NewReader("guess")), networkOf(1))
		closed.Fill(100)
		if p.Held() != 2*101 {
			t.Errorf("two bodies take %d bytes", p.Held())
		}
		closed.Close()
		end()
		synctest.Wait()
		p.check(t)
		if p.Held() != 0 {
			t.Errorf("%d bytes stay in memory", p.Held())
		}
	})
}

// A random model: attackers in few networks declare bodies, and send them in small pieces, or stop.
// Whoever sends a small body from another network is always served, and the bound holds exactly.
func TestSmallBodiesAreReadBesideHoarders(t *testing.T) {
	for seed := range uint64(30) {
		random := rand.New(rand.NewPCG(seed, 1))
		p := NewPool(64 << 10)
		hoarders := 1 + random.IntN(20)
		var held []*Body
		data := make([]byte, step)
		for i := range 4000 {
			if random.IntN(3) > 0 || len(held) == 0 {
				held = append(held, &Body{pool: p, network: networkOf(random.IntN(hoarders))})
			}
			b := held[random.IntN(len(held))]
			p.keep(b, data[:1+random.IntN(step)], 1<<20)
			if random.IntN(20) == 0 {
				p.release(b)
				held = slices.DeleteFunc(held, func(other *Body) bool { return other == b })
			}
			p.check(t)
			if i%10 > 0 {
				continue
			}
			text := strings.Repeat("x", random.IntN(step))
			r := requestOf(t.Context(), strings.NewReader(text))
			if _, err := p.Of(r, networkOf(1000+random.IntN(1000))).Fill(64 << 10); err != nil {
				t.Fatalf("seed %d, %d hoarders: %v", seed, hoarders, err)
			}
			p.check(t)
			if got, err := io.ReadAll(r.Body); string(got) != text || err != nil {
				t.Fatalf("seed %d: got %q, %v, want %q", seed, got, err, text)
			}
		}
	}
}

// Of the network that holds most, the oldest body is lost: also for its own newest one.
func TestTheOldestBodyIsLost(t *testing.T) {
	p := NewPool(4 * step)
	full := bytes.Repeat([]byte("x"), step)
	var bodies []*Body
	for range 6 {
		b := &Body{pool: p, network: networkOf(1), ReadCloser: http.NoBody}
		if !p.keep(b, full, step) {
			t.Error("the newest body is lost")
		}
		bodies = append(bodies, b)
	}
	for i, b := range bodies {
		if _, err := b.Text(); (err == ErrLost) != (i < 2) {
			t.Errorf("body %d: %v", i, err)
		}
	}
	if n, err := bodies[0].Read(make([]byte, 10)); n != 0 || err != ErrLost {
		t.Errorf("a lost body is read as %d bytes, %v", n, err)
	}
}

// The same with real goroutines: attackers fill the pool and wait, honest clients come all the time.
func TestHoardersInParallel(t *testing.T) {
	p := NewPool(256 << 10)
	var hoarders, honest sync.WaitGroup
	stop := make(chan struct{})
	for i := range 300 {
		read, write := io.Pipe()
		hoarders.Go(func() {
			defer read.Close()
			p.Of(requestOf(t.Context(), read), networkOf(i%7)).Fill(64 << 10)
		})
		hoarders.Go(func() {
			defer write.Close()
			for range 3 {
				if _, err := write.Write(make([]byte, 700)); err != nil {
					return
				}
			}
			<-stop
		})
	}
	for i := range 20 {
		honest.Go(func() {
			for n := range 200 {
				text := fmt.Sprint("password ", i, n)
				r := requestOf(t.Context(), strings.NewReader(text))
				if _, err := p.Of(r, networkOf(1000+i)).Fill(64 << 10); err != nil {
					t.Error(err)
				}
				if got, err := io.ReadAll(r.Body); string(got) != text || err != nil {
					t.Errorf("got %q, %v, want %q", got, err, text)
				}
				if held := p.Held(); held > p.most {
					t.Errorf("%d bytes are held", held)
				}
			}
		})
	}
	honest.Wait()
	p.check(t)
	close(stop)
	hoarders.Wait()
}
