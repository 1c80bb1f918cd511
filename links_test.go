package tally_test

import (
	"io/fs"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"
)

var (
	codeFence    = regexp.MustCompile("(?ms)^```.*?^```[^\\S\n]*$")
	codeSpan     = regexp.MustCompile("`[^`\n]*`")
	markdownLink = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	notInSlugs   = regexp.MustCompile(`[^\p{L}\p{N}_ -]`)
)

// Relative links in Markdown files lead to files that exist, and their anchors to
// headings.
func TestLinksInDocumentsResolve(t *testing.T) {
	checked := 0
	for _, name := range markdownFiles(t) {
		text := codeSpan.ReplaceAllString(codeFence.ReplaceAllString(readText(t, name), ""), "")
		for _, m := range markdownLink.FindAllStringSubmatch(text, -1) {
			link, err := url.Parse(m[1])
			if err != nil {
				t.Errorf("%s: link %q: %v", name, m[1], err)
				continue
			}
			if link.Scheme != "" || link.Host != "" {
				continue
			}
			checked++
			target := name
			if link.Path != "" {
				target = filepath.Join(filepath.Dir(name), filepath.FromSlash(link.Path))
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s: link %q: there is no %s", name, m[1], target)
			} else if link.Fragment != "" && !anchors(readText(t, target))[link.Fragment] {
				t.Errorf("%s: link %q: no heading of %s has this anchor", name, m[1], target)
			}
		}
	}
	if checked == 0 {
		t.Error("no relative link found")
	}
}

// Drafts of the IETF are those of a working group: the author's own, from which they came, are no longer changed.
func TestDraftsAreOfWorkingGroups(t *testing.T) {
	files, err := filepath.Glob("internal/*/*.go")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, name := range append(markdownFiles(t), files...) {
		for _, draft := range regexp.MustCompile(`\bdraft(-[a-z0-9]+){2,}`).FindAllString(readText(t, name), -1) {
			if found++; !strings.HasPrefix(draft, "draft-ietf-") {
				t.Errorf("%s: %s isn't of a working group", name, draft)
			}
		}
	}
	if found < 3 {
		t.Errorf("found %d drafts", found)
	}
}

func markdownFiles(t *testing.T) (names []string) {
	t.Helper()
	err := filepath.WalkDir(".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && name != "." && strings.HasPrefix(entry.Name(), ".") {
			return fs.SkipDir
		}
		if !entry.IsDir() && filepath.Ext(name) == ".md" {
			names = append(names, name)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// anchors returns the anchors that GitHub gives to the headings of a text.
func anchors(text string) map[string]bool {
	all := make(map[string]bool)
	for _, line := range strings.Split(codeFence.ReplaceAllString(text, ""), "\n") {
		depth := headingDepth(line)
		if depth == 0 {
			continue
		}
		slug := notInSlugs.ReplaceAllString(strings.ToLower(strings.TrimSpace(line[depth:])), "")
		slug = strings.ReplaceAll(slug, " ", "-")
		anchor := slug
		for n := 1; all[anchor]; n++ {
			anchor = slug + "-" + strconv.Itoa(n)
		}
		all[anchor] = true
	}
	return all
}

// twoLinksFrom returns the pages that are at most two links away from some pages, and these.
func twoLinksFrom(t *testing.T, pages ...string) map[string]bool {
	t.Helper()
	near := make(map[string]bool)
	for _, name := range pages {
		near[filepath.FromSlash(name)] = true
	}
	for range 2 {
		for name := range maps.Clone(near) {
			for _, m := range markdownLink.FindAllStringSubmatch(readText(t, name), -1) {
				if path, _, _ := strings.Cut(m[1], "#"); strings.HasSuffix(path, ".md") && !strings.Contains(path, ":") {
					near[filepath.Join(filepath.Dir(name), filepath.FromSlash(path))] = true
				}
			}
		}
	}
	return near
}

// No page of the documentation is much longer than 1,500 words, and each is at most two links away from README.md.
func TestPagesAreShortAndNear(t *testing.T) {
	const mostWords = 1_600
	near := twoLinksFrom(t, "README.md")
	for _, name := range markdownFiles(t) {
		if page, found := strings.CutPrefix(filepath.ToSlash(name), "docs/"); !found || strings.HasPrefix(page, "decisions/0") {
			continue
		}
		if words := len(strings.Fields(readText(t, name))); words > mostWords && name != filepath.FromSlash("docs/decisions/README.md") {
			t.Errorf("%s has %d words, want at most %d: it is more than one subject", name, words, mostWords)
		}
		if !near[name] {
			t.Errorf("%s is more than two links away from README.md", name)
		}
	}
}

// unbroken is what stays on one line: a word, code, a link or a picture.
var unbroken = regexp.MustCompile("(?:`[^`\n]*`|!?\\[[^\\]\n]*\\]\\([^)\n]*\\)|\\S)+")

// Paragraphs and items of lists are wrapped at 100 columns, and no line is much shorter without a reason. Tables,
// headings, code and HTML have the width that they need.
func TestPagesHaveOneWidth(t *testing.T) {
	const most, least = 100, 80
	begins, isText := regexp.MustCompile(`^\s*([-*>]|\d+\.) `), regexp.MustCompile(`^\s*[^|#<\s]`)
	for _, name := range markdownFiles(t) {
		lines := strings.Split(codeFence.ReplaceAllString(readText(t, name), "|"), "\n")
		for i, line := range lines[:len(lines)-1] {
			width, next := utf8.RuneCountInString(line), lines[i+1]
			switch words := unbroken.FindAllString(begins.ReplaceAllString(line, ""), 2); {
			case !isText.MatchString(line):
			case width > most && len(words) > 1:
				t.Errorf("%s: wrap at %d columns: %s", name, most, line)
			case !isText.MatchString(next) || begins.MatchString(next) || strings.HasSuffix(line, "  "):
			case width+1+utf8.RuneCountInString(unbroken.FindString(next)) <= least:
				t.Errorf("%s: the next line goes on, and this ends after %d columns: %s", name, width, line)
			}
		}
	}
}
