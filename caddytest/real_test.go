package caddytest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Caddyfiles of real sites that are right load without a warning. Each is written after a public one, which
// its first line names.
func TestRealConfigsAreNotWarnedOf(t *testing.T) {
	noData(t)
	paths, err := filepath.Glob("testdata/real/*.Caddyfile")
	if err != nil || len(paths) < 30 {
		t.Fatalf("%d files, error %v", len(paths), err)
	}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".Caddyfile"), func(t *testing.T) {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.HasPrefix(string(text), "# After ") {
				t.Error("the first line doesn't name the source")
			}
			warnings, err := load(t, string(text))
			if err != nil || len(warnings) > 0 {
				t.Errorf("error %v, warnings %+v", err, warnings)
			}
		})
	}
}
