package tally_test

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
)

// The oldest Caddy is the one that the documents name. Releases and benchmarks have a newer one, and nothing else
// that differs but versions.
func TestVersionsOfCaddy(t *testing.T) {
	const path = "github.com/caddyserver/caddy/v2"
	least, newest := requiredModules(t, "go.mod"), requiredModules(t, ".ci/newest.mod")
	if used := strings.TrimSpace(run(t, "go", "list", "-m", "-f", "{{.Version}}", path)); used != least[path] {
		t.Errorf("go.mod asks for Caddy %s, and another module for %s", least[path], used)
	}
	for file, text := range map[string]string{
		"docs/promises.md": "at the moment %s and newer",
		"CHANGELOG.md":     "for Caddy %s and newer",
	} {
		content, err := os.ReadFile(file)
		if want := fmt.Sprintf(text, strings.TrimPrefix(least[path], "v")); err != nil || !strings.Contains(string(content), want) {
			t.Errorf("%s lacks %q: %v", file, want, err)
		}
	}
	if measured := requiredModules(t, "benchmarks/go.mod")[path]; newest[path] != measured || newest[path] == least[path] {
		t.Errorf("releases have Caddy %s, benchmarks %s, go.mod %s", newest[path], measured, least[path])
	}
	if !slices.Equal(slices.Sorted(maps.Keys(least)), slices.Sorted(maps.Keys(newest))) {
		t.Error("go.mod and .ci/newest.mod require different modules: run go mod tidy -modfile=.ci/newest.mod")
	}
}
