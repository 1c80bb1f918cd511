package tally_test

import (
	"fmt"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Every package has a package comment. A test file may have it if the package has only tests.
func TestPackagesHaveComments(t *testing.T) {
	for _, p := range listPackages(t) {
		files := p.GoFiles
		if len(files) == 0 {
			files = slices.Concat(p.TestGoFiles, p.XTestGoFiles)
		}
		begins := "Package " + p.Name + " "
		if p.Name == "main" {
			begins = "Command " + filepath.Base(p.Dir) + " "
		}
		if comments := packageComments(t, p.Dir, files); len(comments) != 1 || !strings.HasPrefix(comments[0], begins) {
			t.Errorf("%s has the comments %q, want one that begins with %q", p.ImportPath, comments, begins)
		}
	}
}

func packageComments(t *testing.T, dir string, files []string) (comments []string) {
	t.Helper()
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(dir, name), nil, parser.PackageClauseOnly|parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		if file.Doc != nil {
			comments = append(comments, file.Doc.Text())
		}
	}
	return comments
}

var (
	decisionFile = regexp.MustCompile(`^([0-9]{4})-[a-z0-9-]+\.md$`)
	indexLine    = regexp.MustCompile(`(?m)^- \[([0-9]+)\]\(([^)]+)\) (.+)$`)
)

// The index of decisions names each of them, once, and nothing else; and all begin alike.
func TestIndexNamesAllDecisions(t *testing.T) {
	const folder = "docs/decisions"
	index := readText(t, filepath.Join(folder, "README.md"))
	listed := make(map[string]string) // numbers, by file
	for _, m := range indexLine.FindAllStringSubmatch(index, -1) {
		if listed[m[2]] != "" {
			t.Errorf("the index has two lines for %s", m[2])
		}
		listed[m[2]] = m[1]
	}
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		name := entry.Name()
		if name == "README.md" {
			continue
		}
		m := decisionFile.FindStringSubmatch(name)
		if m == nil {
			t.Errorf("%s: expected a name such as 0001-what-was-decided.md", name)
			continue
		}
		number := strings.TrimLeft(m[1], "0")
		if listed[name] != number {
			t.Errorf("%s/README.md: expected a line `- [%s](%s) One plain sentence.` below a topic", folder, number, name)
		}
		delete(listed, name)
		checkDecision(t, name, number, readText(t, filepath.Join(folder, name)))
	}
	for name := range listed {
		t.Errorf("%s/README.md lists %s, which does not exist", folder, name)
	}
}

func checkDecision(t *testing.T, name, number, text string) {
	t.Helper()
	form := regexp.MustCompile(fmt.Sprintf(`^# %s\. [^\n]+\n\n\*\*Context\.\*\* `, number))
	if !form.MatchString(text) {
		t.Errorf("%s: expected `# %s. A title`, an empty line and `**Context.** …` at its beginning", name, number)
	}
	if !strings.Contains(text, "\n**Decision.**") {
		t.Errorf("%s: expected a paragraph that begins with `**Decision.**`", name)
	}
}

func readText(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return strings.ReplaceAll(string(text), "\r\n", "\n")
}

// The page about stores shows the skeleton, which compiles and is tested in the module of the example.
func TestPageShowsSkeletonOfStore(t *testing.T) {
	const page, file = "docs/stores-of-your-own.md", "examples/store-bbolt/skeleton/skeleton.go"
	_, code, found := strings.Cut(readText(t, file), "\n)\n\n")
	if want := "```go\n" + code + "```\n"; !found || !strings.Contains(readText(t, page), want) {
		t.Errorf("%s does not contain what %s has after its imports:\n%s", page, file, want)
	}
}
