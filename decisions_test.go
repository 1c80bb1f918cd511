package tally_test

import (
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	citation     = regexp.MustCompile(`\b[Dd]ecisions?\s+(?://\s+)?([0-9]+)\b`)
	linkedNumber = regexp.MustCompile(`/?([0-9]{4})-[a-z0-9-]+\.md\b`)
)

// Code cites a decision by its number, in the form `(decision N)` at the line that surprises, and pages link to it.
// Each decision is cited by code or linked to by a page other than the index, so that its reader is led to it; and
// what is cited exists.
func TestDecisionsAreCited(t *testing.T) {
	pages, err := filepath.Glob("docs/decisions/0*.md")
	if err != nil || len(pages) == 0 {
		t.Fatalf("%d decisions: %v", len(pages), err)
	}
	uncited := make(map[string]string) // pages, by number
	exists := make(map[string]bool)
	for _, page := range pages {
		number := strings.TrimLeft(filepath.Base(page)[:4], "0")
		uncited[number], exists[number] = page, true
	}
	cite := func(file string, numbers [][]string) {
		for _, m := range numbers {
			number := strings.TrimLeft(m[1], "0")
			if delete(uncited, number); !exists[number] {
				t.Errorf("%s cites decision %s, which doesn't exist", file, number)
			}
		}
	}
	for _, file := range textFiles(t) {
		text := readText(t, file)
		if filepath.Ext(file) != ".md" {
			cite(file, citation.FindAllStringSubmatch(text, -1))
			continue
		}
		if strings.HasPrefix(filepath.ToSlash(file), "docs/decisions/") {
			continue // links among decisions lead nobody to them
		}
		for _, m := range markdownLink.FindAllStringSubmatch(text, -1) {
			if strings.Contains(m[1], "decisions/") {
				cite(file, linkedNumber.FindAllStringSubmatch(m[1], -1))
			}
		}
		unlinked := markdownText.ReplaceAllString(text, "")
		if m := citation.FindString(unlinked); m != "" {
			t.Errorf("%s names %s without a link", file, m)
		}
	}
	for number, page := range uncited {
		t.Errorf("nothing cites decision %s: write `(decision %s)` where the code of %s surprises, or link to it", number, number, page)
	}
}

// markdownText is the text of a link.
var markdownText = regexp.MustCompile(`\[[^\]]*\]\(`)

// textFiles returns the files of this module in which people write comments.
func textFiles(t *testing.T) (names []string) {
	t.Helper()
	kinds := []string{".go", ".md", ".lua", ".sql", ".js", ".pml", ".sh", ".yml", ""}
	err := filepath.WalkDir(".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (name == ".git" || entry.Name() == "testdata" || entry.Name() == "node_modules"):
			return fs.SkipDir
		case entry.Type().IsRegular() && slices.Contains(kinds, filepath.Ext(name)):
			names = append(names, name)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}
