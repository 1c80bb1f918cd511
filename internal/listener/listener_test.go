package listener

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/proxyprotocol"

	"github.com/caddy-tally/caddy-tally/internal/rules"
	"github.com/caddy-tally/caddy-tally/limiter"
)

// newDoor returns a door with counts that no other test has used, since its networks are those of an octet.
func newDoor(t *testing.T, most, amount int64) (*Door, *[TooManyNew + 1]atomic.Int64) {
	t.Helper()
	reported := new([TooManyNew + 1]atomic.Int64)
	d := &Door{
		Most: most, IPv4Prefix: 32, IPv6Prefix: 64,
		Rule:   func(netip.Addr) *rules.Rule { return nil },
		Report: func(_ string, o Outcome, _ bool) { reported[o].Add(1) },
	}
	if amount > 0 {
		var err error
		if d.Limit, err = limiter.New(limiter.Params{Amount: amount, Window: 10 * time.Second, Slots: 10}); err != nil {
			t.Fatal(err)
		}
	}
	forget(t)
	return d, reported
}

// forget empties the counts of the process, which tests share, before and after a test.
func forget(t *testing.T) {
	reset := func() { arrived.recent, arrived.former, arrived.now, arrived.turned = nil, nil, 0, 0 }
	reset()
	t.Cleanup(reset)
	t.Cleanup(func() {
		if n := open.Len(); n != 0 {
			t.Errorf("%d networks have places", n)
		}
	})
}

// client is a connection on the side of a server, from an address that is known once known is closed.
type client struct {
	net.Conn
	from  net.Addr
	known chan struct{}
}

func (c client) RemoteAddr() net.Addr {
	if c.known != nil {
		<-c.known
	}
	return c.from
}

func from(addr string) net.Addr { return net.TCPAddrFromAddrPort(netip.MustParseAddrPort(addr)) }

// fake is a listener that accepts what is sent to it.
type fake chan net.Conn

func (f fake) Accept() (net.Conn, error) {
	c, ok := <-f
	if !ok {
		return nil, net.ErrClosed
	}
	return c, nil
}
func (f fake) Close() error   { return nil }
func (f fake) Addr() net.Addr { return from("127.0.0.1:443") }

// Never are more connections of a network open than allowed, nor more new ones in any ten seconds. Others aren't
// refused for it, and no place is lost: an oracle with plain lists watches random clients.
func TestDoorAgainstLists(t *testing.T) {
	const most, amount, window = 3, 7, 10 * time.Second
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 1))
	d, _ := newDoor(t, most, amount)
	type held struct{ network string }
	var inside []held
	entered := make(map[string][]time.Time)
	now := time.Unix(1_800_000_000, 0)
	opened := func(network string) (n int) {
		for _, h := range inside {
			if h.network == network {
				n++
			}
		}
		return n
	}
	for step := range 20_000 {
		now = now.Add(time.Duration(random.IntN(400)) * time.Millisecond)
		if len(inside) > 0 && random.IntN(2) == 0 {
			i := random.IntN(len(inside))
			open.Leave(inside[i].network)
			inside[i] = inside[len(inside)-1]
			inside = inside[:len(inside)-1]
		}
		addr := netip.AddrFrom4([4]byte{192, 0, 2, byte(random.IntN(5))})
		before := d.Forecast(addr, now)
		network, o := d.enter(addr, now)
		if before != o {
			t.Fatalf("seed %d, step %d: it would be %d, and is %d", seed, step, before, o)
		}
		recent, sure := 0, 0 // units surely in the window, and those that a slot may count a second longer
		for _, at := range entered[network] {
			if now.Sub(at) < window {
				recent++
			}
			if now.Sub(at) < window+window/10 {
				sure++
			}
		}
		switch {
		case o == Entered && opened(network) >= most:
			t.Fatalf("seed %d, step %d: a connection enters beside %d", seed, step, opened(network))
		case o == Entered && recent >= amount:
			t.Fatalf("seed %d, step %d: %d have come in ten seconds", seed, step, recent)
		case o == TooManyOpen && opened(network) < most:
			t.Fatalf("seed %d, step %d: refused beside %d", seed, step, opened(network))
		case o == TooManyNew && sure < amount:
			t.Fatalf("seed %d, step %d: refused after %d", seed, step, sure)
		}
		if o == Entered {
			inside, entered[network] = append(inside, held{network}), append(entered[network], now)
		}
	}
	for _, h := range inside {
		open.Leave(h.network)
	}
}

// Any number of addresses take bounded memory, and one that is used stays known.
func TestCountsAreBounded(t *testing.T) {
	d, reported := newDoor(t, 0, 2)
	now, known := time.Unix(1_800_000_000, 0), netip.MustParseAddr("198.51.100.1")
	for range 2 {
		d.enter(known, now)
	}
	for n := range uint32(3 * maxCounted) {
		var b [4]byte
		binary.BigEndian.PutUint32(b[:], 10<<24+n)
		d.enter(netip.AddrFrom4(b), now)
		if n%10_000 == 0 {
			if _, o := d.enter(known, now); o != TooManyNew {
				t.Fatalf("after %d others the network is forgotten: %d", n, o)
			}
		}
	}
	if n := len(arrived.recent) + len(arrived.former); n > maxCounted {
		t.Errorf("%d networks are counted", n)
	}
	if n := reported[Entered].Load(); n != 3*maxCounted+2 {
		t.Errorf("%d have entered", n)
	}
	d.enter(known, now.Add(time.Hour))
	d.enter(known, now.Add(2*time.Hour))
	if n := len(arrived.recent) + len(arrived.former); n > 2 {
		t.Errorf("%d networks are counted hours later", n)
	}
}

// Addresses of one network are one client, however they are written; excepted and allowed ones aren't counted.
func TestNetworksAreOneClient(t *testing.T) {
	d, reported := newDoor(t, 0, 1)
	d.Except = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
	d.Rule = func(addr netip.Addr) *rules.Rule {
		switch addr.String() {
		case "192.0.2.8":
			return &rules.Rule{Action: rules.Allow}
		case "192.0.2.9":
			return &rules.Rule{Action: rules.Ban}
		}
		return nil
	}
	now := time.Unix(1_800_000_000, 0)
	for _, test := range []struct {
		addr string
		want Outcome
	}{
		{"192.0.2.1", Entered}, {"::ffff:192.0.2.1", TooManyNew}, {"192.0.2.2", Entered},
		{"2001:db8::1", Entered}, {"2001:db8::ffff:2", TooManyNew}, {"2001:db8::1%eth0", TooManyNew}, {"2001:db8:0:1::1", Entered},
		{"10.1.2.3", Uncounted}, {"::ffff:10.1.2.3", Uncounted}, {"10.1.2.3", Uncounted},
		{"192.0.2.8", Uncounted}, {"192.0.2.8", Uncounted}, {"192.0.2.9", Banned}, {"::ffff:192.0.2.9", Banned},
	} {
		if _, o := d.enter(netip.MustParseAddr(test.addr), now); o != test.want {
			t.Errorf("%s: got %d, want %d", test.addr, o, test.want)
		}
	}
	if _, o := d.enter(netip.Addr{}, now); o != Uncounted {
		t.Errorf("no address: got %d", o)
	}
	if n := reported[Uncounted].Load(); n != 0 {
		t.Errorf("%d uncounted connections are reported", n)
	}
}

// What is refused for one limit takes nothing of another.
func TestRefusedConnectionsTakeNothing(t *testing.T) {
	d, _ := newDoor(t, 1, 2)
	now, addr := time.Unix(1_800_000_000, 0), netip.MustParseAddr("192.0.2.1")
	network, o := d.enter(addr, now)
	for range 10 {
		if _, again := d.enter(addr, now); o != Entered || again != TooManyOpen {
			t.Fatalf("got %d, then %d", o, again)
		}
	}
	open.Leave(network)
	if _, o := d.enter(addr, now); o != Entered {
		t.Errorf("the second new connection: got %d", o)
	}
	open.Leave(network)
	for range 3 {
		if _, o := d.enter(addr, now); o != TooManyNew {
			t.Errorf("the third new connection: got %d", o)
		}
	}
	if n := open.Len(); n != 0 {
		t.Errorf("%d places are lost", n)
	}
}

// A clock that goes back frees nothing.
func TestClockGoesBack(t *testing.T) {
	d, _ := newDoor(t, 0, 1)
	now, addr := time.Unix(1_800_000_000, 0), netip.MustParseAddr("192.0.2.1")
	d.enter(addr, now)
	for range 3 {
		now = now.Add(-time.Hour)
		if _, o := d.enter(addr, now); o != TooManyNew {
			t.Errorf("an hour earlier: got %d", o)
		}
	}
}

// Connections whose address isn't known yet keep nobody waiting, and are counted by the address that they turn
// out to have, whether they are closed before, meanwhile or after.
func TestAddressesThatAreKnownLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, _ := newDoor(t, 2, 0)
		l := make(fake)
		guarded := d.Wrap(l)
		accept := func(known chan struct{}, addr string) (server, peer net.Conn) {
			server, peer = net.Pipe()
			go func() { l <- client{server, from(addr), known} }()
			server, err := guarded.Accept()
			if err != nil {
				t.Fatal(err)
			}
			return server, peer
		}
		silent := make(chan struct{})
		var waiting sync.WaitGroup
		var conns []net.Conn
		for range 100 {
			c, _ := accept(silent, "192.0.2.1:1")
			conns = append(conns, c)
			waiting.Go(func() { _, _ = c.Read(make([]byte, 1)) })
		}
		reads := func(c, peer net.Conn) error {
			go func() { _, _ = peer.Write([]byte("x")) }()
			_, err := c.Read(make([]byte, 1))
			return err
		}
		var inside []net.Conn
		for n := range 3 {
			c, peer := accept(nil, "192.0.2.2:1")
			if err := reads(c, peer); (err == nil) != (n < 2) {
				t.Errorf("connection %d: got %v", n, err)
			}
			inside = append(inside, c)
		}
		for _, c := range conns[:50] { // before the address is known
			_ = c.Close()
		}
		close(silent)
		synctest.Wait()
		if n := open.Len(); n != 2 {
			t.Errorf("%d networks have places", n)
		}
		for _, c := range append(inside, conns...) {
			_ = c.Close()
			_ = c.Close()
		}
		waiting.Wait()
	})
}

// Connections are refused at once and without a word, places come back when connections are closed, and the
// listener ends as the inner one does.
func TestListenerOfTCP(t *testing.T) {
	d, reported := newDoor(t, 2, 0)
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := d.Wrap(inner)
	servers := make(chan net.Conn, 10)
	ended := make(chan error, 1)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				ended <- err
				return
			}
			servers <- c
		}
	}()
	dial := func() net.Conn {
		c, err := net.Dial("tcp", inner.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
	dial()
	dial()
	first, second := <-servers, <-servers
	isRefused := func() bool {
		c, err := net.Dial("tcp", inner.Addr().String())
		if err != nil {
			return true // it was faster than the client
		}
		defer c.Close()
		n, err := c.Read(make([]byte, 1))
		return n == 0 && err != nil
	}
	if !isRefused() {
		t.Error("a third client is let in")
	}
	if _, ok := first.(io.ReaderFrom); !ok {
		t.Error("a connection lacks what TCP has")
	}
	first.Close()
	first.Close() // gives no second place back
	dial()
	third := <-servers
	if !isRefused() {
		t.Error("a place was given back twice")
	}
	if got := fmt.Sprint(reported[Entered].Load(), reported[TooManyOpen].Load()); got != "3 2" {
		t.Errorf("reported %s", got)
	}
	second.Close()
	third.Close()
	inner.Close()
	if err := <-ended; !errors.Is(err, net.ErrClosed) {
		t.Errorf("it ends with %v", err)
	}
}

// Any number of connections come and go at once, and no place is lost.
func TestConnectionsAtOnce(t *testing.T) {
	d, reported := newDoor(t, 5, 1000)
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for n := range 5000 {
				addr := netip.AddrFrom4([4]byte{192, 0, 2, byte(n % 7)})
				if network, o := d.enter(addr, time.Now()); o == Entered {
					open.Leave(network)
				}
				d.Forecast(addr, time.Now())
			}
		})
	}
	group.Wait()
	if total := reported[Entered].Load() + reported[TooManyOpen].Load() + reported[TooManyNew].Load(); total != 40_000 {
		t.Errorf("%d decisions are reported", total)
	}
}

// Behind a PROXY header, whatever family it names, a client is counted and banned by its address, and by that of the
// proxy if it has none.
func TestFamiliesOfProxyHeaders(t *testing.T) {
	d, _ := newDoor(t, 0, 1)
	d.Rule = func(addr netip.Addr) *rules.Rule {
		if addr.String() == "192.0.2.9" {
			return &rules.Rule{Action: rules.Ban}
		}
		return nil
	}
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer inner.Close()
	proxied := &proxyprotocol.ListenerWrapper{Allow: []string{"127.0.0.0/8"}}
	if err := proxied.Provision(caddy.Context{}); err != nil {
		t.Fatal(err)
	}
	l := d.Wrap(proxied.WrapListener(inner))
	// enters reports whether a connection with a header of version 2 enters. Its address is repeated as that of the server.
	enters := func(command, family byte, addr, port string) bool {
		peer, err := net.Dial("tcp", inner.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer peer.Close()
		body := addr + addr + port + port
		header := append([]byte("\r\n\r\n\x00\r\nQUIT\n"), command, family, 0, byte(len(body)))
		if _, err := peer.Write(append(append(header, body...), 'x')); err != nil {
			t.Fatal(err)
		}
		c, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		n, _ := c.Read(make([]byte, 1))
		return n == 1
	}
	ip := func(addr string) string { return string(netip.MustParseAddr(addr).AsSlice()) }
	const proxy, local, port = 0x21, 0x20, "\x00\x01"
	unix := strings.Repeat("s", 108)
	for _, test := range []struct {
		name            string
		command, family byte
		addr, port      string
		want            bool
	}{
		{"TCP", proxy, 0x11, ip("192.0.2.1"), port, true}, {"TCP again", proxy, 0x11, ip("192.0.2.1"), port, false},
		{"UDP", proxy, 0x12, ip("192.0.2.2"), port, true}, {"UDP again", proxy, 0x12, ip("192.0.2.2"), port, false}, {"TCP after UDP", proxy, 0x11, ip("192.0.2.2"), port, false},
		{"UDP of IPv6", proxy, 0x22, ip("2001:db8::1"), port, true}, {"its network", proxy, 0x22, ip("2001:db8::2"), port, false},
		{"banned over TCP", proxy, 0x11, ip("192.0.2.9"), port, false}, {"banned over UDP", proxy, 0x12, ip("192.0.2.9"), port, false},
		{"a socket", proxy, 0x31, unix, "", true}, {"another socket", proxy, 0x32, unix, "", false}, {"the proxy itself", local, 0, "", "", false},
	} {
		if got := enters(test.command, test.family, test.addr, test.port); got != test.want {
			t.Errorf("%s: it enters: %v, want %v", test.name, got, test.want)
		}
	}
}
