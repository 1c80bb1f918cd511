package tally_test

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// linkedFor are the modules that are linked beside Caddy's, and what for.
var linkedFor = map[string]string{
	"github.com/dunglas/httpsfv":              "signatures of crawlers (`verified_bot`)",
	"github.com/gaissmai/bart":                "networks of rules, block lists and crawlers",
	"github.com/oschwald/maxminddb-golang/v2": "countries and autonomous systems of addresses",
	"github.com/remyoudompheng/bigfft":        "of `modernc.org/mathutil`",
	"github.com/valyala/fastjson":             "access logs (`init`, `replay`)",
	"golang.org/x/net":                        "registered domains (`{http.rate_limit.domain}`)",
	"modernc.org/libc":                        "of SQLite",
	"modernc.org/mathutil":                    "of SQLite",
	"modernc.org/memory":                      "of SQLite",
	"modernc.org/sqlite":                      "the store",
	"standard library":                        "",
}

// The packages of others that this module adds to a Caddy are listed with what they are for.
func TestLinkedPackages(t *testing.T) {
	plain := linked(t, "github.com/caddyserver/caddy/v2/cmd", "github.com/caddyserver/caddy/v2/modules/standard")
	more := make(map[string][]string)
	for name, module := range linked(t, ".") {
		if _, ok := plain[name]; !ok && module != "github.com/caddy-tally/caddy-tally" { // docs/architecture.md lists its own
			more[module] = append(more[module], name)
		}
	}
	out := "\n| module | packages | what for |\n|---|---|---|\n"
	for _, module := range slices.Sorted(maps.Keys(more)) {
		reason, ok := linkedFor[module]
		if !ok {
			t.Errorf("%s is linked now, for %v: say what for, or leave it out", module, more[module])
		}
		if module == "standard library" {
			reason = "`" + strings.Join(slices.Sorted(slices.Values(more[module])), "`, `") + "`"
		}
		out += fmt.Sprintf("| %s | %d | %s |\n", module, len(more[module]), reason)
	}
	writeGenerated(t, "docs/decisions/0147-what-the-module-adds-to-a-binary.md", "<!-- packages -->", out)
}

// linked returns the modules of all packages that some packages need on linux/amd64.
func linked(t *testing.T, roots ...string) map[string]string {
	t.Helper()
	command := exec.Command("go", append([]string{"list", "-deps", "-f", "{{.ImportPath}} {{with .Module}}{{.Path}}{{end}}"}, roots...)...)
	command.Env = append(os.Environ(), "GOOS=linux", "GOARCH=amd64", "CGO_ENABLED=0")
	out, err := command.Output()
	if err != nil {
		t.Fatal(err)
	}
	modules := make(map[string]string)
	for line := range strings.Lines(string(out)) {
		name, module, _ := strings.Cut(strings.TrimSpace(line), " ")
		if module == "" {
			module = "standard library"
		}
		modules[name] = module
	}
	return modules
}

// plots are the plots of docs/pictures/weight.svg, with columns of the file.
var plots = []struct {
	title   string
	columns []string
}{
	{"binary over plain Caddy, MiB", []string{"binary-MiB"}},
	{"packages linked over plain Caddy", []string{"packages"}},
	{"lines of production code", []string{"lines"}},
	{"bytes of heap: a key, a blocked key", []string{"heap-B/key", "heap-B/blocked-key"}},
	{"allocations per request: admitted, refused", []string{"allocs/admitted", "allocs/refused"}},
	{"CPU per request, to plain Caddy: one key, 100,000, new, refused", []string{"cpu-one-key", "cpu-rotation", "cpu-new-keys", "cpu-refused"}},
	{"seeds of simulations of make proof", []string{"seeds"}},
}

// The picture of what commits weigh is drawn from the file that make weight appends to.
func TestWeightOverTime(t *testing.T) {
	const picture = "docs/pictures/weight.svg"
	head, lines, _ := strings.Cut(readText(t, "benchmarks/results/weight.txt"), "\n")
	names, columns := strings.Split(head, "\t"), make(map[string][]string)
	for line := range strings.Lines(lines) {
		cells := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if len(cells) != len(names) {
			t.Fatalf("benchmarks/results/weight.txt: %q has %d columns, want %d", line, len(cells), len(names))
		}
		for i, cell := range cells {
			columns[names[i]] = append(columns[names[i]], cell)
		}
	}
	const height = 110
	var out strings.Builder
	fmt.Fprintf(&out, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 720 %d" font-family="sans-serif" font-size="11">`+"\n", height*len(plots)+30)
	fmt.Fprintln(&out, `<rect width="100%" height="100%" fill="#fff"/>`)
	for i, plot := range plots {
		fmt.Fprintf(&out, `<text x="10" y="%d">%s</text>`+"\n", height*i+20, plot.title)
		draw(t, &out, columns, plot.columns, height*i+30)
	}
	commits := columns["commit"]
	for i, commit := range commits {
		fmt.Fprintf(&out, `<text x="%d" y="%d" text-anchor="middle" fill="#666"><title>%s</title>%s</text>`+"\n", at(i, len(commits)), height*len(plots)+15, columns["date"][i], commit[:min(7, len(commit))])
	}
	fmt.Fprintln(&out, "</svg>")
	if old, _ := os.ReadFile(picture); string(old) == out.String() {
		return
	}
	if !*updateReference {
		t.Fatalf("%s isn't that of the file: run make reference", picture)
	}
	if err := os.WriteFile(filepath.FromSlash(picture), []byte(out.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}

// at returns where the ith of n commits stands.
func at(i, n int) int { return 60 + 600*(2*i+1)/(2*max(n, 1)) }

// draw draws columns from top on, on a common scale from 0, with the first and the last value of each.
func draw(t *testing.T, out *strings.Builder, columns map[string][]string, names []string, top int) {
	const height = 60
	colors := []string{"#1f6feb", "#c2410c", "#15803d", "#7e22ce"}
	most, values := 0.0, make([][]float64, len(names))
	for i, name := range names {
		if columns[name] == nil {
			t.Fatalf("there is no column %s", name)
		}
		for _, cell := range columns[name] {
			value, err := strconv.ParseFloat(cell, 64)
			if cell == "-" {
				value = -1
			} else if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			values[i], most = append(values[i], value), max(most, value)
		}
	}
	fmt.Fprintf(out, `<path d="M60 %dH660" stroke="#ccc"/>`+"\n", top+height)
	for i := range names {
		var points []string
		var last string
		for k, value := range values[i] {
			if value < 0 {
				continue
			}
			x, y := at(k, len(values[i])), top+height-int(value/max(most, 1e-9)*height)
			points = append(points, fmt.Sprintf("%d,%d", x, y))
			last = fmt.Sprintf(`<circle cx="%d" cy="%d" r="2.5" fill="%s"/><text x="665" y="%d" fill="%s">%s</text>`, x, y, colors[i], y+4, colors[i], columns[names[i]][k])
		}
		fmt.Fprintf(out, `<polyline points="%s" fill="none" stroke="%s"/>%s`+"\n", strings.Join(points, " "), colors[i], last)
	}
}
