package tally_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-tally/caddy-tally/internal/answer"
	"github.com/caddy-tally/caddy-tally/internal/bodyfield"
	"github.com/caddy-tally/caddy-tally/internal/enforce"
)

const reference = "docs/reference.md"

// peerReference has the options that are there for configs of mholt/caddy-ratelimit.
const peerReference = "docs/migrate/mholt.md"

// zonePages are the pages of the reference about the options of a zone.
var zonePages = []string{"matching", "crawlers", "keys", "bodies", "limits", "costs"}

// optionPages are the pages with the options of the blocks of a grammar.
var optionPages = map[string][]string{
	"Handler":         {"handler"},
	"App":             {"global", "sessions", "api-keys"},
	"ListenerWrapper": {"before-tls"},
	"Permission":      {"handler"},
	"Dashboard":       {"handler"},
	"SQLite":          {"global"},
	"Memory":          {"global"},
	"Endpoint":        {"matching"},
	"VerifiedBot":     {"crawlers"},
}

// optionSections are the headings of the reference for blocks with a different first line.
var optionSections = map[string]string{
	"Handler: rate_limit [<matcher>]": "Handler",
	"App: rate_limit":                 "Global option",
	"ListenerWrapper: rate_limit":     "Before TLS",
	"zone <name>":                     "Zone",
	"SQLite: sqlite [<path>]":         "`store`",
	"Memory: memory":                  "`store`",
}

// referencePages returns the pages of the reference by their names.
func referencePages(t *testing.T) map[string]string {
	t.Helper()
	paths, err := filepath.Glob("docs/reference/*.md")
	if err != nil {
		t.Fatal(err)
	}
	pages := make(map[string]string)
	for _, path := range paths {
		pages[strings.TrimSuffix(filepath.Base(path), ".md")] = readText(t, path)
	}
	return pages
}

// Every option word of the grammar, which follows "Syntax:" in the comments of the Unmarshal
// functions, has an entry in the reference: a heading or the first cell of a row, in the section of
// its block.
func TestReferenceHasEveryOption(t *testing.T) {
	text, peers := "", readText(t, peerReference)
	pages := referencePages(t)
	for _, name := range slices.Sorted(maps.Keys(pages)) {
		text += pages[name]
	}
	sections := markdownSections(text)
	for _, page := range zonePages {
		sections["Zone"] += pages[page]
	}
	for _, page := range optionPages["App"] {
		sections["Global option"] += pages[page]
	}
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

// option is a line of a grammar, and the lines of its block.
type option struct {
	line    string
	page    string // of the reference
	options []*option
}

func (o *option) word() string {
	word, _, _ := strings.Cut(o.line, " ")
	return word
}

// grammarOf returns the lines of a grammar, each with the page that has its entry: that of the block around
// it, unless the block has several pages.
func grammarOf(t *testing.T, receiver, syntax string, pages map[string]string) *option {
	root := &option{page: optionPages[receiver][0]}
	around := []*option{root}
	for line := range strings.Lines(syntax) {
		line, isCode := strings.CutPrefix(strings.TrimRight(line, "\n"), "\t")
		line = strings.TrimSpace(line)
		last := around[len(around)-1]
		opening, isBlock := strings.CutSuffix(line, " {")
		switch {
		case !isCode || line == "":
			continue
		case line == "}":
			around = around[:len(around)-1]
			continue
		}
		o := &option{line: opening, page: last.page}
		candidates := optionPages[receiver]
		if last.word() == "zone" && receiver == "Handler" {
			candidates = zonePages
		}
		if depth := len(around); depth == 2 || depth == 3 && last.word() == "zone" {
			o.page = pageOf(o.word(), last.page, candidates, pages)
		}
		last.options = append(last.options, o)
		if isBlock {
			around = append(around, o)
		}
	}
	return root
}

// pageOf returns the first of some pages with a heading for an option, or else with a row for it.
func pageOf(word, otherwise string, candidates []string, pages map[string]string) string {
	for _, entry := range []func(page, word string) []int{headingOf, rowOf} {
		for _, page := range candidates {
			if entry(pages[page], word) != nil {
				return page
			}
		}
	}
	return otherwise
}

// headingOf and rowOf return where a page has a heading, or a row, that begins with an option.
func headingOf(page, word string) []int { return entryOf("#+ ", page, word) }
func rowOf(page, word string) []int     { return entryOf(`\| `, page, word) }

func entryOf(begin, page, word string) []int {
	return regexp.MustCompile("(?m)^" + begin + "[^|\n]*`" + regexp.QuoteMeta(word) + "[ `].*$").FindStringIndex(page)
}

// syntaxOn returns the lines of a grammar that a page has entries for, with the blocks around them.
func (o *option) syntaxOn(page, indent string) (text string) {
	for _, inner := range o.options {
		nested := inner.syntaxOn(page, indent+"\t")
		switch {
		case nested != "":
			text += indent + inner.line + " {\n" + nested + indent + "}\n"
		case isPeerOption[inner.word()]:
		case inner.page == page && len(inner.options) > 0:
			text += indent + inner.line + " { … }\n"
		case inner.page == page:
			text += indent + inner.line + "\n"
		}
	}
	return text
}

// isPeerOption has the options of the notation of mholt/caddy-ratelimit, which has a page of its own.
var isPeerOption = map[string]bool{
	"key": true, "window": true, "events": true, "sweep_interval": true, "storage": true, "distributed": true,
	"read_interval": true, "write_interval": true, "purge_age": true,
}

// Each page of the reference begins with the lines of the grammar that it explains, and the reference has an
// index of all options and placeholders.
func TestReferencePages(t *testing.T) {
	pages, syntaxes := referencePages(t), syntaxComments(t)
	grammars := make(map[string]*option)
	for receiver, syntax := range syntaxes {
		if optionPages[receiver] == nil {
			t.Fatalf("optionPages has no page for %s", receiver)
		}
		grammars[receiver] = grammarOf(t, receiver, syntax, pages)
	}
	for name, page := range pages {
		if words := len(strings.Fields(page)); words > 1550 {
			t.Errorf("docs/reference/%s.md has %d words, want at most 1,550: it is more than one subject", name, words)
		}
		box := ""
		for _, receiver := range slices.Sorted(maps.Keys(grammars)) {
			box += grammars[receiver].syntaxOn(name, "")
		}
		if box != "" {
			box = "\n```text\n" + box + "```\n"
		}
		writeGenerated(t, "docs/reference/"+name+".md", "<!-- syntax -->", box)
	}
	writeGenerated(t, reference, "<!-- options -->", indexOfOptions(t, grammars, pages)+indexOfPlaceholders(t))
}

// writeGenerated compares the text behind a mark, up to the end mark, with what it should be, or writes it.
func writeGenerated(t *testing.T, path, mark, want string) {
	t.Helper()
	const end = "<!-- end -->\n"
	before, rest, found := strings.Cut(readText(t, path), mark+"\n")
	got, after, ended := strings.Cut(rest, end)
	if !found || !ended {
		t.Errorf("%s: expected %s, and %s after it", path, mark, strings.TrimSpace(end))
		return
	}
	if want += "\n"; got == want {
		return
	}
	if !*updateReference {
		t.Errorf("%s is not what the comments say: run make reference and look at the difference", path)
		return
	}
	if err := os.WriteFile(path, []byte(before+mark+"\n"+want+end+after), 0o644); err != nil {
		t.Fatal(err)
	}
}

// indexOfOptions returns a list of the options of each block, with links to their entries.
func indexOfOptions(t *testing.T, grammars map[string]*option, pages map[string]string) string {
	var out strings.Builder
	out.WriteString("\n## All options\n\n| in | |\n|---|---|\n")
	var list func(block string, o *option)
	list = func(block string, o *option) {
		links := make(map[string]string)
		for _, inner := range o.options {
			word := inner.word()
			if anchor, found := anchorOf(pages[inner.page], word); found && block != "" && !isPeerOption[word] {
				links[word] = fmt.Sprintf("[`%s`](reference/%s.md%s)", word, inner.page, anchor)
			}
		}
		if len(links) > 0 {
			fmt.Fprintf(&out, "| `%s` | %s |\n", block, strings.Join(slices.Sorted(maps.Values(links)), ", "))
		}
		done := make(map[string]bool)
		for _, inner := range o.options {
			if !done[inner.word()] {
				done[inner.word()] = true
				name, _, _ := strings.Cut(inner.line, "[")
				list(strings.Join(strings.Fields(name), " "), inner)
			}
		}
	}
	for _, receiver := range []string{"Handler", "App", "ListenerWrapper", "Permission", "Dashboard", "SQLite", "Memory", "VerifiedBot"} {
		if grammars[receiver] == nil {
			t.Errorf("there is no grammar of %s", receiver)
			continue
		}
		list("", grammars[receiver])
	}
	return strings.ReplaceAll(out.String(), "| `rate_limit` | [`block_list`]", "| `rate_limit`, the global option | [`block_list`]")
}

// anchorOf returns the anchor of the last heading before the entry of an option, "" for the first one, which is
// the page's. It reports whether there is an entry.
func anchorOf(page, word string) (anchor string, found bool) {
	entry := headingOf(page, word)
	if entry == nil {
		entry = rowOf(page, word)
	}
	if entry == nil {
		return "", false
	}
	for line := range strings.Lines(page[:entry[1]]) {
		if depth := headingDepth(line); depth > 1 {
			for slug := range anchors(line) {
				anchor = "#" + slug
			}
		}
	}
	return anchor, true
}

// placeholders say where each placeholder is explained.
func placeholders() map[string]string {
	all := map[string]string{
		"asn": "output.md#placeholders", "country": "output.md#placeholders", "domain": "reference/keys.md#per",
		"form.<name>": "reference/bodies.md#fields-of-the-body", "json.<path>": "reference/bodies.md#fields-of-the-body",
		"answer.<path>":    "reference/costs.md#settle",
		"<zone>.remaining": "output.md#placeholders", "<zone>.would_refuse": "output.md#placeholders",
	}
	for name := range answer.ExceededPlaceholders {
		all[name] = "output.md#placeholders"
	}
	for _, name := range enforce.ClientPlaceholders {
		all["client"+name] = "clients.md#placeholders"
	}
	return all
}

// indexOfPlaceholders returns a list of all placeholders, with links to where they are explained.
func indexOfPlaceholders(t *testing.T) string {
	for _, name := range []string{enforce.ASNPlaceholder, enforce.CountryPlaceholder, enforce.DomainPlaceholder, bodyfield.Form + "<name>", bodyfield.JSON + "<path>", bodyfield.Answer + "<path>"} {
		if placeholders()[strings.TrimPrefix(name, enforce.OurPlaceholders)] == "" {
			t.Errorf("the index lacks {%s}", name)
		}
	}
	var links []string
	for name, place := range placeholders() {
		path, _, _ := strings.Cut(place, "#")
		if full := "{" + enforce.OurPlaceholders + name + "}"; !strings.Contains(readText(t, "docs/"+path), full) {
			t.Errorf("docs/%s doesn't have %s", path, full)
		}
		links = append(links, fmt.Sprintf("[`%s`](%s)", name, place))
	}
	slices.Sort(links)
	return "\n## All placeholders\n\n" + wrapped("Each begins with `http.rate_limit.`: "+strings.Join(links, ", ")+".\n")
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
