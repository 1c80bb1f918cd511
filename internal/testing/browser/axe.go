package browser

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddy-tally/caddy-tally/internal/testing/proof"
)

// axeVersion is the version of axe-core that `.ci/run` fetches.
const axeVersion = "4.14.1"

// Axe is the script of axe-core, which finds accessibility problems. It is empty if the script is
// missing.
type Axe string

// FindAxe returns the script that `.ci/run` has fetched. If it is missing, the test logs that, and
// there are no findings.
func FindAxe(t *testing.T) Axe {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Log(err)
		return ""
	}
	script, err := os.ReadFile(filepath.Join(cache, "caddy-tally", "axe-core-"+axeVersion+".min.js"))
	if err != nil {
		t.Logf("pages are not checked with axe: %v: `.ci/run test` fetches it", err)
		return ""
	}
	return Axe(script)
}

// InDepth returns axe with PROOF, and otherwise a script without findings. It is for pages that
// resemble others: each takes axe half a second.
func (a Axe) InDepth() Axe {
	if proof.IsOn() {
		return a
	}
	return ""
}

// Findings returns axe's findings on a page, by rule.
func (a Axe) Findings(p *Page) map[string]string {
	p.t.Helper()
	if a == "" {
		return nil
	}
	var found []struct {
		ID, Help string
		Nodes    []string
	}
	p.Eval(string(a), nil)
	p.Eval(`axe.run(document, {resultTypes: ["violations"]}).then(({violations}) => violations.map((v) => ({ID: v.id, Help: v.help, Nodes: v.nodes.map((n) => n.html + " " + n.any.map((a) => a.message).join(" "))})))`, &found)
	findings := make(map[string]string)
	for _, v := range found {
		findings[v.ID] = fmt.Sprintf("%s:\n%.2000s", v.Help, strings.Join(v.Nodes, "\n"))
	}
	return findings
}
