package store

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/testing/testserver"
	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/limiter/reputation"
	"github.com/caddy-tally/caddy-tally/storage"
	"github.com/caddy-tally/caddy-tally/storage/storagetest"
)

// The tests of what goes wrong on the way to a server and in it.

// steadyClock is the clock of a machine.
type steadyClock struct{ source byte }

var began = time.Now()

func (c steadyClock) Read() storage.Reading {
	return storage.Reading{Wall: time.Now().UnixNano(), Steady: int64(time.Since(began)), Source: storage.Source{c.source}}
}

func yearly(t testing.TB) limiter.Limit {
	t.Helper()
	l, err := limiter.New(limiter.Params{Amount: 1 << 30, Window: limiter.MaxWindow})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// charge claims units within a term, and returns the units in use afterwards.
func charge(ctx context.Context, s *Store, l limiter.Limit, units int64) (used int64, err error) {
	term := &storage.Term{Clock: steadyClock{1}}
	grants := make([]limiter.Grant, 1)
	err = s.Claim(ctx, term, []storage.Claim{{ID: 1, Key: storage.Key{1}, Limit: l, Claim: limiter.Claim{Min: units, Want: units}}}, grants)
	return grants[0].Used, err
}

func mustCharge(t *testing.T, s *Store, l limiter.Limit, units int64) (used int64) {
	t.Helper()
	used, err := charge(context.Background(), s, l, units)
	if err != nil {
		t.Fatalf("claim: %v", err)
	}
	return used
}

// newProxy starts a proxy to a server. It ends with the test.
func newProxy(t *testing.T, server *testserver.RedisServer) *testserver.Proxy {
	t.Helper()
	proxy, err := testserver.NewProxy(server.Address())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(proxy.Close)
	return proxy
}

// cutNext ends a connection during the next call. The result reports whether that has happened.
func cutNext(proxy *testserver.Proxy, cut testserver.Cut) *atomic.Bool {
	var done atomic.Bool
	proxy.SetCut(func() testserver.Cut {
		if done.Swap(true) {
			return testserver.Pass
		}
		return cut
	})
	return &done
}

func at(address string) Options {
	return Options{Addresses: []string{address}, Timeout: 10 * time.Second}
}

// Connections are cut before a call reaches the server, or before its answer returns. Each claim is
// charged once.
func TestCutConnections(t *testing.T) {
	server := testserver.Redis(t)
	proxy := newProxy(t, server)
	s, l := opened(t, at(proxy.Address())), yearly(t)
	want, cuts := int64(0), 0
	for range 200 {
		cut := cutNext(proxy, []testserver.Cut{testserver.Instead, testserver.Unheard}[rand.IntN(2)])
		used, err := charge(context.Background(), s, l, 1)
		want++
		if err != nil || used != want {
			t.Fatalf("after %d claims of a unit %d are in use, %v", want, used, err)
		}
		if cut.Load() {
			cuts++
		}
	}
	if cuts < 150 {
		t.Errorf("%d connections were cut, want almost 200", cuts)
	}
	if used := mustCharge(t, opened(t, at(server.Address())), l, 1); used != want+1 {
		t.Errorf("another machine finds %d units in use, want %d", used, want+1)
	}
}

// Machines claim at the same time through a proxy that delays messages and ends connections. An order of
// atomic claims explains what they are answered.
func TestAtomic(t *testing.T) {
	server := testserver.Redis(t)
	proxy := newProxy(t, server)
	proxy.SetCut(proxy.Random(40))
	storagetest.Atomic(t, func() storage.Opener { return Opener(at(proxy.Address())) }, true)
}

// A call that reaches the server after the store was reopened has no effect.
func TestLateCallsAreFenced(t *testing.T) {
	server := testserver.Redis(t)
	proxy := newProxy(t, server)
	open, l := Opener(at(proxy.Address())), yearly(t)
	first, err := open(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	mustCharge(t, first.(*Store), l, 1)
	proxy.SetCut(func() testserver.Cut { return testserver.Late })
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	if _, err := charge(ctx, first.(*Store), l, 100); !errors.Is(err, storage.ErrUnknownOutcome) {
		t.Fatalf("a call that isn't answered: %v", err)
	}
	if _, err := charge(context.Background(), first.(*Store), l, 1); err == nil {
		t.Error("the store goes on after an unknown outcome")
	}
	proxy.SetCut(nil)
	if err := first.Close(); err != nil {
		t.Error(err)
	}
	second := openedBy(t, open)
	if second.Continues(first) {
		t.Error("a store continues one whose last outcome is unknown")
	}
	if second.Lacks(first) {
		t.Error("a call that was left open is taken for a lost write")
	}
	calls := func() string {
		_, after, _ := strings.Cut(server.MustInfo(t, "commandstats"), "cmdstat_evalsha:")
		before, _, _ := strings.Cut(after, ",")
		return before
	}
	before := calls()
	proxy.Release()
	waitUntil(t, "the late call to reach the server", func() bool { return calls() != before })
	if used := mustCharge(t, second, l, 1); used != 2 {
		t.Errorf("%d units are in use, want 2", used)
	}
}

// A call that was sent twice and refused for its time is made again, and takes effect once. If it isn't, a
// copy may still be executed.
func TestLateCallsAreNotForgotten(t *testing.T) {
	server := testserver.Redis(t)
	proxy := newProxy(t, server)
	s, l := opened(t, at(proxy.Address())), yearly(t)
	mustCharge(t, s, l, 1)
	s.machine.clock.high += int64(time.Hour) // so the server refuses the call, which is of a time to come
	cutNext(proxy, testserver.Instead)
	if used := mustCharge(t, s, l, 1); used != 2 {
		t.Errorf("%d units are in use, want 2", used)
	}
	s.machine.clock.high += int64(time.Hour)
	cutNext(proxy, testserver.Instead)
	term := &storage.Term{Clock: steadyClock{1}, From: s.machine.clock.last + int64(time.Minute)} // the second attempt is before it
	claims := []storage.Claim{{ID: 1, Key: storage.Key{1}, Limit: l, Claim: limiter.Claim{Min: 1, Want: 1}}}
	if err := s.Claim(context.Background(), term, claims, make([]limiter.Grant, 1)); !errors.Is(err, storage.ErrUnknownOutcome) {
		t.Errorf("a call that may come late: %v", err)
	}
}

// The network stalls until the client has made another connection, and a call is too old for the server
// when it arrives, on both. It succeeds, and is charged once.
func TestCallsSurviveStalls(t *testing.T) {
	proxy := newProxy(t, testserver.Redis(t))
	var last atomic.Pointer[net.Conn]
	o := at(proxy.Address())
	o.dial = func(ctx context.Context, address string, dialer *net.Dialer, config *tls.Config) (net.Conn, error) {
		conn, err := dialTCP(ctx, address, dialer, config)
		last.Store(&conn)
		return conn, err
	}
	s, l := opened(t, o), yearly(t)
	mustCharge(t, s, l, 1)
	proxy.Set(testserver.Stall)
	var pieces atomic.Int64
	proxy.SetCut(func() testserver.Cut {
		pieces.Add(1)
		return testserver.Pass
	})
	done := make(chan error, 1)
	go func() {
		used, err := charge(context.Background(), s, l, 1)
		if err == nil && used != 2 {
			err = fmt.Errorf("%d units are in use, want 2", used)
		}
		done <- err
	}()
	waitUntil(t, "the call to be sent", func() bool { return pieces.Load() == 1 })
	sent := time.Now()
	_ = (*last.Load()).Close()
	waitUntil(t, "the call to be sent again, and to be old", func() bool { return pieces.Load() > 1 && time.Since(sent) > time.Duration(jump) })
	proxy.Set(testserver.None)
	if err := <-done; err != nil {
		t.Error(err)
	}
	if used := mustCharge(t, s, l, 1); used != 3 {
		t.Errorf("%d units are in use, want 3", used)
	}
}

// A script that fails halfway may have charged units.
func TestErrorInScript(t *testing.T) {
	server, l := testserver.Redis(t), yearly(t)
	open := Opener(at(server.Address()))
	s, client := openedBy(t, open), storage.Client{Key: storage.Key{7}}
	mustCharge(t, s, l, 1)
	server.Must(t, "RPUSH", s.server.names.record(client.Key), "not a record")
	claims := []storage.Claim{{ID: 1, Key: storage.Key{1}, Limit: l, Claim: limiter.Claim{Min: 5, Want: 5}}}
	err := s.ClaimFor(context.Background(), &storage.Term{Clock: steadyClock{1}}, []storage.Client{client}, make([]reputation.Record, 1), claims, make([]limiter.Grant, 1))
	if !errors.Is(err, storage.ErrUnknownOutcome) {
		t.Errorf("the claim says %v", err)
	}
	_ = s.Close()
	again := openedBy(t, open)
	if again.Continues(s) {
		t.Error("the store continues one whose last outcome is unknown")
	}
	if used := mustCharge(t, again, l, 1); used != 7 {
		t.Errorf("%d units are in use, want 7: the script has charged before it failed", used)
	}
}

func openedBy(t *testing.T, open storage.Opener) *Store {
	t.Helper()
	s, err := open(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s.(*Store)
}

func waitUntil(t *testing.T, what string, reached func() bool) {
	t.Helper()
	for end := time.Now().Add(2 * time.Minute); !reached(); { // engines try again less and less often
		if time.Now().After(end) {
			t.Fatalf("waited in vain for %s", what)
		}
		<-time.After(5 * time.Millisecond)
	}
}

// A server that accepts connections and sends nothing delays no call beyond its timeout.
func TestSilentServer(t *testing.T) {
	server := testserver.Redis(t)
	proxy := newProxy(t, server)
	open, l := Opener(at(proxy.Address())), yearly(t)
	s := openedBy(t, open)
	mustCharge(t, s, l, 1)
	proxy.Set(testserver.BlackHole)
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	if _, err := charge(ctx, s, l, 1); !errors.Is(err, storage.ErrUnknownOutcome) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a call: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
	if s, err := open(ctx); err == nil {
		t.Errorf("a silent server was opened: %v", s)
	}
	proxy.Set(testserver.None)
	mustCharge(t, openedBy(t, open), l, 1)
}

// If the server at the address isn't a Redis, the error says what to check.
func TestNoRedisThere(t *testing.T) {
	for what, answer := range map[string]string{"hangs up": "", "speaks HTTP": "HTTP/1.1 400 Bad Request\r\n\r\n"} {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		served := make(chan struct{})
		go func() {
			defer close(served)
			for {
				conn, err := listener.Accept()
				if err != nil {
					return
				}
				_, _ = conn.Read(make([]byte, 1))
				_, _ = io.WriteString(conn, answer)
				_ = conn.Close()
			}
		}()
		if _, err := Opener(at(listener.Addr().String()))(context.Background()); err == nil || !strings.Contains(err.Error(), "write rediss://") {
			t.Errorf("what listens there %s: %v", what, err)
		}
		_ = listener.Close()
		<-served
	}
	silent := newProxy(t, testserver.Redis(t))
	silent.Set(testserver.BlackHole)
	o := at(silent.Address())
	o.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	if _, err := Opener(o)(ctx); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "write redis://") {
		t.Errorf("a server that doesn't speak TLS: %v", err)
	}
}

// A server that falls silent after any number of calls of an opening store delays the opening no
// longer than its timeout.
func TestServerThatFallsSilent(t *testing.T) {
	server := testserver.Redis(t)
	const calls = 6 // more than it takes
	for heard := range int64(calls + 1) {
		proxy := newProxy(t, server)
		var calls atomic.Int64
		proxy.SetCut(func() testserver.Cut {
			if calls.Add(1) > heard {
				proxy.Set(testserver.BlackHole)
			}
			return testserver.Pass
		})
		ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
		defer cancel()
		s, err := Opener(at(proxy.Address()))(ctx)
		switch {
		case err == nil:
			_ = s.Close()
		case !errors.Is(err, context.DeadlineExceeded):
			t.Errorf("the server is silent after %d calls, and open says %v", heard, err)
		}
	}
}

// A server that has lost what it acknowledged is noticed by the next claim and by the next look for
// news, and the store that is opened then doesn't continue the one before.
func TestLostWrites(t *testing.T) {
	for what, lose := range map[string]func(t *testing.T, s *testserver.RedisServer){
		"FLUSHALL":         func(t *testing.T, s *testserver.RedisServer) { s.Must(t, "FLUSHALL") },
		"started empty":    func(t *testing.T, s *testserver.RedisServer) { s.Kill(); s.Run(t) },
		"from an old copy": restoreOld,
		"without transactions": func(t *testing.T, s *testserver.RedisServer) {
			s.Must(t, "FLUSHALL")
			s.Must(t, "HSET", "{tally}:meta", "last", "1795369981677150", "offset", "0")
		},
	} {
		t.Run(what, func(t *testing.T) {
			server, l := testserver.Redis(t), yearly(t)
			o := at(server.Address())
			claims, looks := opened(t, o), opened(t, o)
			for _, s := range []*Store{claims, looks} {
				mustCharge(t, s, l, 1)
			}
			server.Must(t, "SAVE")
			for _, s := range []*Store{claims, looks} {
				mustCharge(t, s, l, 1)
			}
			lose(t, server)
			if _, err := charge(context.Background(), claims, l, 1); !errors.Is(err, storage.ErrLostWrites) {
				t.Errorf("a claim says %v", err)
			}
			if _, err := looks.News(context.Background(), storage.Seen{}); !errors.Is(err, storage.ErrLostWrites) {
				t.Errorf("a look for news says %v", err)
			}
			again := opened(t, o)
			if again.Continues(claims) || again.Continues(looks) {
				t.Error("the store continues one that has lost writes")
			}
			if !again.Lacks(claims) || !again.Lacks(looks) {
				t.Error("lost writes are not taken for such")
			}
			if used := mustCharge(t, again, l, 1); used > 3 {
				t.Errorf("%d units are in use", used)
			}
		})
	}
}

// A server that has lost writes while no call was under way is noticed when the store is opened
// again, also if that takes more than one attempt.
func TestLostWritesBetweenCalls(t *testing.T) {
	server, l := testserver.Redis(t), yearly(t)
	open := Opener(at(server.Address()))
	first := openedBy(t, open)
	mustCharge(t, first, l, 1)
	server.Must(t, "SAVE")
	mustCharge(t, first, l, 1)
	restoreOld(t, server)
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		again := openedBy(t, open)
		if again.Continues(first) || !again.Lacks(first) {
			t.Error("the store continues one that has lost writes")
		}
		_ = again.Close()
	}
	second := openedBy(t, open)
	mustCharge(t, second, l, 1)
	server.Must(t, "SAVE")
	mustCharge(t, second, l, 1)
	_ = second.Close()
	third := openedBy(t, open)
	if !third.Continues(second) {
		t.Error("the store doesn't continue one that has lost nothing")
	}
	restoreOld(t, server)
	_ = third.Close()
	if openedBy(t, open).Continues(second) {
		t.Error("the store continues one whose writes were lost after the next was opened")
	}
}

// restoreOld restarts a server with an earlier snapshot.
func restoreOld(t *testing.T, s *testserver.RedisServer) {
	t.Helper()
	dump, err := os.ReadFile(filepath.Join(s.Folder, "dump.rdb"))
	if err != nil {
		t.Fatal(err)
	}
	s.Kill()
	if err := os.WriteFile(filepath.Join(s.Folder, "dump.rdb"), dump, 0o600); err != nil {
		t.Fatal(err)
	}
	s.Run(t)
}

// A restart without losses makes no difference, nor does a server that forgets scripts.
func TestNothingLost(t *testing.T) {
	server, l := testserver.Redis(t), yearly(t)
	s := opened(t, at(server.Address()))
	mustCharge(t, s, l, 1)
	server.Must(t, "SCRIPT", "FLUSH")
	if used := mustCharge(t, s, l, 1); used != 2 {
		t.Errorf("after SCRIPT FLUSH %d units are in use, want 2", used)
	}
	server.Must(t, "SAVE")
	server.Kill()
	server.Run(t)
	used, err := charge(context.Background(), s, l, 1)
	if errors.Is(err, storage.ErrUnknownOutcome) { // it was sent before and after the restart, the second time too late
		if used = mustCharge(t, opened(t, at(server.Address())), l, 1); used == 4 {
			return
		}
	} else if err != nil {
		t.Error(err)
	}
	if used != 3 {
		t.Errorf("after a restart %d units are in use, want 3", used)
	}
}

// The errors of a server without memory, and of a replica, contain a remedy. The server is used
// again once it works.
func TestServersThatRefuse(t *testing.T) {
	server, l := testserver.Redis(t), yearly(t)
	s := opened(t, at(server.Address()))
	mustCharge(t, s, l, 1)
	server.Must(t, "CONFIG", "SET", "maxmemory", "1")
	if _, err := charge(context.Background(), s, l, 1); err == nil || !strings.Contains(err.Error(), "raise maxmemory") || errors.Is(err, storage.ErrUnknownOutcome) {
		t.Errorf("without memory: %v", err)
	}
	server.Must(t, "CONFIG", "SET", "maxmemory", "0")
	if used := mustCharge(t, s, l, 1); used != 2 {
		t.Errorf("%d units are in use, want 2", used)
	}
	primary := testserver.Redis(t)
	host, port, _ := strings.Cut(primary.Address(), ":")
	server.Must(t, "REPLICAOF", host, port)
	if _, err := Opener(at(server.Address()))(context.Background()); err == nil || !strings.Contains(err.Error(), "name the primary") {
		t.Errorf("a replica: %v", err)
	}
}

// A later version that has only added data shares it with this one, until its oldest version is
// later.
func TestLaterVersionThatThisOneCanRead(t *testing.T) {
	server := testserver.Redis(t)
	open := Opener(at(server.Address()))
	running := openedBy(t, open)
	server.Must(t, "HSET", "{tally}:meta", "format", "2")
	for what, s := range map[string]*Store{"running": running, "opened later": openedBy(t, open)} {
		if _, err := charge(context.Background(), s, yearly(t), 1); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	server.Must(t, "HSET", "{tally}:meta", "oldest", "2")
	if _, err := charge(context.Background(), running, yearly(t), 1); err == nil {
		t.Error("a running store goes on with data that it doesn't know any more")
	}
	if _, err := open(context.Background()); !errors.Is(err, storage.ErrForeign) || !strings.Contains(err.Error(), "update it") {
		t.Errorf("of a later version: open says %v", err)
	}
}

// Data of an earlier version is upgraded, and those who use it go on.
func TestEarlierVersion(t *testing.T) {
	server := testserver.Redis(t)
	open := Opener(at(server.Address()))
	running, l := openedBy(t, open), yearly(t)
	mustCharge(t, running, l, 1)
	server.Must(t, "HSET", "{tally}:meta", "format", "0", "oldest", "0")
	if used := mustCharge(t, openedBy(t, open), l, 1); used != 2 {
		t.Errorf("%d units are in use, want 2", used)
	}
	for field, want := range map[string]string{"format": format, "oldest": oldestReader} {
		if got := server.Must(t, "EVAL", "return tonumber(redis.call('HGET', '{tally}:meta', '"+field+"'))", "0"); got != ":"+want {
			t.Errorf("%s is %s, want %s", field, got, want)
		}
	}
	mustCharge(t, running, l, 1)
}

// Keys of other programs, and of later versions, stay unchanged.
func TestForeignKeys(t *testing.T) {
	server := testserver.Redis(t)
	for _, make := range [][]string{{"SET", "{tally}:meta", "mine"}, {"HSET", "{tally}:meta", "format", "2"}, {"HSET", "{tally}:meta", "theirs", "1"}} {
		server.Must(t, "FLUSHALL")
		server.Must(t, make...)
		if _, err := Opener(at(server.Address()))(context.Background()); !errors.Is(err, storage.ErrForeign) {
			t.Errorf("%v: %v", make, err)
		}
		if size := server.Must(t, "DBSIZE"); size != ":1" {
			t.Errorf("%v: there are %s keys", make, size)
		}
	}
}

// A server that may evict keys causes a notice. Once it has evicted some, writes are lost.
func TestEvictions(t *testing.T) {
	server, l := testserver.Redis(t, "--maxmemory", "3mb", "--maxmemory-policy", "allkeys-random"), yearly(t)
	var policies []string
	o := at(server.Address())
	o.Evicts = func(policy string) { policies = append(policies, policy) }
	s := opened(t, o)
	if !slices.Equal(policies, []string{"allkeys-random"}) {
		t.Errorf("the notices are of %q", policies)
	}
	mustCharge(t, s, l, 1)
	for i := range 60 {
		server.Must(t, "SET", fmt.Sprint(i), strings.Repeat("x", 1<<16))
	}
	_, err := s.Sweep(context.Background(), &storage.Term{Clock: steadyClock{1}})
	if !errors.Is(err, storage.ErrLostWrites) {
		t.Errorf("a sweep says %v", err)
	}
	if _, err := charge(context.Background(), s, l, 1); !errors.Is(err, storage.ErrLostWrites) {
		t.Errorf("a claim after it says %v", err)
	}
}

// settableClock is the clock of a machine and of the server, see Options.wallTime.
type settableClock struct{ steady, wrong atomic.Int64 }

func (c *settableClock) Read() storage.Reading {
	const start = int64(1_800_000_000e9)
	return storage.Reading{Wall: start + c.steady.Load() + c.wrong.Load(), Steady: c.steady.Load(), Source: storage.Source{1}}
}

// Whenever the server's clock is set, the time of the place advances with the machine's steady
// clock, and never runs backwards.
func TestServerClockIsSet(t *testing.T) {
	o := newPlace(t)
	o.wallTime = true
	s, c := opened(t, o), new(settableClock)
	first, err := s.Time(c, 0)
	if err != nil {
		t.Fatal(err)
	}
	before := first.Now
	for n := range 300 {
		c.steady.Add(rand.Int64N(int64(9 * time.Second)))
		if n%5 == 4 {
			c.wrong.Add(int64(10*time.Second) - rand.Int64N(int64(20*time.Second)))
		}
		if n%50 == 49 {
			c.wrong.Add(int64(24*time.Hour) - rand.Int64N(int64(48*time.Hour)))
		}
		now, err := s.Time(c, 0)
		if err != nil {
			t.Fatal(err)
		}
		if now.Now < before {
			t.Fatalf("the time went back by %v", time.Duration(before-now.Now))
		}
		before = now.Now
		passed := c.steady.Load()
		if off := now.Now - first.Now - passed; off > int64(30*time.Second) || off < -int64(30*time.Second) {
			t.Fatalf("after %v, with the clock off by %v, the time is off by %v", time.Duration(passed), time.Duration(c.wrong.Load()), time.Duration(off))
		}
	}
}

// A server whose clock is set ahead drops keys too early. All machines notice lost writes, and the
// time continues as before. A server whose clock is set back drops nothing.
func TestServerClockIsSetAhead(t *testing.T) {
	server, l := testserver.Redis(t), yearly(t)
	o := at(server.Address())
	first, second := opened(t, o), opened(t, o)
	set := func(by time.Duration, want error) { // by setting all that was seen of it to the contrary
		t.Helper()
		server.Must(t, "HINCRBY", names(defaultPrefix).meta(), "last", strconv.FormatInt(-by.Microseconds(), 10))
		for _, s := range []*Store{first, second} {
			s.machine.clock.low, s.machine.clock.high, s.machine.clock.last = s.machine.clock.low-int64(by), s.machine.clock.high-int64(by), s.machine.clock.last-int64(by)
		}
		for _, s := range []*Store{first, second} {
			if _, err := charge(context.Background(), s, l, 1); !errors.Is(err, want) {
				t.Errorf("after the clock was set by %v: %v, want %v", by, err, want)
			}
		}
	}
	mustCharge(t, first, l, 1)
	mustCharge(t, second, l, 1)
	set(-time.Hour, nil)
	before := first.machine.clock.last
	set(3*time.Hour, storage.ErrLostWrites)
	again := opened(t, o)
	if again.Continues(first) || again.Continues(second) {
		t.Error("the store continues one whose writes may be lost")
	}
	now, err := again.Time(steadyClock{1}, 0)
	if off := time.Duration(now.Now-before) + 3*time.Hour; err != nil || off.Abs() > time.Hour {
		t.Errorf("the time is off by %v, %v", off, err)
	}
}
