package tally_test

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

var (
	docFile     = regexp.MustCompile(`\b[a-z_]+\.go\b`)
	tablePath   = regexp.MustCompile("`([a-z_]+(?:/[a-z_]+)*(?:\\.go)?)`")
	questionRow = regexp.MustCompile(`(?m)^\| Where [^|]*\|([^|]*)\|$`)
)

// The files in the package comment of internal/enforce, and the at most six for each question in
// the tables of docs/architecture.md and docs/changes.md, exist.
func TestMapsNameFilesThatExist(t *testing.T) {
	for _, file := range docFile.FindAllString(readText(t, "internal/enforce/doc.go"), -1) {
		wantFile(t, "internal/enforce/doc.go", "internal/enforce/"+file)
	}
	for _, page := range []string{"docs/architecture.md", "docs/changes.md"} {
		rows := questionRow.FindAllStringSubmatch(readText(t, page), -1)
		if len(rows) < 6 {
			t.Errorf("%s answers %d questions, want 6 at least", page, len(rows))
		}
		for _, row := range rows {
			files := 0
			for _, path := range tablePath.FindAllStringSubmatch(row[1], -1) {
				if !strings.ContainsAny(path[1], "/.") { // a word of ours
					continue
				}
				files++
				wantFile(t, page, path[1])
			}
			if files < 1 || files > 6 {
				t.Errorf("%s: %q names %d files, want one to six", page, row[0], files)
			}
		}
	}
}

func wantFile(t *testing.T, where, path string) {
	t.Helper()
	if _, err := os.Stat(path); err != nil {
		t.Errorf("%s names %s: %v", where, path, err)
	}
}

// The table of packages in docs/architecture.md has all packages, and no others.
func TestArchitectureNamesAllPackages(t *testing.T) {
	list, err := exec.Command("go", "list", "./...").Output()
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(readText(t, "docs/architecture.md"), "\n| package |")
	for _, path := range tablePath.FindAllStringSubmatch(table, -1) {
		if strings.Contains(path[1], "/") {
			wantFile(t, "docs/architecture.md", path[1])
		}
	}
	for _, name := range strings.Fields(string(list)) {
		name, inside := strings.CutPrefix(name, module+"/")
		if inside && !strings.Contains(table, "`"+name+"`") {
			t.Errorf("docs/architecture.md does not name the package %s", name)
		}
	}
}
