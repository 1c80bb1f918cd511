package config

import (
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"slices"
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

// blocks are the options of all blocks, by their first words in the comments about the syntax.
func blocks() map[string][]string {
	return map[string][]string{
		"Handler rate_limit": handlerWords(), "zone": zoneWords(), "distributed": new(Distributed).options().words(), "page": new(Page).options().words(),
		"App rate_limit": appWords(), "notify": new(Notify).options().words(), "region": new(Region).options().words(),
		"session": new(Session).options().words(), "challenge": new(Challenge).options().words(), "pressure": new(Pressure).options().words(),
		"tier": new(Tier).options().words(), "api_keys": new(APIKeys).options().words(), "reputation": new(Reputation).options().words(),
		"Dashboard rate_limit_dashboard": new(Dashboard).options(nil).words(),
	}
}

// The comments of the methods UnmarshalCaddyfile have each word of the grammar in its block, and no
// other. (A test of the reference holds it to the comments.)
func TestSyntaxHasTheWordsOfTheGrammar(t *testing.T) {
	documented := make(map[string][]string)
	syntaxLines(t, func(block, line string) {
		word, _, _ := strings.Cut(line, " ")
		if !strings.HasPrefix(word, "<") && !slices.Contains(documented[block], word) {
			documented[block] = append(documented[block], word)
		}
		if words := wordsOf(line); word == "limit" && strings.Contains(line, "/<duration>") && !slices.Equal(words, slices.Sorted(slices.Values(slices.Concat(limitFlags, limitValues)))) {
			t.Errorf("%s: the words behind a limit are %q in the syntax, want %q and %q", block, words, limitFlags, limitValues)
		}
		if kinds, ok := strings.CutPrefix(line, "per "); ok && strings.TrimSpace(kinds) != strings.Join(perKinds, "|")+"|key <value>" {
			t.Errorf("%s: per is for %s in the syntax, want %q", block, kinds, perKinds)
		}
	})
	for block, words := range blocks() {
		for _, word := range words {
			if !slices.Contains(documented[block], word) {
				t.Errorf("the syntax in UnmarshalCaddyfile lacks %q in the block %s", word, block)
			}
		}
		for _, word := range documented[block] {
			if !slices.Contains(words, word) {
				t.Errorf("the syntax in UnmarshalCaddyfile has %q in the block %s, and the grammar has not", word, block)
			}
		}
		delete(documented, block)
	}
	for block, words := range documented {
		if len(words) > 0 {
			t.Errorf("the syntax in UnmarshalCaddyfile has a block %s with %q, which this test doesn't know", block, words)
		}
	}
}

// wordsOf returns the words in brackets, sorted.
func wordsOf(line string) (words []string) {
	for _, m := range regexp.MustCompile(`\[([a-z_|]+)`).FindAllStringSubmatch(line, -1) {
		words = append(words, strings.Split(m[1], "|")...)
	}
	slices.Sort(words)
	return words
}

// syntaxLines calls f with the lines of the blocks in the comments of the methods UnmarshalCaddyfile.
func syntaxLines(t *testing.T, f func(block, line string)) {
	t.Helper()
	for _, name := range []string{"caddyfile.go", "dashboard.go"} {
		file, err := parser.ParseFile(token.NewFileSet(), "../../"+name, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		for _, decl := range file.Decls {
			method, ok := decl.(*ast.FuncDecl)
			if !ok || method.Name.Name != "UnmarshalCaddyfile" {
				continue
			}
			receiver := method.Recv.List[0].Type.(*ast.StarExpr).X.(*ast.Ident).Name + " "
			_, syntax, _ := strings.Cut(method.Doc.Text(), "Syntax:\n")
			var around []string
			for line := range strings.Lines(syntax) {
				line, isCode := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "\t")
				line = strings.TrimSpace(line)
				switch {
				case !isCode || line == "":
					continue
				case line == "}":
					around = around[:len(around)-1]
					continue
				case len(around) > 0:
					f(around[len(around)-1], line)
				}
				if opening, isBlock := strings.CutSuffix(line, " {"); isBlock {
					word, _, _ := strings.Cut(opening, " ")
					if len(around) == 0 {
						word = receiver + word
					}
					around = append(around, word)
				}
			}
		}
	}
}
