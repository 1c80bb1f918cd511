package tally_test

import (
	"regexp"
	"strings"
	"testing"
)

// The README was a list of 24 links: it is short, and begins with the main tasks.
func TestReadmeIsShortAndNamesTasks(t *testing.T) {
	const most = 650
	text := readText(t, "README.md")
	word := regexp.MustCompile(`\S*[\pL\d]\S*`) // the bars of tables are none
	if n := len(word.FindAllString(text, -1)); n > most {
		t.Errorf("README.md has %d words, want at most %d", n, most)
	}
	for _, task := range []string{
		"| Stop password guessing | [", "| Give customers quotas | [", "| Survive scrapers | [",
		"| Run several machines | [", "| Move from another limiter | [",
	} {
		if !strings.Contains(text, task) {
			t.Errorf("README.md has no row %q", task)
		}
	}
}

// Documents without a link in README.md are in the index of documents.
func TestIndexNamesAllDocuments(t *testing.T) {
	index := readText(t, "docs/README.md")
	for _, name := range markdownFiles(t) {
		if inDocs, found := strings.CutPrefix(name, "docs/"); found && strings.Count(inDocs, "/") == 0 && inDocs != "README.md" && !strings.Contains(index, "]("+inDocs+")") {
			t.Errorf("docs/README.md doesn't link to %s", inDocs)
		}
	}
}

// The pages about Traefik and HAProxy claimed that machines can't share counts.
func TestMigrationPagesSayHowMachinesShareCounts(t *testing.T) {
	for page, option := range map[string]string{"traefik": "redis", "haproxy": "peers"} {
		_, row, _ := strings.Cut(readText(t, "docs/migrate/"+page+".md"), "\n| `"+option+"` |")
		row, _, _ = strings.Cut(row, "\n")
		if !strings.Contains(row, "](../fleets.md") && !strings.Contains(row, "](../servers.md") {
			t.Errorf("docs/migrate/%s.md: the row of `%s` links neither to fleets.md nor to servers.md, got %q", page, option, row)
		}
	}
}
