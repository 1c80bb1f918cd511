package tally_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/proxyprotocol"

	tally "github.com/caddy-tally/caddy-tally"
)

// Caddy's interface of listener wrappers is experimental, and so is their module ID.
var (
	_ caddy.ListenerWrapper = (*tally.ListenerWrapper)(nil)
	_ caddy.ListenerWrapper = (*proxyprotocol.ListenerWrapper)(nil)
	_                       = caddyhttp.Server{ListenerWrappersRaw: nil}
)

// listening returns a config of a server with listener wrappers and other options.
func listening(t *testing.T, wrappers, options string) *caddy.Config {
	t.Helper()
	text := fmt.Sprintf("{\n\tadmin off\n\tservers {\n\t\tlistener_wrappers {\n%s\n\t\t}\n%s\n\t}\n}\nhttps://example.com {\n\trespond hello\n}\n", wrappers, options)
	config, _, err := caddyconfig.GetAdapter("caddyfile").Adapt([]byte(text), map[string]any{"filename": "Caddyfile"})
	if err != nil {
		t.Fatal(err)
	}
	c := new(caddy.Config)
	if err := caddy.StrictUnmarshalJSON(config, c); err != nil {
		t.Fatal(err)
	}
	return c
}

// The wrapper stands behind proxy_protocol and before tls, or the config is refused. This needs Caddy to keep the
// raw wrappers of a server while it provisions them.
func TestPlaceAmongListenerWrappers(t *testing.T) {
	for wrappers, want := range map[string]string{
		"rate_limit {\nconnections 5\n}\ntls":                     "",
		"proxy_protocol {\nallow 10.0.0.1/32\n}\nrate_limit\ntls": "",
		"rate_limit\nproxy_protocol {\nallow 10.0.0.1/32\n}\ntls": "write proxy_protocol before it, at Caddyfile:5",
		"rate_limit":                     "write tls behind it, at Caddyfile:5",
		"http_redirect\ntls\nrate_limit": "write tls behind it, at Caddyfile:7",
	} {
		err := caddy.Validate(listening(t, wrappers, ""))
		if (want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", wrappers, err, want)
		}
	}
}

// Trusted proxies come with the connections of many visitors, so a wrapper that counts them is warned of.
func TestProxiesAreExcepted(t *testing.T) {
	for _, test := range []struct {
		wrappers, trusted string
		fix               string
	}{
		{"rate_limit\ntls", "", ""},
		{"rate_limit\ntls", "static 10.0.0.0/8 192.0.2.1", "except 10.0.0.0/8 192.0.2.1"},
		{"rate_limit {\nexcept 10.0.0.0/7\n}\ntls", "static 10.0.0.0/8 192.0.2.1", "except 192.0.2.1"},
		{"rate_limit {\nexcept 10.0.0.0/7 192.0.2.1\n}\ntls", "static 10.0.0.0/8 192.0.2.1", ""},
		{"rate_limit {\nexcept private_ranges\n}\ntls", "static private_ranges", ""},
		{"rate_limit {\nexcept 10.0.0.0/9\n}\ntls", "static 10.0.0.0/8", "except 10.0.0.0/8"},
		{"proxy_protocol {\nallow 10.0.0.1/32\n}\nrate_limit\ntls", "static 10.0.0.0/8", ""},
	} {
		options := ""
		if test.trusted != "" {
			options = "trusted_proxies " + test.trusted
		}
		ctx, err := caddy.ProvisionContext(listening(t, test.wrappers, options))
		if err != nil {
			t.Fatal(err)
		}
		app, err := ctx.App("rate_limit")
		if err != nil {
			t.Fatal(err)
		}
		var given []string
		for _, a := range app.(*tally.App).Enforcer().Advice.All() {
			given = append(given, a.Fix)
		}
		if got := strings.Join(given, "; "); got != test.fix {
			t.Errorf("%s with %s: the advice is %q, want %q", test.wrappers, test.trusted, got, test.fix)
		}
	}
}

// Errors name what is wrong and what to write.
func TestErrorsOfListenerOptions(t *testing.T) {
	for lines, want := range map[string]string{
		"connections 0":          `must be a whole number above zero, got "0"`,
		"connections 5 6":        `connections: got "6", where nothing more is expected; the syntax is connections <n>`,
		"connections":            "connections: <n> is missing; the syntax is connections <n>",
		"limit":                  "limit: <n>/<duration> is missing; the syntax is limit",
		"limit 100":              "a window is missing",
		"limit 5/1m shadow":      "name, shadow and timezone are for limits of zones",
		"limit 5/1m\nlimit 6/1m": "limit is given twice: write it once",
		"except":                 "except: <network...> is missing; the syntax is except <network...>",
		"except example.com":     "expected an address or a network",
		"zone login":             `unrecognized option "zone": expected connections, limit or except`,
		"except key:x":           "expected an address or a network",
		"limit 5/1ms":            "window must be",
	} {
		tokens, err := caddyfile.Tokenize([]byte("rate_limit {\n"+lines+"\n}"), "Caddyfile")
		if err != nil {
			t.Fatal(err)
		}
		err = new(tally.ListenerWrapper).UnmarshalCaddyfile(caddyfile.NewDispenser(tokens))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", lines, err, want)
		}
	}
}

// A zone of the listener's name would be counted and shown together with it.
func TestNoZoneHasTheNameOfTheListener(t *testing.T) {
	c := listening(t, "rate_limit {\nconnections 5\n}\ntls", "")
	site := string(c.AppsRaw["http"])
	site = strings.Replace(site, `{"body":"hello"`, `{"handler":"rate_limit","zones":[{"name":"before_tls","limits":[{"amount":5,"window":"1m"}]}]},{"body":"hello"`, 1)
	c.AppsRaw["http"] = json.RawMessage(site)
	if err := caddy.Validate(c); err == nil || !strings.Contains(err.Error(), `zone "before_tls": this name is that of connections before TLS: write another one`) {
		t.Errorf("got %v", err)
	}
}

// An option `servers` with an address is for servers that listen at exactly this one, so a wrapper in it that a server
// of the same port doesn't get is warned of. This needs the field names of Caddy's options `servers`.
func TestServersThatGetNoWrapper(t *testing.T) {
	for _, test := range []struct{ global, site, fix string }{
		{"servers :443 {", "", ""},
		{"servers {", "bind 127.0.0.1", ""},
		{"servers :443 {", "bind 127.0.0.1", "servers 127.0.0.1:443"},
		{"default_bind 127.0.0.1 ::1\nservers :443 {", "", "servers 127.0.0.1:443"},
		{"default_bind 127.0.0.1\nservers 127.0.0.1:443 {", "", ""},
		{"default_bind 127.0.0.1\nservers :8443 {", "", "servers 127.0.0.1:443"},
		{"servers 127.0.0.1:443 {", "", "servers :443"},
		{"servers :443 {", "bind 127.0.0.1\n}\nb.example.com {\nrate_limit {\nzone b {\nlimit 5/1m\n}\n}", "servers 127.0.0.1:443"},
		{"servers :443 {\nlistener_wrappers {\nrate_limit\ntls\n}\n}\nservers 127.0.0.1:443 {", "bind 127.0.0.1", ""},
	} {
		text := "{\nadmin off\n" + test.global + "\nlistener_wrappers {\nrate_limit\ntls\n}\n}\n}\nexample.com {\nrate_limit {\nzone a {\nlimit 5/1m\n}\n}\n" + test.site + "\n}\n"
		adapted, _, err := caddyconfig.GetAdapter("caddyfile").Adapt([]byte(text), map[string]any{"filename": "Caddyfile"})
		if err != nil {
			t.Fatal(err)
		}
		c := new(caddy.Config)
		if err := caddy.StrictUnmarshalJSON(adapted, c); err != nil {
			t.Fatal(err)
		}
		ctx, err := caddy.ProvisionContext(c)
		if err != nil {
			t.Fatal(err)
		}
		app, err := ctx.App("rate_limit")
		if err != nil {
			t.Fatal(err)
		}
		var given []string
		for _, a := range app.(*tally.App).Enforcer().Advice.All() {
			if strings.Contains(a.Problem, "its options are not for this server") {
				given = append(given, strings.TrimSuffix(a.Fix, ", or servers without an address"))
			}
		}
		if got := strings.Join(given, "; "); got != test.fix {
			t.Errorf("%s with %q: the advice is %q, want %q", test.global, test.site, got, test.fix)
		}
	}
}
