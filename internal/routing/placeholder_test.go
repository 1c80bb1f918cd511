package routing

import (
	"slices"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	_ "github.com/caddyserver/caddy/v2/modules/caddyhttp/headers"
)

func TestNamesOfPlaceholders(t *testing.T) {
	for _, tt := range []struct {
		in   string
		want []string
	}{
		{"", nil},
		{"static", nil},
		{"{a}", []string{"a"}},
		{"x{a}y{b.c}z{a}", []string{"a", "b.c", "a"}},
		{`\{a\}`, nil},
		{`\{a}{b}`, []string{"b"}},
		{`{a\}b}`, []string{`a\}b`}},
		{"{a:default}", []string{"a:default"}}, // Caddy has no defaults
		{"{{a}", []string{"{a"}},
		{"{", nil},
		{"}", nil},
		{"}{", nil},
		{"a}b{c", nil},
		{"{}", []string{""}},
	} {
		if got := PlaceholderNames(tt.in); !slices.Equal(got, tt.want) {
			t.Errorf("PlaceholderNames(%q) = %q, want %q", tt.in, got, tt.want)
		}
	}
}

func TestKnownPlaceholders(t *testing.T) {
	for _, s := range []string{
		"",
		"static",
		`\{remote_host\}`,
		"{unclosed",
		"{http.request.remote.host}",
		"{http.request.remote.host/24,64}",
		"{http.request.remote.host}-{http.request.header.X-Tenant}",
		"{http.request.header.X-Anything}",
		"{http.request.cookie.session}",
		"{http.request.uri.query.user}",
		"{http.request.uri.path.3}",
		"{http.request.orig_uri.path.0}",
		"{http.request.host.labels.1}",
		"{http.request.tls.client.san.dns_names.0}",
		"{http.request.tls.client.subject}",
		"{http.request.local}",
		"{http.request.uuid}",
		"{http.request.orig_uri}",
		"{http.request.duration_ms}",
		"{http.response.header.X-User}",
		"{http.vars.client_ip}",
		"{http.vars.anything.at.all}",
		"{http.regexp.0}",
		"{http.regexp.name.group}",
		"{http.auth.user.id}",
		"{http.auth.user.some_claim}",
		"{http.auth.candidate.id}",
		"{http.auth.http_basic.error}",
		"{http.error}",
		"{http.error.status_code}",
		"{http.matchers.file.relative}",
		"{http.reverse_proxy.upstream.address}",
		"{http.intercept.status_code}",
		"{http.rate_limit.exceeded.name}",
		"{http.rate_limit.my zone.remaining}",
		"{http.shutting_down}",
		"{system.hostname}",
		"{time.now.year}",
		"{env.HOME}",
		"{file./run/secrets/x}",
		"{map.tenant}",
	} {
		if err := CheckPlaceholders(s); err != nil {
			t.Errorf("CheckPlaceholders(%q) = %v", s, err)
		}
	}
}

func TestUnknownPlaceholders(t *testing.T) {
	for _, tt := range []struct{ in, want string }{
		{"{}", `placeholder {} has no name`},
		{"{remote_host}", `unknown placeholder {remote_host}: did you mean {http.request.remote.host}?`},
		{"{header.X-Tenant}", `did you mean {http.request.header.X-Tenant}?`},
		{"{client_ip}", `did you mean {http.vars.client_ip}?`},
		{"{remote_hots}", `did you mean {http.request.remote.host}?`},
		{"{clientip}", `did you mean {http.vars.client_ip}? if the ` + "`map`" + ` directive sets it, give it a dotted name such as {map.clientip}`},
		{"{headers.X-Tenant}", `did you mean {http.request.header.X-Tenant}?`},
		{"{header.X.Y}", `did you mean {http.request.header.X.Y}?`},
		{"{http.request.remote.hots}", `did you mean {http.request.remote.host}?`},
		{"{http.request.remote_host}", `did you mean {http.request.remote.host}?`},
		{"{http.request.headers.X-Tenant}", `did you mean {http.request.header.X-Tenant}?`},
		{"{http.request.cookies.id}", `did you mean {http.request.cookie.id}?`},
		{"{http.var.client_ip}", `did you mean {http.vars.client_ip}?`},
		{"{htp.request.header.X}", `did you mean {http.request.header.X}?`},
		{"ok {http.request.host} {http.request.hosst}", `unknown placeholder {http.request.hosst}: did you mean {http.request.host}?`},
		{"{http.request.host:x}", `did you mean {http.request.host}?`},
		{"{http.request.header.}", `unknown placeholder {http.request.header.}`},
		{"{http.vars.}", `unknown placeholder {http.vars.}`},
		{"{http.header.X-Tenant}", `unknown placeholder {http.header.X-Tenant}: did you mean {http.request.header.X-Tenant}?`},
		{"{http.request.frobnicate}", `unknown placeholder {http.request.frobnicate}: neither`},
		{"{rate_limit.exceeded.name}", `unknown placeholder {rate_limit.exceeded.name}`},
		{"{geoip2.country}", "if a directive sets it, write `vars NAME {geoip2.country}` and use {http.vars.NAME}"},
		{"{tenant}", `unknown placeholder {tenant}: neither Caddy nor a module in it provides this name; if the ` + "`map` directive sets it, give it a dotted name such as {map.tenant}"},
		{"{id}", `unknown placeholder {id}: neither`}, // not {dir}
		{"{{http.request.host}", `unknown placeholder {{http.request.host}`},
		{strings.Repeat("{", 102), `too many unclosed placeholders`},
	} {
		err := CheckPlaceholders(tt.in)
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("CheckPlaceholders(%q) = %v, want %q in it", tt.in, err, tt.want)
		}
	}
}

// suggestions returns all names that errors may suggest, and their shorthands.
func suggestions() (names, short []string) {
	names, short = slices.Clone(usualPlaceholders), slices.Clone(shorthands)
	for _, family := range requestFamilies {
		names = append(names, family+"0")
	}
	for _, family := range shorthandFamilies {
		short = append(short, family+"0")
	}
	return names, short
}

// Every suggestion must be a name that this Caddy provides.
func TestSuggestedPlaceholdersAreKnown(t *testing.T) {
	names, shorthands := suggestions()
	for _, name := range names {
		if near := nearest(name + "s"); near != "" && !isKnown(near) {
			t.Errorf("{%s} is suggested, and Caddy does not provide it", near)
		}
		if !provides(name) {
			t.Errorf("Caddy does not provide {%s}", name)
		}
	}
	for _, name := range shorthands {
		full := caddyShorthand(name)
		if full == name || CheckPlaceholders("{"+full+"}") != nil {
			t.Errorf("the shorthand {%s} stands for {%s}", name, full)
		}
	}
}

func TestPlaceholdersThatNeedAServer(t *testing.T) {
	for _, name := range []string{"http.request.local", "http.request.uuid", "http.shutting_down"} {
		if !provides(name) {
			t.Errorf("{%s} makes Caddy look for what a server adds and is taken as unknown", name)
		}
	}
	if provides("http.request.nothing") {
		t.Error("a name that Caddy does not know is taken as known")
	}
}

func TestPlaceholdersOfOtherModules(t *testing.T) {
	own := strings.TrimSuffix(packageOf(origin{}), "/internal/routing")
	words := foreignWords([]origin{
		{ID: "http.handlers.geoip2", Package: "github.com/zhangjiayin/caddy-geoip2"},
		{ID: "http.handlers.extra_placeholders", Package: "github.com/steffenbusch/caddy-extra-placeholders"},
		{ID: "http.matchers.request_header", Package: "example.com/plugin"},
		{ID: "http.handlers.headers", Package: "github.com/caddyserver/caddy/v2/modules/caddyhttp/headers"},
		{ID: "http.matchers.file", Package: "github.com/caddyserver/caddy/v2/modules/caddyhttp/fileserver"},
		{ID: "rate_limit.stores.sqlite", Package: own},
	})
	for word, want := range map[string]bool{
		"geoip2": true, "extra_placeholders": true, "extra": true,
		"http": false, "handlers": false, "matchers": false, "headers": false,
		"request": false, "header": false, "rate_limit": false, "sqlite": false, "": false,
	} {
		if words[word] != want {
			t.Errorf("foreign word %q: %t, want %t", word, words[word], want)
		}
	}
}

// The ID of a module is the only source about its placeholders.
func TestModulesHaveOrigins(t *testing.T) {
	origins := modules()
	if !slices.Contains(origins, origin{ID: "http.handlers.headers", Package: "github.com/caddyserver/caddy/v2/modules/caddyhttp/headers"}) {
		t.Errorf("the headers handler is not among %d modules, or has another origin", len(origins))
	}
	if len(foreignWords(origins)) == 0 {
		t.Error("no words, not even those of Caddy")
	}
	for word, foreign := range foreignWords(origins) {
		if foreign {
			t.Errorf("%q is taken for another's word, but there are no modules of others here", word)
		}
	}
}

func FuzzPlaceholders(f *testing.F) {
	for _, s := range []string{"", "{", "}", "{}", `\{`, `{a\}`, "{remote_host}", "{http.request.header.X}", "{http.request.tls.client.san.ips.-1}", "{{{}", "{http.request.remote.host/x,y}", "{map.x}"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		names := PlaceholderNames(s)
		err := CheckPlaceholders(s)
		if err == nil && slices.Contains(names, "") {
			t.Errorf("%q has a placeholder without a name and is accepted", s)
		}
		if len(names) > 0 || err != nil {
			return
		}
		// A text without placeholders is the same for every request.
		repl := caddy.NewEmptyReplacer()
		if got, want := repl.ReplaceAll(s, "x"), repl.ReplaceAll(s, "y"); got != want {
			t.Errorf("%q has no placeholders and becomes %q or %q", s, got, want)
		}
	})
}
