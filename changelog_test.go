package tally_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// The notes of a release, which its tag and its page on GitHub have, are its section of CHANGELOG.md.
func TestNotesOfARelease(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("bash is needed: ", err)
	}
	// What is unreleased becomes the section of the next version, as CONTRIBUTING.md says.
	changelog := strings.Replace(readText(t, "CHANGELOG.md"), "## [Unreleased]\n", "## [Unreleased]\n\n## [99.0.0] - 2030-01-02\n", 1)
	dir := t.TempDir()
	writeText(t, filepath.Join(dir, "CHANGELOG.md"), changelog)
	writeText(t, filepath.Join(dir, ".ci", "release"), readText(t, ".ci/release"))
	notes := func(version string) (string, error) {
		out, err := exec.Command(bash, filepath.Join(dir, ".ci", "release"), "notes", version).Output()
		return string(out), err
	}
	sections := regexp.MustCompile(`(?m)^## \[(.+)\](?: - (.+))?$`).FindAllStringSubmatch(changelog, -1)
	if len(sections) < 2 || sections[0][1] != "Unreleased" {
		t.Fatalf("the sections are %q, want Unreleased and versions", sections)
	}
	for _, section := range sections[1:] {
		if _, err := time.Parse(time.DateOnly, section[2]); err != nil {
			t.Errorf("the date of %s: %v", section[1], err)
		}
		text, err := notes("v" + section[1])
		switch {
		case err != nil:
			t.Errorf("%s: %v", section[1], err)
		case !strings.Contains(text, "\n### ") || strings.Contains(text, "\n## "):
			t.Errorf("the notes of %s aren't its section:\n%s", section[1], text)
		case strings.Contains(text[:strings.Index(text, "\n### ")], "\n- "):
			t.Errorf("%s begins with entries that belong under a heading, maybe of Unreleased:\n%s", section[1], text)
		case strings.Contains(text, "](docs/") || !strings.Contains(text, "/blob/v"+section[1]+"/docs/"):
			t.Errorf("the links of %s don't lead to its files:\n%s", section[1], text)
		case strings.Contains(text, "\n  "):
			t.Errorf("the notes of %s have lines that go on in the next, which a release's page would break:\n%s", section[1], text)
		}
	}
	for _, version := range []string{"v0.0.1", "Unreleased", ""} {
		if text, err := notes(version); err == nil {
			t.Errorf("%q has the notes %q", version, text)
		}
	}
}

func writeText(t *testing.T, file, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
