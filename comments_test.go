package tally_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// nameInComment finds words that can only be identifiers: with a capital inside or two capitals, and what is in brackets. What is
// between quotes, in braces or in an address isn't looked at.
var (
	nameInComment = regexp.MustCompile(`\b(?:[A-Z][a-z0-9]+){2,}\b|\b[a-z][a-z0-9]*(?:[A-Z][A-Za-z0-9]*)+\b|\[\*?[A-Za-z]\w*(?:\.\w+)*\]`)
	nameInPage    = regexp.MustCompile(`\b[a-z][a-z0-9]*(?:[A-Z][A-Za-z0-9]*)+\b|\b[a-z]+\.[A-Z]\w+|\bTest[A-Z]\w+`)
	quoted        = regexp.MustCompile("\"[^\"\n]*\"|`[^`]*`|'[^'\n]*'|https?://\\S+|\\{[^}\n]*\\}")
)

// namesOfOthers are names in SQLite, Go, Caddy and Unicode escapes, and of services.
var namesOfOthers = []string{"pUnused", "nBackfill", "nBackfillAttempted", "maybeRunChan", "uXXXX", "xXX", "hCaptcha", "reCAPTCHA", "gRPC", "gRPCs", "UsagePool", "WebSockets", "WebCrypto", "ResponseController", "ObjectMarshaler", "MurmurHash3", "HyperLogLog",
	"GitHub", "DevTools", "CrowdSec"}

// Comments, and pages for those who read the code, name identifiers that exist: what was renamed or removed is in none any more.
func TestCommentsNameWhatExists(t *testing.T) {
	known, comments := make(map[string]bool), make(map[string][]string)
	for _, name := range namesOfOthers {
		known[name] = true
	}
	for _, p := range listPackages(t) {
		files, err := filepath.Glob(filepath.Join(p.Dir, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range files {
			set := token.NewFileSet()
			file, err := parser.ParseFile(set, name, nil, parser.ParseComments)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(file, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.Ident:
					known[n.Name] = true
				case *ast.BasicLit: // of an import, a field in JSON, a function of SQL or Lua
					for _, word := range regexp.MustCompile(`\w+`).FindAllString(n.Value, -1) {
						known[word] = true
					}
				}
				return true
			})
			for _, group := range file.Comments {
				for _, c := range group.List {
					if strings.HasPrefix(c.Text, "//go:") || strings.HasPrefix(c.Text, "//nolint") || strings.HasPrefix(c.Text, "//\t") {
						continue
					}
					for _, word := range nameInComment.FindAllString(quoted.ReplaceAllString(c.Text, " "), -1) {
						comments[word] = append(comments[word], set.Position(c.Pos()).String())
					}
				}
			}
		}
	}
	for _, name := range markdownFiles(t) {
		if name := filepath.ToSlash(name); !strings.HasPrefix(name, "docs/decisions/") && !slices.Contains([]string{"docs/architecture.md", "docs/goroutines.md", "CONTRIBUTING.md"}, name) {
			continue // pages for users name what other programs have
		}
		for _, span := range codeSpan.FindAllString(readText(t, name), -1) {
			for _, word := range nameInPage.FindAllString(span, -1) {
				comments[word] = append(comments[word], name)
			}
		}
	}
	found := 0
	for word, places := range comments {
		for _, name := range strings.Split(strings.Trim(word, "[*]"), ".") {
			if found++; !known[name] {
				t.Errorf("%s: there is no %s", strings.Join(places, ", "), word)
			}
		}
	}
	if found < 500 {
		t.Errorf("found %d names in comments", found)
	}
}
