package caddytest

import (
	"path/filepath"
	"strings"
	"testing"
)

// Configs that do something else than was meant, written before the checks that find them. Each begins with
// what was meant and what it does, and with what is said of it: "warned:" a part of the warning or error, or "silent:"
// why nothing is. What is said is about the fault, and not about something else in the same line.
func TestMeantConfigs(t *testing.T) {
	noData(t)
	paths, err := filepath.Glob("testdata/meant/*.*")
	if err != nil || len(paths) < 120 {
		t.Fatalf("%d files, error %v", len(paths), err)
	}
	silent := 0
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), filepath.Ext(path)), func(t *testing.T) {
			text := readSample(t, path)
			lines := strings.Split(text, "\n")
			if !strings.HasPrefix(lines[0], "# meant: ") || !strings.HasPrefix(lines[1], "# does: ") {
				t.Error("the first lines don't say what was meant, and what it does")
			}
			var warnings []warning
			var err error
			if filepath.Ext(path) == ".json" {
				warnings, err = loadJSON(t, []byte(strings.Join(lines[3:], "\n")))
			} else {
				warnings, err = load(t, text)
			}
			said := ""
			for _, w := range warnings {
				said += w.Msg + "; write " + w.Write + "\n"
			}
			if err != nil {
				said = err.Error()
			}
			want, warned := strings.CutPrefix(lines[2], "# warned: ")
			if _, isSilent := strings.CutPrefix(lines[2], "# silent: "); isSilent {
				silent++
			} else if !warned || !strings.Contains(said, want) {
				t.Errorf("said %q, want %q", said, want)
			}
			t.Log(said)
		})
	}
	if silent > len(paths)/20 { // 4 of 80
		t.Errorf("silent about %d of %d wrong configs", silent, len(paths))
	}
}

// Configs that resemble those and do what is meant: nothing is said of them.
func TestRightConfigsAreNotWarnedOf(t *testing.T) {
	noData(t)
	paths, err := filepath.Glob("testdata/right/*.Caddyfile")
	if err != nil || len(paths) < 40 {
		t.Fatalf("%d files, error %v", len(paths), err)
	}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".Caddyfile"), func(t *testing.T) {
			if warnings, err := load(t, readSample(t, path)); err != nil || len(warnings) > 0 {
				t.Errorf("error %v, warnings %+v", err, warnings)
			}
		})
	}
}
