package tally_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const reference = "docs/reference.md"

// peerReference has the options that are there for configs of mholt/caddy-ratelimit.
const peerReference = "docs/migrate/mholt.md"

// optionSections are the headings of the reference for blocks with a different first line.
var optionSections = map[string]string{
	"Handler: rate_limit [<matcher>]": "Handler",
	"App: rate_limit":                 "Global option",
	"ListenerWrapper: rate_limit":     "Before TLS",
	"zone <name>":                     "Zone",
	"SQLite: sqlite [<path>]":         "`store`",
	"Memory: memory":                  "`store`",
}

// Every option word of the grammar, which follows "Syntax:" in the comments of the Unmarshal
// functions, has an entry in the reference: a heading or the first cell of a row, in the section of
// its block.
func TestReferenceHasEveryOption(t *testing.T) {
	text, peers := readText(t, reference), readText(t, peerReference)
	sections := markdownSections(text)
	syntaxes := syntaxComments(t)
	for _, receiver := range []string{"Handler", "App", "SQLite", "Memory", "Endpoint", "Dashboard"} {
		if syntaxes[receiver] == "" {
			t.Errorf("UnmarshalCaddyfile of %s has no grammar after \"Syntax:\" in its comment", receiver)
		}
	}
	for receiver, syntax := range syntaxes {
		var blocks []string // their sections
		for _, line := range strings.Split(syntax, "\n") {
			line, isCode := strings.CutPrefix(line, "\t")
			line = strings.TrimSpace(line)
			word, _, _ := strings.Cut(line, " ")
			switch {
			case !isCode || line == "" || strings.HasPrefix(word, "<"):
				continue
			case line == "}":
				blocks = blocks[:len(blocks)-1]
				continue
			case len(blocks) > 0 && !hasEntry(sections[blocks[len(blocks)-1]], word) && !hasEntry(peers, word):
				t.Errorf("%s: expected an entry for %q, a heading or a row, in the section %s: the grammar of %s has `%s`",
					reference, word, blocks[len(blocks)-1], receiver, line)
			}
			opening, isBlock := strings.CutSuffix(line, " {")
			if len(blocks) == 0 && !isBlock && !hasEntry(text, word) {
				t.Errorf("%s: expected an entry for %q, a heading or a row: the grammar of %s has `%s`", reference, word, receiver, line)
			}
			if isBlock {
				blocks = append(blocks, sectionOf(receiver, opening, blocks, sections))
			}
		}
	}
}

// sectionOf returns the heading of a block's section: a heading with the block's first line in code
// or its first word, or else that of the surrounding block.
func sectionOf(receiver, opening string, around []string, sections map[string]string) string {
	word, _, _ := strings.Cut(opening, " ")
	for _, heading := range []string{optionSections[receiver+": "+opening], optionSections[opening], "`" + opening + "`", "`" + word + "`"} {
		if _, exists := sections[heading]; exists {
			return heading
		}
	}
	if len(around) == 0 {
		return "(none for " + opening + ")"
	}
	return around[len(around)-1]
}

// hasEntry reports whether a heading or the first cell of a row has the word at the beginning of a
// piece of code.
func hasEntry(section, word string) bool {
	entry := regexp.MustCompile("(?m)^(#+ |\\| )[^|\n]*`" + regexp.QuoteMeta(word) + "[ `]")
	return entry.MatchString(section)
}

// markdownSections returns the text below each heading, including deeper headings, but not the
// heading itself.
func markdownSections(text string) map[string]string {
	sections := make(map[string]string)
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		depth := headingDepth(line)
		if depth == 0 {
			continue
		}
		end := i + 1
		for end < len(lines) && (headingDepth(lines[end]) == 0 || headingDepth(lines[end]) > depth) {
			end++
		}
		sections[strings.TrimSpace(line[depth:])] = strings.Join(lines[i+1:end], "\n")
	}
	return sections
}

// headingDepth returns the number of # of a heading, and 0 for other lines.
func headingDepth(line string) int {
	depth := len(line) - len(strings.TrimLeft(line, "#"))
	if !strings.HasPrefix(line[depth:], " ") {
		return 0
	}
	return depth
}

// syntaxComments returns the grammars in the comments of the methods UnmarshalCaddyfile, by
// receiver.
func syntaxComments(t *testing.T) map[string]string {
	t.Helper()
	names, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	names = append(names, "internal/matcher/endpoint.go", "internal/matcher/bot.go", "internal/stores/sqlite.go", "internal/stores/memory.go")
	syntaxes := make(map[string]string)
	for _, name := range names {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		for _, decl := range file.Decls {
			f, ok := decl.(*ast.FuncDecl)
			if !ok || f.Recv == nil || f.Name.Name != "UnmarshalCaddyfile" {
				continue
			}
			if _, syntax, found := strings.Cut(f.Doc.Text(), "Syntax:\n"); found {
				syntaxes[receiverName(f)] = syntax
			}
		}
	}
	return syntaxes
}

func receiverName(f *ast.FuncDecl) string {
	typ := f.Recv.List[0].Type
	if star, ok := typ.(*ast.StarExpr); ok {
		typ = star.X
	}
	return typ.(*ast.Ident).Name
}
