package crawler

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// zone is DNS.
type zone struct {
	names map[string][]string // by address
	addrs map[string][]string // by name

	mu    sync.Mutex
	fails bool
	asked []string
	hang  chan struct{} // look-ups wait for it to be closed; nil for none
}

func (z *zone) answer(ctx context.Context, name string, in map[string][]string) ([]string, error) {
	z.mu.Lock()
	defer z.mu.Unlock()
	z.asked = append(z.asked, name)
	if z.hang != nil {
		z.mu.Unlock()
		select {
		case <-z.hang:
		case <-ctx.Done():
		}
		z.mu.Lock()
	}
	switch {
	case z.fails:
		return nil, errors.New("no answer")
	case in[name] == nil:
		return nil, &net.DNSError{Err: "no such host", Name: name, IsNotFound: true}
	}
	return append([]string(nil), in[name]...), nil
}

func (z *zone) LookupAddr(ctx context.Context, addr string) ([]string, error) {
	return z.answer(ctx, addr, z.names)
}

func (z *zone) LookupNetIP(ctx context.Context, _, host string) (addrs []netip.Addr, err error) {
	texts, err := z.answer(ctx, host, z.addrs)
	for _, text := range texts {
		addrs = append(addrs, netip.MustParseAddr(text))
	}
	return addrs, err
}

// count returns how often DNS was asked.
func (z *zone) count() int {
	z.mu.Lock()
	defer z.mu.Unlock()
	return len(z.asked)
}

// real is the address of a crawler of Google.
const (
	real     = "66.249.66.1"
	neighbor = "66.249.66.2"
	bing     = "2a01:111::5"
	stranger = "203.0.113.7"
)

func newZone() *zone {
	return &zone{
		names: map[string][]string{
			real: {"crawl-66-249-66-1.GoogleBot.com."}, neighbor: {"crawl-66-249-66-2.googlebot.com."}, bing: {"msnbot.search.msn.com."},
			"198.51.100.1": {"crawl-66-249-66-1.googlebot.com."}, // forged: the name has another address
			"198.51.100.2": {"crawl.evilgooglebot.com.", "crawl.googlebot.com.example.", "googlebot.com."},
			"198.51.100.3": {"4.bc.googleusercontent.com."},
			"198.51.100.4": {"rate-limited-proxy-a.google.com.", "rate-limited-proxy-b.google.com.", "rate-limited-proxy-c.google.com.", "rate-limited-proxy-d.google.com.", "rate-limited-proxy-e.google.com."},
			"198.51.100.5": {"google-proxy-66-249-81-1.google.com."},
			"198.51.100.6": {"a.gae.googleusercontent.com."},
			"198.51.100.7": {"crawl-x.customers.googlebot.com."},
			"198.51.100.8": {"rate-limited-proxy-66-249-90-77.google.com."},
			"198.51.100.9": {"geo-crawl-35-247-243-240.geo.googlebot.com."},
			"10.1.2.3":     {"crawl-internal.googlebot.com."},
		},
		addrs: map[string][]string{
			"crawl-66-249-66-1.GoogleBot.com.": {"192.0.2.1", real}, "crawl-66-249-66-1.googlebot.com.": {real},
			"crawl-66-249-66-2.googlebot.com.": {neighbor}, "msnbot.search.msn.com.": {bing},
			"crawl.evilgooglebot.com.": {"198.51.100.2"}, "crawl.googlebot.com.example.": {"198.51.100.2"}, "googlebot.com.": {"198.51.100.2"},
			"4.bc.googleusercontent.com.": {"198.51.100.3"}, "crawl-internal.googlebot.com.": {"10.1.2.3"},
			"rate-limited-proxy-e.google.com.": {"198.51.100.4"}, "google-proxy-66-249-81-1.google.com.": {"198.51.100.5"},
			"a.gae.googleusercontent.com.": {"198.51.100.6"}, "crawl-x.customers.googlebot.com.": {"198.51.100.7"},
			"rate-limited-proxy-66-249-90-77.google.com.": {"198.51.100.8"}, "geo-crawl-35-247-243-240.geo.googlebot.com.": {"198.51.100.9"},
		},
	}
}

// harness is a verifier with a clock of its own.
type harness struct {
	*Verifier
	clock atomic.Int64
}

func newHarness(t *testing.T, z *zone) *harness {
	h := new(harness)
	h.clock.Store(time.Now().UnixNano())
	h.Verifier = NewVerifier(z, func() time.Time { return time.Unix(0, h.clock.Load()) })
	t.Cleanup(func() { h.Destruct() })
	return h
}

func (h *harness) wait(d time.Duration) { h.clock.Add(int64(d)) }

// is asks for an address, and lets look-ups end before it returns.
func (h *harness) is(operator, addr string) bool {
	confirmed := h.IsConfirmed(Find(operator), netip.MustParseAddr(addr), true)
	h.lookups.Wait()
	return confirmed
}

func TestOnlyForwardConfirmedNamesConfirm(t *testing.T) {
	for _, c := range []struct {
		operator, addr string
		want           bool
	}{
		{"google", real, true}, {"google", "::ffff:" + real, true}, {"bing", bing, true},
		{"bing", real, false}, {"google", bing, false}, {"google", stranger, false}, {"duckduckgo", real, false},
		{"google", "198.51.100.1", false}, {"google", "198.51.100.2", false}, {"google", "198.51.100.3", false},
		{"google", "198.51.100.5", false}, {"google", "198.51.100.6", false}, {"google", "198.51.100.7", false}, // what users ask for
		{"google", "198.51.100.8", true}, {"google", "198.51.100.9", true},
		{"google", "198.51.100.4", false}, {"google", "10.1.2.3", false}, {"google", "127.0.0.1", false},
	} {
		h := newHarness(t, newZone())
		if h.is(c.operator, c.addr) {
			t.Errorf("%s at %s is confirmed before DNS says so", c.operator, c.addr)
		}
		if got := h.is(c.operator, c.addr); got != c.want {
			t.Errorf("%s at %s: got %v", c.operator, c.addr, got)
		}
		if asked := h.resolver.(*zone).count(); asked > 1+maxNames {
			t.Errorf("%s at %s: asked %d times", c.operator, c.addr, asked)
		}
	}
}

func TestResultsHoldForTheirTime(t *testing.T) {
	z := newZone()
	h := newHarness(t, z)
	h.is("google", real)
	h.is("google", stranger)
	asked := z.count()
	h.wait(deniedFor - time.Second)
	if !h.is("google", real) || h.is("google", stranger) || z.count() != asked {
		t.Errorf("asked %d times, then %d", asked, z.count())
	}
	h.wait(time.Second)
	if h.is("google", stranger); z.count() == asked {
		t.Error("a denied address is never looked up again")
	}
	h.wait(confirmedFor / 2)
	asked, z.fails = z.count(), true
	if !h.is("google", real) || z.count() == asked || !h.is("google", real) {
		t.Error("a confirmed address isn't renewed in the background, or DNS fails and it is lost")
	}
	z.fails, z.names[real] = false, nil
	h.wait(failedFor)
	if !h.is("google", real) || h.is("google", real) {
		t.Error("a confirmed address that lost its name stays confirmed")
	}
	h.wait(confirmedFor)
	z.names[real] = newZone().names[real]
	h.is("google", real)
	h.wait(confirmedFor)
	if z.fails = true; h.is("google", real) {
		t.Error("a confirmation never ends")
	}
}

// Forged crawlers from a million addresses must not displace real ones, nor ask DNS without bound.
func TestForgedCrawlersCantEvictConfirmedOnesOrFloodDNS(t *testing.T) {
	z := newZone()
	h := newHarness(t, z)
	h.is("google", real)
	z.asked = nil
	google, addr := Find("google"), netip.MustParseAddr("11.0.0.0")
	for range 200_000 {
		h.IsConfirmed(google, addr, true)
		addr = addr.Next()
	}
	h.lookups.Wait()
	if n := z.count(); n > maxBurst {
		t.Errorf("DNS was asked %d times in an instant", n)
	}
	for range maxDenied + 1000 { // as fast as the bounds permit
		h.wait(time.Second / lookupsPerSec)
		h.is("google", addr.String())
		if addr = addr.Next(); len(h.denied) > maxDenied || len(h.confirmed) != 1 {
			t.Fatalf("%d denied, %d confirmed", len(h.denied), len(h.confirmed))
		}
	}
	if !h.is("google", real) {
		t.Error("the real one is displaced")
	}
}

// A flood of forged crawlers from elsewhere must not keep new addresses of an operator out.
func TestNeighborsOfConfirmedAddressesHaveLookUpsOfTheirOwn(t *testing.T) {
	z := newZone()
	h := newHarness(t, z)
	h.is("google", real)
	z.hang = make(chan struct{})
	google, addr := Find("google"), netip.MustParseAddr("11.0.0.0")
	for range 1000 {
		h.IsConfirmed(google, addr, true)
		addr = addr.Next()
	}
	h.mu.Lock()
	if n := len(h.pending); n != maxLookups/2 {
		t.Errorf("%d look-ups at once", n)
	}
	h.mu.Unlock()
	h.IsConfirmed(google, netip.MustParseAddr(neighbor), true)
	close(z.hang)
	if h.lookups.Wait(); !h.is("google", neighbor) {
		t.Error("the neighbor isn't looked up")
	}
}

func TestDestructEndsLookUps(t *testing.T) {
	z := newZone()
	z.hang = make(chan struct{})
	h := newHarness(t, z)
	h.IsConfirmed(Find("google"), netip.MustParseAddr(real), true)
	if err := h.Destruct(); err != nil {
		t.Fatal(err)
	}
	asked := z.count()
	if h.is("google", stranger) || z.count() != asked {
		t.Error("a look-up begins after the end")
	}
}

func TestNobodyAsksForForecasts(t *testing.T) {
	z := newZone()
	h := newHarness(t, z)
	h.IsConfirmed(Find("google"), netip.MustParseAddr(real), false)
	if h.lookups.Wait(); z.count() != 0 {
		t.Error("DNS was asked")
	}
}

func TestAgents(t *testing.T) {
	for agent, operator := range map[string]string{
		"Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)":   "google",
		"Mozilla/5.0 (compatible; YandexBot/3.0; +http://yandex.com/bots)":           "yandex",
		"Mozilla/5.0 (Windows NT 10.0) Chrome/130 YaBrowser/24.1 Yowser/2.5":         "",
		"DuckDuckBot/1.1; (+http://duckduckgo.com/duckduckbot.html)":                 "duckduckgo",
		strings.Repeat("x", maxAgent) + "Googlebot":                                  "",
		"Mozilla/5.0 (Macintosh) Safari/605.1.15 (Applebot/0.1; +http://apple.com/)": "apple",
	} {
		for _, name := range Names() {
			if got := Find(name).IsClaimedBy(agent); got != (name == operator) {
				t.Errorf("%s: %s: %v", agent, name, got)
			}
		}
	}
}
