package tally_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/caddy-tally/caddy-tally/internal/config"
	"github.com/caddy-tally/caddy-tally/internal/enforce"
	"github.com/caddy-tally/caddy-tally/internal/meter"
	"github.com/caddy-tally/caddy-tally/internal/testing/handlertest"
)

// describer records the metrics of collectors, like a registry.
type describer struct {
	prometheus.Registerer
	labels map[string][]string // by metric
}

var described = regexp.MustCompile(`fqName: "([^"]+)".*variableLabels: \{([^}]*)\}`)

// Register implements prometheus.Registerer.
func (d describer) Register(c prometheus.Collector) error {
	ch := make(chan *prometheus.Desc, 16)
	go func() { defer close(ch); c.Describe(ch) }()
	for desc := range ch {
		m := described.FindStringSubmatch(desc.String())
		if m == nil {
			return fmt.Errorf("can't read %v", desc)
		}
		d.labels[m[1]] = strings.FieldsFunc(m[2], func(r rune) bool { return r == ',' })
	}
	return nil
}

// exportedMetrics returns the labels of all metrics that a handler registers, including those that
// appear after the first requests.
func exportedMetrics(t *testing.T) map[string][]string {
	t.Helper()
	d := describer{labels: make(map[string][]string)}
	if err := meter.Register(d, enforce.Collectors...); err != nil {
		t.Fatal(err)
	}
	h := handlertest.Start(t, new(config.App), &config.Handler{Zones: []*config.Zone{{Name: "z", Limits: []config.Limit{{Amount: 1, Window: 3600e9}}}}})
	for range 3 {
		r := caddyhttp.PrepareRequest(httptest.NewRequest(http.MethodGet, "http://example.com/", nil), caddy.NewReplacer(), httptest.NewRecorder(), new(caddyhttp.Server))
		caddyhttp.SetVar(r.Context(), caddyhttp.ClientIPVarKey, "192.0.2.1")
		h.ServeHTTP(httptest.NewRecorder(), r, caddyhttp.HandlerFunc(func(http.ResponseWriter, *http.Request) error { return nil }))
	}
	families, err := h.Ctx.GetMetricsRegistry().Gather()
	if err != nil {
		t.Fatal(err)
	}
	gathered := 0
	for _, family := range families {
		if !strings.HasPrefix(family.GetName(), "caddy_rate_limit_") {
			continue
		}
		gathered++
		for _, label := range family.GetMetric()[0].GetLabel() {
			if !slices.Contains(d.labels[family.GetName()], label.GetName()) {
				t.Errorf("%s has the label %s in a registry, and none that is described", family.GetName(), label.GetName())
			}
		}
	}
	if gathered < 15 {
		t.Fatalf("there are %d metrics in a registry", gathered)
	}
	return d.labels
}

var (
	metricName  = regexp.MustCompile(`\bcaddy_rate_limit_\w+`)
	suffix      = regexp.MustCompile(`_(bucket|sum|count)$`)
	ofMatchers  = regexp.MustCompile(`\{([^{}]*)\}`)
	ofMatcher   = regexp.MustCompile(`(\w+)\s*(?:=~|!~|!=|=)\s*"`)
	ofGroups    = regexp.MustCompile(`\b(?:by|without|on|ignoring) \(([^)]*)\)`)
	ofLegends   = regexp.MustCompile(`\{\{\s*(?:\$labels\.)?(\w+)\s*\}\}`)
	notByMetric = []string{"instance", "job", "le", "value"} // added by Prometheus, and by histograms
)

// checkExpression compares the metrics and labels in a PromQL expression, and the labels in a text
// about its result, with the exported ones.
func checkExpression(t *testing.T, exported map[string][]string, where, expr string, about ...string) {
	t.Helper()
	known := slices.Clone(notByMetric)
	names := metricName.FindAllString(expr, -1)
	if len(names) == 0 {
		t.Errorf("%s: there is no metric in %q", where, expr)
	}
	for _, name := range names {
		labels, ok := exported[name]
		if !ok {
			name = suffix.ReplaceAllString(name, "")
			labels, ok = exported[name]
		}
		if !ok {
			t.Errorf("%s: there is no metric %s", where, name)
		}
		known = append(known, labels...)
	}
	var used []string
	for _, m := range ofMatchers.FindAllStringSubmatch(expr, -1) {
		for _, matcher := range ofMatcher.FindAllStringSubmatch(m[1], -1) {
			used = append(used, matcher[1])
		}
	}
	for _, m := range ofGroups.FindAllStringSubmatch(expr, -1) {
		used = append(used, strings.FieldsFunc(m[1], func(r rune) bool { return r == ',' || r == ' ' })...)
	}
	for _, m := range ofLegends.FindAllStringSubmatch(strings.Join(about, " "), -1) {
		used = append(used, m[1])
	}
	for _, label := range used {
		if !slices.Contains(known, label) {
			t.Errorf("%s: no metric of %q has the label %s", where, expr, label)
		}
	}
}

// alert matches an alert in a file of rules.
var alert = regexp.MustCompile(`(?s)- alert: (\w+)\n(.*?)(?:\n\n|\z)`)

var alertExpression = regexp.MustCompile(`(?s)expr: (.*?)\n\s+(?:for|labels):`)

func TestAlertsAreAboutMetricsThatExist(t *testing.T) {
	exported := exportedMetrics(t)
	rules, err := os.ReadFile("examples/prometheus/alerts.yml")
	if err != nil {
		t.Fatal(err)
	}
	alerts := alert.FindAllStringSubmatch(string(rules), -1)
	if n := strings.Count(string(rules), "- alert:"); n != len(alerts) || n < 10 {
		t.Fatalf("found %d of %d alerts", len(alerts), n)
	}
	for _, a := range alerts {
		expr := alertExpression.FindStringSubmatch(a[2])
		if expr == nil {
			t.Errorf("%s has no expression", a[1])
			continue
		}
		checkExpression(t, exported, a[1], expr[1], a[2])
	}
}

// promtool runs promtool in examples/prometheus.
func promtool(t *testing.T, args ...string) {
	t.Helper()
	if _, err := exec.LookPath("promtool"); err != nil {
		t.Skip("promtool is not installed")
	}
	cmd := exec.Command("promtool", args...)
	cmd.Dir = "examples/prometheus"
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("promtool %q: %v\n%s", args, err, out)
	}
}

func TestAlertsFire(t *testing.T) {
	promtool(t, "check", "rules", "alerts.yml")
	promtool(t, "test", "rules", "alerts_test.yml")
}

// grafana is the tested part of a dashboard.
type grafana struct {
	Title, UID    string
	SchemaVersion int
	Templating    struct {
		List []struct{ Name, Type, Definition string }
	}
	Panels []grafanaPanel
}

type grafanaPanel struct {
	ID                       int
	Type, Title, Description string
	GridPos                  struct{ X, Y, W, H int }
	Targets                  []struct{ Expr, LegendFormat, RefID string }
	Collapsed                bool
	Panels                   []grafanaPanel // of a collapsed row
}

// unfolded returns the panels, those of collapsed rows after their row.
func (g grafana) unfolded() (panels []grafanaPanel) {
	for _, panel := range g.Panels {
		panels = append(append(panels, panel), panel.Panels...)
	}
	return panels
}

func readDashboard(t *testing.T) (g grafana) {
	t.Helper()
	raw, err := os.ReadFile("examples/grafana/dashboard.json")
	if err == nil {
		err = json.Unmarshal(raw, &g)
	}
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func TestDashboardIsAboutMetricsThatExist(t *testing.T) {
	exported, g := exportedMetrics(t), readDashboard(t)
	shown := ""
	for _, variable := range g.Templating.List {
		if variable.Type == "query" {
			checkExpression(t, exported, "variable "+variable.Name, variable.Definition)
		}
	}
	for _, panel := range g.unfolded() {
		if panel.Type == "row" {
			continue
		}
		if panel.Description == "" || len(panel.Targets) == 0 {
			t.Errorf("panel %q has no description or shows nothing", panel.Title)
		}
		for _, target := range panel.Targets {
			checkExpression(t, exported, panel.Title, target.Expr, target.LegendFormat)
			shown += target.Expr + "\n"
		}
	}
	for name := range exported {
		if !strings.Contains(shown, name) && name != "caddy_rate_limit_keys_total" && name != "caddy_rate_limit_config" {
			t.Errorf("no panel shows %s", name)
		}
	}
	if strings.Contains(shown, "caddy_rate_limit_keys_total") {
		t.Error("a panel shows caddy_rate_limit_keys_total, which has another name for the users of another module")
	}
}

// Grafana also imports dashboards of other shapes, but shows panels on top of each other.
func TestDashboardHasTheShapeThatGrafanaWants(t *testing.T) {
	g := readDashboard(t)
	if g.Title == "" || g.UID == "" || g.SchemaVersion < 39 {
		t.Errorf("title %q, uid %q, schema version %d", g.Title, g.UID, g.SchemaVersion)
	}
	var variables []string
	for _, variable := range g.Templating.List {
		variables = append(variables, variable.Name)
	}
	if want := []string{"datasource", "instance", "zone"}; !slices.Equal(variables, want) {
		t.Errorf("the variables are %q, want %q", variables, want)
	}
	ids := make(map[int]bool)
	for _, panel := range g.unfolded() {
		if ids[panel.ID] || panel.ID == 0 {
			t.Errorf("panel %q: the id %d is taken", panel.Title, panel.ID)
		}
		ids[panel.ID] = true
	}
	wantApart(t, g.Panels)
	for _, panel := range g.Panels {
		wantApart(t, panel.Panels)
	}
}

// wantApart checks that panels are within 24 columns and don't overlap.
func wantApart(t *testing.T, panels []grafanaPanel) {
	t.Helper()
	taken := make(map[[2]int]string)
	for _, panel := range panels {
		at := panel.GridPos
		if at.W < 1 || at.H < 1 || at.X < 0 || at.X+at.W > 24 {
			t.Errorf("panel %q: lies at %+v of 24 columns", panel.Title, at)
		}
		for x := at.X; x < at.X+at.W; x++ {
			for y := at.Y; y < at.Y+at.H; y++ {
				if under := taken[[2]int{x, y}]; under != "" {
					t.Fatalf("panel %q lies on top of %q", panel.Title, under)
				}
				taken[[2]int{x, y}] = panel.Title
			}
		}
	}
}

// Rows about several machines are empty with a single machine: they are folded. Grafana expects the
// panels of a folded row inside it, and no others inside a row.
func TestDashboardFoldsRowsAboutSeveralMachines(t *testing.T) {
	folded := []string{"Regions", "Store on a network"}
	for _, panel := range readDashboard(t).Panels {
		if panel.Type != "row" {
			continue
		}
		fold := slices.Contains(folded, panel.Title)
		if panel.Collapsed != fold || fold == (len(panel.Panels) == 0) {
			t.Errorf("row %q: collapsed %t with %d panels inside, want %t", panel.Title, panel.Collapsed, len(panel.Panels), fold)
		}
	}
}

// All expressions of the dashboard are valid PromQL.
func TestDashboardHasExpressionsOfPromQL(t *testing.T) {
	variables := strings.NewReplacer("$__rate_interval", "5m", "$instance", ".*", "$zone", ".*")
	rules := "groups:\n  - name: dashboard\n    rules:\n"
	for _, panel := range readDashboard(t).unfolded() {
		for _, target := range panel.Targets {
			rules += fmt.Sprintf("      - record: panel:%d:%s\n        expr: %q\n", panel.ID, strings.ToLower(target.RefID), variables.Replace(target.Expr))
		}
	}
	file := filepath.Join(t.TempDir(), "dashboard.yml")
	if err := os.WriteFile(file, []byte(rules), 0o600); err != nil {
		t.Fatal(err)
	}
	promtool(t, "check", "rules", file)
}

// The table of metrics in the documentation has each of them, with its labels, and no other.
func TestDocumentedMetricsExist(t *testing.T) {
	exported := exportedMetrics(t)
	text, err := os.ReadFile("docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	row := regexp.MustCompile("(?m)^\\| `(caddy_rate_limit_\\w+)` \\| \\w+ \\|[ ]*([^|]*?)[ ]*\\|")
	documented := make(map[string]bool)
	for _, m := range row.FindAllStringSubmatch(string(text), -1) {
		documented[m[1]] = true
		labels, ok := exported[m[1]]
		if !ok {
			t.Errorf("docs/metrics.md has %s, which is not exported", m[1])
		}
		listed := strings.FieldsFunc(m[2], func(r rune) bool { return strings.ContainsRune("`, ", r) })
		if !slices.Equal(listed, labels) {
			t.Errorf("docs/metrics.md gives %s the labels %q, and it has %q", m[1], listed, labels)
		}
	}
	for name := range exported {
		if !documented[name] {
			t.Errorf("docs/metrics.md lacks %s", name)
		}
	}
}
