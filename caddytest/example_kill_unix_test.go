//go:build unix

package caddytest

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// What the README has people run shows what it says.
func TestExampleOfKill(t *testing.T) {
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip("there is no curl: examples/kill.sh is not run")
	}
	binary, err := caddyBinary()
	if err != nil {
		t.Fatal(err)
	}
	command := exec.CommandContext(t.Context(), "../examples/kill.sh", binary)
	folder := t.TempDir()
	command.Env = append(command.Environ(), "TMPDIR="+folder)
	out, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("%v:\n%s", err, out)
	}
	var statuses []string
	for line := range strings.Lines(string(out)) {
		if status, found := strings.CutPrefix(strings.TrimSpace(line), "POST /login  "); found {
			statuses = append(statuses, status)
		}
	}
	if got, want := strings.Join(statuses, " "), "200 200 200 200 200 429"; got != want {
		t.Errorf("the statuses are %q, want %q:\n%s", got, want, out)
	}
	if left, err := os.ReadDir(folder); err != nil || len(left) > 0 {
		t.Errorf("the example leaves %v behind, %v", left, err)
	}
}
