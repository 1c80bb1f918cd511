package matcher

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/tls"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// botKey is the key of a bot, whose file is writeKeys'.
var botKey = ed25519.NewKeyFromSeed(bytes.Repeat([]byte{7}, ed25519.SeedSize))

func botX() string {
	return base64.RawURLEncoding.EncodeToString(botKey.Public().(ed25519.PublicKey))
}

func writeKeys(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "bots.json")
	text := fmt.Sprintf(`{"keys": [{"kty": "OKP", "crv": "Ed25519", "kid": "crawler", "x": %q}]}`, botX())
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func signedBot(t *testing.T, m *SignedBot) *SignedBot {
	t.Helper()
	ctx, cancel := caddy.NewContext(caddy.Context{Context: context.Background()})
	t.Cleanup(cancel)
	if err := m.Provision(ctx); err != nil {
		t.Fatal(err)
	}
	return m
}

// signed returns a request of a bot, as a server passes it to matchers. The signature covers its
// method and its whole URI.
func signed(method, uri string) *http.Request {
	r := httptest.NewRequest(method, uri, nil)
	if strings.HasPrefix(uri, "https:") {
		r.TLS = new(tls.ConnectionState)
	}
	_, target, _ := strings.Cut(uri, "example.com")
	r.RequestURI = target // as clients send it, not as to a proxy
	id := sha256.Sum256([]byte(`{"crv":"Ed25519","kty":"OKP","x":"` + botX() + `"}`))
	now := time.Now().Unix()
	input := fmt.Sprintf(`("@target-uri" "@method");created=%d;expires=%d;keyid=%q;tag="web-bot-auth"`,
		now, now+3600, base64.RawURLEncoding.EncodeToString(id[:]))
	base := fmt.Sprintf("\"@target-uri\": %s\n\"@method\": %s\n\"@signature-params\": %s", uri, method, input)
	r.Header.Set("Signature-Input", "bot="+input)
	r.Header.Set("Signature", "bot=:"+base64.StdEncoding.EncodeToString(ed25519.Sign(botKey, []byte(base)))+":")
	return caddyhttp.PrepareRequest(r, caddy.NewReplacer(), nil, new(caddyhttp.Server))
}

func TestSignedRequestsOfBotsMatch(t *testing.T) {
	path := writeKeys(t)
	all := signedBot(t, &SignedBot{File: path})
	named := signedBot(t, &SignedBot{File: path, Names: []string{"other", "crawler"}})
	other := signedBot(t, &SignedBot{File: path, Names: []string{"other"}})
	matches := func(m *SignedBot, r *http.Request) bool { ok, err := m.MatchWithError(r); return ok && err == nil }
	for _, uri := range []string{"http://example.com/a?b", "https://example.com/"} {
		if r := signed("GET", uri); !matches(all, r) || !matches(named, r) || matches(other, r) {
			t.Errorf("%s: got %v, %v, %v", uri, matches(all, r), matches(named, r), matches(other, r))
		}
	}
	plain := signed("GET", "http://example.com/")
	plain.TLS = new(tls.ConnectionState)
	unsigned := signed("GET", "http://example.com/")
	unsigned.Header.Del("Signature-Input")
	elsewhere := signed("GET", "http://example.com/")
	elsewhere.Host = "example.net"
	for name, r := range map[string]*http.Request{"scheme": plain, "unsigned": unsigned, "host": elsewhere} {
		if matches(all, r) {
			t.Errorf("%s: a request that the bot didn't sign matches", name)
		}
	}
}

// A bot signs what it sends, which `rewrite` and `method` change before limits apply.
func TestASignatureCoversTheRequestBeforeRewrites(t *testing.T) {
	m := signedBot(t, &SignedBot{File: writeKeys(t)})
	r := signed("GET", "http://example.com/old?x=1")
	r.Method, r.URL.Path, r.URL.RawQuery, r.RequestURI = "POST", "/new", "", "/new"
	if ok, _ := m.MatchWithError(r); !ok {
		t.Error("a rewritten request doesn't match")
	}
	sets := caddyhttp.MatcherSets{{m}}
	ForExemption(sets)
	if ok, err := sets.AnyMatchWithError(r); err != nil || !ok || len(sets[0]) != 1 {
		t.Error("an exemption doesn't match a rewritten request")
	}
	to := signed("GET", "http://example.com/new")
	to.URL.Path, to.RequestURI = "/new", "/new"
	sent := to.Context().Value(caddyhttp.OriginalRequestCtxKey).(http.Request)
	sent.URL.Path, sent.RequestURI = "/old", "/old"
	to = to.WithContext(context.WithValue(to.Context(), caddyhttp.OriginalRequestCtxKey, sent))
	if ok, _ := m.MatchWithError(to); ok {
		t.Error("a signature of the target of a rewrite matches")
	}
}

func TestSignedBotOptions(t *testing.T) {
	for text, want := range map[string]string{
		"signed_bot":                               "<file> is missing; the syntax is signed_bot <file> [<names...>]",
		"signed_bot bots.json one, two":            "no commas: write one two",
		"signed_bot bots.json {\nnames one\n}":     "it has no block; the syntax is signed_bot <file> [<names...>]",
		"signed_bot one.json\nsigned_bot two.json": "signed_bot is given twice in one set of matchers: merge both, or write another set",
		"signed_bot bots.json":                     "",
		"signed_bot bots.json one two":             "",
	} {
		err := new(SignedBot).UnmarshalCaddyfile(caddyfile.NewTestDispenser(text))
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: got %v, want %s", text, err, want)
		}
	}
}

func BenchmarkUnsigned(b *testing.B) {
	m, r := new(SignedBot), httptest.NewRequest(http.MethodGet, "/", nil)
	b.ReportAllocs()
	for b.Loop() {
		if ok, _ := m.MatchWithError(r); ok {
			b.Fatal("matches")
		}
	}
}
