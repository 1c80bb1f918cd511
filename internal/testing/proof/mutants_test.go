package proof

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// mutant is a change of the code that breaks a promise, so that tests must fail.
type mutant struct {
	promise  string // the broken promise of docs/promises.md, by its number, with the broken part
	file     string // of the module
	was, now string // was occurs once in the file
	tests    string // package
	run      string // a regular expression of tests, of which at least one must fail
}

// TestMutantsAreCaught breaks the promises one after another, and expects the tests to fail.
// Without PROOF it checks that the mutants still match the code.
func TestMutantsAreCaught(t *testing.T) {
	root, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range mutants {
		t.Run(m.promise, func(t *testing.T) {
			path := filepath.Join(root, filepath.FromSlash(m.file))
			code, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if n := strings.Count(string(code), m.was); n != 1 {
				t.Fatalf("%s has %q %d times, want once", m.file, m.was, n)
			}
			if !IsOn() {
				return
			}
			changed := strings.Replace(string(code), m.was, m.now, 1)
			m.mustFail(t, root, overlay(t, path, changed))
		})
	}
}

// overlay returns the path of a file that makes the go command read a text instead of a file.
func overlay(t *testing.T, path, text string) string {
	t.Helper()
	dir := t.TempDir()
	replacement, list := filepath.Join(dir, "mutant.go"), filepath.Join(dir, "overlay.json")
	encoded, err := json.Marshal(map[string]any{"Replace": map[string]string{path: replacement}})
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{replacement: []byte(text), list: encoded} {
		if err := os.WriteFile(name, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return list
}

// mustFail runs the tests of a mutant. They must fail, and not only because it doesn't compile.
func (m *mutant) mustFail(t *testing.T, root, overlay string) {
	t.Helper()
	cmd := exec.Command("go", "test", "-vet=off", "-count=1", "-timeout=5m", "-overlay", overlay, "-run", m.run)
	cmd.Args = append(cmd.Args, strings.Fields(m.tests)...)
	cmd.Dir, cmd.Env = root, append(os.Environ(), "PROOF=")
	out, err := cmd.CombinedOutput()
	switch {
	case err == nil:
		t.Errorf("no test of %s notices that %s has %q instead of %q", m.tests, m.file, m.now, m.was)
	case !strings.Contains(string(out), "--- FAIL: ") && !strings.Contains(string(out), "panic: "):
		t.Errorf("the tests did not run: %s", out)
	default:
		t.Logf("%.2000s", out)
	}
}
