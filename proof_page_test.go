package tally_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const proofPage = "docs/proof.md"

// The page about proofs names tests and models that exist, and shows what "make proof" and "make models" have
// written.
func TestProofPage(t *testing.T) {
	page := readText(t, proofPage)
	text, _, _ := strings.Cut(page, "<!-- figures -->")
	if words := len(strings.Fields(text)); words > 800 {
		t.Errorf("%s has %d words, want at most 800", proofPage, words)
	}
	tests := testNames(t)
	for _, name := range regexp.MustCompile("`((?:Test|Fuzz)\\w+)`").FindAllStringSubmatch(page, -1) {
		if !tests[name[1]] {
			t.Errorf("%s names the test %s, which there is not", proofPage, name[1])
		}
	}
	for _, name := range regexp.MustCompile("`(\\w+\\.pml)`").FindAllStringSubmatch(page, -1) {
		if _, err := os.Stat(filepath.Join("proof", name[1])); err != nil {
			t.Errorf("%s: %v", proofPage, err)
		}
	}
	writeGenerated(t, proofPage, "<!-- figures -->", modelFigures(t)+testFigures(t))
}

// testNames returns the names of all tests of the repository.
func testNames(t *testing.T) map[string]bool {
	t.Helper()
	names, declared := make(map[string]bool), regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`)
	err := filepath.WalkDir(".", func(path string, entry os.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		for _, name := range declared.FindAllStringSubmatch(readText(t, path), -1) {
			names[name[1]] = true
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// modelFigures returns a table of the models in proof/results.txt: how many states each has, and how many mutants
// were caught.
func modelFigures(t *testing.T) string {
	states, mutants := make(map[string]string), make(map[string]int)
	var models []string
	for line := range strings.Lines(readText(t, "proof/results.txt")) {
		words := strings.Fields(line)
		if len(words) < 5 || strings.HasPrefix(line, "#") {
			continue
		}
		model, flag, result := words[0], words[1], words[2]
		switch {
		case flag == "-" && result == "holds":
			models, states[model] = append(models, model), words[3]
		case flag != "-" && result == "fails":
			mutants[model]++
		default:
			t.Errorf("proof/results.txt: %s", line)
		}
	}
	out := "\n| model | states | faults found |\n|---|---|---|\n"
	for _, model := range models {
		out += fmt.Sprintf("| [%s](../proof/%[1]s) | %s | %d |\n", model, states[model], mutants[model])
	}
	return out
}

// testFigures returns a table of proof/figures.txt.
func testFigures(t *testing.T) string {
	first, lines, _ := strings.Cut(readText(t, "proof/figures.txt"), "\n")
	found := make(map[string][]string)
	var names []string
	for line := range strings.Lines(lines) {
		name, text, ok := strings.Cut(strings.TrimSpace(line), "\t")
		if !ok {
			t.Errorf("proof/figures.txt: %q has no tab", line)
			continue
		}
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
		found[name] = append(found[name], strings.ReplaceAll(text, "|", "/"))
	}
	slices.Sort(names)
	out := fmt.Sprintf("\nTests (%s):\n\n| test | |\n|---|---|\n", strings.TrimPrefix(first, "# "))
	for _, name := range names {
		out += fmt.Sprintf("| `%s` | %s |\n", name, strings.Join(found[name], "; "))
	}
	return out
}
