package config

import (
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
)

// The error about a store that is missing from this Caddy names its package, and a password in
// place of a store's name is not quoted.
func TestUnknownStore(t *testing.T) {
	for name, want := range map[string]string{
		"redis":                          "build it with xcaddy build --with github.com/caddy-tally/caddy-tally --with github.com/caddy-tally/caddy-tally/storage/redis",
		"rediss://:geheim@cache":         "write store redis rediss://…",
		"postgresql://a:geheim@db/tally": "write store postgres postgresql://…",
		"mysql://a:geheim@db/tally":      "write store redis redis://… or store postgres postgres://…",
		"/var/lib/tally.db":              "write store sqlite /var/lib/tally.db",
	} {
		d := caddyfile.NewTestDispenser("rate_limit {\n\tstore " + name + "\n}")
		err := unknownStore(d, name)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "geheim") {
			t.Errorf("store %s: error is %v, want %q in it", name, err, want)
		}
		if by := new(App).Unmarshal(d); by == nil || !strings.Contains(by.Error(), want) {
			t.Errorf("store %s in a Caddyfile: error is %v, want %q in it", name, by, want)
		}
	}
}

// The error about an exchange that is missing from this Caddy names its package, which there is.
func TestUnknownExchange(t *testing.T) {
	const want = "build it with xcaddy build --with github.com/caddy-tally/caddy-tally --with github.com/caddy-tally/caddy-tally/storage/exchange/postgres"
	d := caddyfile.NewTestDispenser("rate_limit {\n\tregion eu {\n\t\texchange postgres postgres://db/tally\n\t}\n}")
	if err := new(App).Unmarshal(d); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("error is %v, want %q in it", err, want)
	}
	if _, err := os.Stat("../../storage/exchange/postgres"); err != nil {
		t.Error(err)
	}
}

var updateSyntax = flag.Bool("syntax.update", false, "write the syntax into the comments of the methods UnmarshalCaddyfile")

// The comments of the methods UnmarshalCaddyfile show the grammar. (A test of the reference holds it to the
// comments.)
func TestSyntaxInComments(t *testing.T) {
	for file, syntax := range map[string]string{
		"caddyfile.go func (h *Handler)":        "rate_limit [<matcher>] {\n" + new(Handler).block(nil).Text("\t") + "}\n",
		"caddyfile.go func (a *App)":            "rate_limit {\n" + new(App).block().Text("\t") + "}\n",
		"dashboard.go func (dash *Dashboard)":   "rate_limit_dashboard [<matcher>] {\n" + new(Dashboard).block(nil).Text("\t") + "}\n",
		"listener.go func (w *ListenerWrapper)": "rate_limit {\n" + new(Listener).block().Text("\t") + "}\n",
	} {
		name, method, _ := strings.Cut(file, " ")
		raw, err := os.ReadFile("../../" + name)
		if err != nil {
			t.Fatal(err)
		}
		before, after, found := strings.Cut(string(raw), method+" UnmarshalCaddyfile(")
		i := strings.LastIndex(before, " Syntax:\n//\n")
		if !found || i < 0 {
			t.Fatalf("%s has no syntax in a comment", file)
		}
		i += len(" Syntax:\n//\n")
		comment := before[i:]
		end := i
		for line := range strings.Lines(comment) {
			if !strings.HasPrefix(line, "//\t") {
				break
			}
			end += len(line)
		}
		want := ""
		for line := range strings.Lines(syntax) {
			want += "//\t" + line
		}
		if before[i:end] == want {
			continue
		}
		if !*updateSyntax {
			t.Errorf("the syntax in the comment of %s is not that of the grammar: run make reference; it is\n%s", file, want)
			continue
		}
		if err := os.WriteFile("../../"+name, []byte(before[:i]+want+before[end:]+method+" UnmarshalCaddyfile("+after), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
