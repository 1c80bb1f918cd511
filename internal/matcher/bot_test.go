package matcher

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-tally/caddy-tally/internal/crawler"
)

const googlebot = "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)"

// dns has one crawler of Google. Look-ups wait until they are released.
type dns struct{ released chan struct{} }

func (d dns) LookupAddr(ctx context.Context, addr string) ([]string, error) {
	select {
	case <-d.released:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if addr != "66.249.66.1" {
		return nil, nil
	}
	return []string{"crawl-66-249-66-1.googlebot.com."}, nil
}

func (d dns) LookupNetIP(context.Context, string, string) ([]netip.Addr, error) {
	return []netip.Addr{netip.MustParseAddr("66.249.66.1")}, nil
}

func provisioned(t *testing.T, m *VerifiedBot) *VerifiedBot {
	t.Helper()
	ctx, cancel := caddy.NewContext(caddy.Context{Context: context.Background()})
	t.Cleanup(cancel)
	if err := m.Provision(ctx); err != nil {
		t.Fatal(err)
	}
	return m
}

// from returns a request as a server passes it to matchers.
func from(server *caddyhttp.Server, addr, agent string) *http.Request {
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.RemoteAddr = netip.AddrPortFrom(netip.MustParseAddr(addr), 4711).String()
	r.Header.Set("User-Agent", agent)
	return caddyhttp.PrepareRequest(r, caddy.NewReplacer(), nil, server)
}

func (v *VerifiedBot) is(r *http.Request) bool {
	matches, _ := v.MatchWithError(r)
	return matches
}

func TestCrawlersAreOrdinaryClientsUntilTheyAreConfirmed(t *testing.T) {
	resolver := dns{make(chan struct{})}
	crawler.DNS = resolver
	server := new(caddyhttp.Server)
	m := provisioned(t, &VerifiedBot{Names: []string{"google"}})
	again := provisioned(t, &VerifiedBot{Names: []string{"google"}}) // after a reload
	if m.is(from(server, "66.249.66.1", googlebot)) {
		t.Fatal("a request matches before DNS has said anything")
	}
	close(resolver.released)
	for begun := time.Now(); !m.is(from(server, "66.249.66.1", googlebot)); { // until DNS has answered
		if time.Since(begun) > 10*time.Second {
			t.Fatal("the crawler is never confirmed")
		}
	}
	if err := m.Cleanup(); err != nil {
		t.Fatal(err)
	}
	if !again.is(from(server, "66.249.66.1", googlebot)) || !m.is(from(server, "66.249.66.1", googlebot)) {
		t.Error("a reload forgets what is confirmed")
	}
	if again.is(from(server, "66.249.66.1", "curl/8")) || again.is(from(server, "203.0.113.7", googlebot)) {
		t.Error("a stranger matches")
	}
	if err := again.Cleanup(); err != nil {
		t.Fatal(err)
	}
	if !again.is(from(server, "66.249.66.1", googlebot)) {
		t.Error("a request that outlives its config isn't judged as before")
	}
}

// behind returns a request that has come through a trusted proxy, with the first address of a list.
func behind(list string) *http.Request {
	r := from(&caddyhttp.Server{ClientIPHeaders: []string{"X-Forwarded-For"}}, "127.0.0.1", googlebot)
	r.Header.Set("X-Forwarded-For", list)
	caddyhttp.SetVar(r.Context(), caddyhttp.TrustedProxyVarKey, true)
	caddyhttp.SetVar(r.Context(), caddyhttp.ClientIPVarKey, AddressesIn([]string{list})[0].String())
	return r
}

func TestAnAddressThatTheClientWroteConfirmsNoCrawler(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ranges")
	if err := os.WriteFile(path, []byte("66.249.64.0/19"), 0o600); err != nil {
		t.Fatal(err)
	}
	m := provisioned(t, &VerifiedBot{Names: []string{"google"}, Ranges: map[string]string{"google": path}})
	defer m.Cleanup()
	if !m.is(behind("66.249.66.1")) {
		t.Error("a crawler behind the proxy doesn't match")
	}
	if m.is(behind("66.249.66.1, 203.0.113.7")) {
		t.Error("a client that writes a crawler's address into X-Forwarded-For matches")
	}
	server := new(caddyhttp.Server)
	if !m.is(from(server, "66.249.66.1", googlebot)) || m.is(from(server, "66.249.66.1", "curl/8")) {
		t.Error("the file doesn't decide")
	}
}

func TestVerifiedBotOptions(t *testing.T) {
	for text, want := range map[string]string{
		"verified_bot":                                               "<names...> is missing; the syntax is verified_bot <names...> { … }",
		"verified_bot google, bing":                                  "no commas: write google bing",
		"verified_bot gogle":                                         `there is no operator "gogle"`,
		"verified_bot duckduckgo":                                    "save https://duckduckgo.com/duckduckbot.json, and write ranges duckduckgo <file>",
		"verified_bot google {\nrange x y\n}":                        `unrecognized option "range": did you mean ranges?`,
		"verified_bot google {\nranges x\n}":                         "ranges: <file> is missing; the syntax is ranges <name> <file>",
		"verified_bot google {\nranges x y\n}":                       `there is no operator "x"`,
		"verified_bot google {\nranges bing y\n}":                    "write verified_bot google bing",
		"verified_bot google {\nranges google y\nranges google z\n}": "two files of google",
		"verified_bot google {\nranges google y\n}":                  "",
		"verified_bot google bing":                                   "",
	} {
		err := new(VerifiedBot).UnmarshalCaddyfile(caddyfile.NewTestDispenser(text))
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: got %v, want %s", text, err, want)
		}
	}
}
