package tally_test

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	_ "github.com/caddyserver/caddy/v2/modules/standard"

	tally "github.com/caddy-tally/caddy-tally"
	"github.com/caddy-tally/caddy-tally/internal/caddyconf"
	"github.com/caddy-tally/caddy-tally/internal/config"
	"github.com/caddy-tally/caddy-tally/internal/names"
	"github.com/caddy-tally/caddy-tally/internal/stores"
	"github.com/caddy-tally/caddy-tally/internal/testing/golden"
	"github.com/caddy-tally/caddy-tally/internal/testing/handlertest"
)

// The golden files in caddytest test the adapted JSON and the errors of whole Caddyfiles.

func TestUnmarshalCaddyfileWithoutHelper(t *testing.T) {
	for _, tt := range []struct{ match, want, wantErr string }{
		{match: "/login", want: `[{"endpoint":{"paths":["/login"]}}]`},
		{match: "*", want: `[{}]`},
		{match: "path /login", want: `[{"path":["/login"]}]`},
		{match: "@api", wantErr: `failed to parse match: matchers have no names here, got "@api": write a block of matchers, at Caddyfile:3`},
	} {
		var h tally.Handler
		err := h.UnmarshalCaddyfile(dispense(t, "rate_limit {\n\tzone login {\n\t\tmatch "+tt.match+"\n\t\tlimit 5/1m\n\t}\n}"))
		if tt.wantErr != "" {
			if err == nil || !strings.Contains(err.Error(), tt.wantErr) {
				t.Errorf("match %s: error is %v, want %q in it", tt.match, err, tt.wantErr)
			}
			continue
		}
		if err != nil {
			t.Errorf("match %s: %v", tt.match, err)
			continue
		}
		if got, _ := json.Marshal(h.Zones[0].MatcherSetsRaw); string(got) != tt.want {
			t.Errorf("match %s: %s, want %s", tt.match, got, tt.want)
		}
	}
}

func TestOrList(t *testing.T) {
	for want, words := range map[string][]string{"": nil, "a": {"a"}, "a or b": {"a", "b"}, "a, b or c": {"a", "b", "c"}} {
		if got := caddyconf.OrList(words); got != want {
			t.Errorf("orList(%q) = %q, want %q", words, got, want)
		}
	}
}

func dispense(t *testing.T, input string) *caddyfile.Dispenser {
	t.Helper()
	tokens, err := caddyfile.Tokenize([]byte(input), "Caddyfile")
	if err != nil {
		t.Fatal(err)
	}
	return caddyfile.NewDispenser(tokens)
}

// No tokens make a parser panic. Accepted tokens give JSON that Caddy decodes to the same value,
// and that can be provisioned or is rejected.
func FuzzCaddyfile(f *testing.F) {
	for _, seed := range caddyfileSeeds(f) {
		f.Add(seed)
	}
	ctx, err := caddy.ProvisionContext(&caddy.Config{
		AppsRaw: caddy.ModuleMap{names.App: json.RawMessage(`{"store": {"engine": "memory"}}`)}, Logging: handlertest.Quiet(),
	})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, input string) {
		tokens, err := caddyfile.Tokenize([]byte(input), "Caddyfile")
		if err != nil {
			return
		}
		h := &tally.Handler{Handler: config.Handler{DisableMetrics: true}} // metrics would be kept forever
		if checkUnmarshaler(t, tokens, &tally.Handler{Handler: config.Handler{DisableMetrics: true}}, h) {
			checkProvision(t, ctx, h)
		}
		a := new(tally.App)
		if checkUnmarshaler(t, tokens, new(tally.App), a) {
			checkProvision(t, ctx, a)
		}
		s := new(stores.SQLite)
		if checkUnmarshaler(t, tokens, new(stores.SQLite), s) {
			checkProvision(t, ctx, s)
		}
	})
}

// checkProvision provisions a module, which may fail, and then cleans it up as Caddy does in both
// cases.
func checkProvision(t *testing.T, ctx caddy.Context, module caddy.Provisioner) {
	t.Helper()
	if err := module.Provision(ctx); err != nil && err.Error() == "" {
		t.Errorf("%T is refused without a reason", module)
	}
	if module, ok := module.(caddy.CleanerUpper); ok {
		if err := module.Cleanup(); err != nil {
			t.Errorf("%T can't be cleaned up: %v", module, err)
		}
	}
}

// checkUnmarshaler reports whether the tokens are accepted.
func checkUnmarshaler(t *testing.T, tokens []caddyfile.Token, parsed, decoded caddyfile.Unmarshaler) bool {
	t.Helper()
	if parsed.UnmarshalCaddyfile(caddyfile.NewDispenser(tokens)) != nil {
		return false
	}
	raw, err := json.Marshal(parsed)
	if err != nil {
		t.Fatalf("%T is accepted and can't be encoded: %v", parsed, err)
	}
	if err := caddy.StrictUnmarshalJSON(raw, decoded); err != nil {
		t.Fatalf("%T is accepted and can't be decoded: %v\n%s", parsed, err, raw)
	}
	again, err := json.Marshal(decoded)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(raw, again) {
		t.Errorf("%T is encoded as\n%s\nand, decoded, as\n%s", parsed, raw, again)
	}
	return true
}

// caddyfileSeeds returns every rate_limit block of the golden files and the files of
// errors.
func caddyfileSeeds(f *testing.F) []string {
	f.Helper()
	adapted, _ := filepath.Glob("caddytest/testdata/adapt/*.caddyfiletest")
	errors, _ := filepath.Glob("caddytest/testdata/errors/*.txt")
	if len(adapted) == 0 || len(errors) == 0 {
		f.Fatal("there are no golden files")
	}
	var seeds []string
	for _, path := range adapted {
		input, _, err := golden.Read(path)
		if err != nil {
			f.Fatal(err)
		}
		seeds = append(seeds, rateLimitBlocks(input)...)
	}
	for _, path := range errors {
		cases, err := golden.ReadErrors(path)
		if err != nil {
			f.Fatal(err)
		}
		for _, c := range cases {
			seeds = append(seeds, rateLimitBlocks(c.Caddyfile)...)
		}
	}
	return seeds
}

func rateLimitBlocks(input string) []string {
	tokens, err := caddyfile.Tokenize([]byte(input), "Caddyfile")
	if err != nil {
		return nil
	}
	lines := strings.Split(input, "\n")
	var blocks []string
	for d := caddyfile.NewDispenser(tokens); d.Next(); {
		if d.Val() != "rate_limit" {
			continue
		}
		segment := d.NextSegment()
		first, last := segment[0].Line, segment[len(segment)-1].Line
		blocks = append(blocks, strings.Join(lines[first-1:last], "\n"))
	}
	return blocks
}
