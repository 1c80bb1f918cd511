package tally_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	docFile     = regexp.MustCompile(`\b[a-z_]+\.go\b`)
	tablePath   = regexp.MustCompile("`([a-z_]+(?:/[a-z_]+)*(?:\\.go)?)`")
	questionRow = regexp.MustCompile(`(?m)^\| Where [^|]*\|([^|]*)\|$`)
)

// The package comment names files, and the table of docs/architecture.md at most three for
// each question: all of them exist.
func TestMapsNameFilesThatExist(t *testing.T) {
	for _, file := range docFile.FindAllString(readText(t, "doc.go"), -1) {
		wantFile(t, "doc.go", file)
	}
	rows := questionRow.FindAllStringSubmatch(readText(t, "docs/architecture.md"), -1)
	if len(rows) < 6 {
		t.Errorf("docs/architecture.md answers %d questions, want 6 at least", len(rows))
	}
	for _, row := range rows {
		files := 0
		for _, path := range tablePath.FindAllStringSubmatch(row[1], -1) {
			if path[1] == "ways" { // a variable
				continue
			}
			files++
			wantFile(t, "docs/architecture.md", path[1])
		}
		if files < 1 || files > 3 {
			t.Errorf("docs/architecture.md: %q names %d files, want one to three", row[0], files)
		}
	}
}

// The package comment names every file of the package below its title "Read in this
// order", once, so that a reader knows what each is for.
func TestReadingOrderNamesAllFiles(t *testing.T) {
	_, order, _ := strings.Cut(readText(t, "doc.go"), "# Read in this order")
	order, _, found := strings.Cut(order, "\n// # ")
	if !found {
		t.Fatal("doc.go has no part with the title Read in this order")
	}
	times := make(map[string]int)
	for _, file := range docFile.FindAllString(order, -1) {
		times[file]++
	}
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if file == "doc.go" || strings.HasSuffix(file, "_test.go") {
			continue
		}
		if times[file] != 1 {
			t.Errorf("doc.go names %s %d times in the order of reading, want once: add it where a reader needs it, before the files that it uses", file, times[file])
		}
	}
}

func wantFile(t *testing.T, where, path string) {
	t.Helper()
	if _, err := os.Stat(path); err != nil {
		t.Errorf("%s names %s: %v", where, path, err)
	}
}
