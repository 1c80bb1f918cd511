package enforce_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/caddy-tally/caddy-tally/internal/config"
	"github.com/caddy-tally/caddy-tally/internal/enforce"
	"github.com/caddy-tally/caddy-tally/internal/testing/handlertest"
)

// priced returns what a POST costs in a zone of limit 1000/1h, or its status if it is refused. fields are names and
// values of header fields.
func priced(t *testing.T, h *enforce.Handler, target, kind, body string, fields ...string) int {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, target, strings.NewReader(body))
	if kind != "" {
		r.Header.Set("Content-Type", kind)
	}
	for i := 0; i+1 < len(fields); i += 2 {
		r.Header.Add(fields[i], fields[i+1])
	}
	before := fmt.Sprint(r.Header, r.URL)
	w, _ := askFrom(t, h, r)
	if after := fmt.Sprint(r.Header, r.URL); after != before && w.Code == http.StatusOK {
		t.Errorf("the request becomes %s, and was %s", after, before)
	}
	var left int
	if _, err := fmt.Sscanf(w.Header().Get("Ratelimit"), `"z";r=%d`, &left); w.Code != http.StatusOK || err != nil {
		return w.Code
	}
	return 1000 - left
}

// exports are prices of an operation.
var exports = []string{
	"cost 20 vars {http.rate_limit.json.operationName} Export", "cost 20 vars_regexp {http.rate_limit.json.operationName} ^Exp(ort|and)$",
	"cost 20 `{http.rate_limit.json.operationName} == \"Export\"`", "cost 20 `{http.rate_limit.json.operationName} in ['Export', 'Dump']`",
	"cost 20 `{http.rate_limit.json.operationName}.startsWith('Exp')`", "cost 20 `{http.rate_limit.json.operationName}.matches('^Export$')`",
	"cost 1 vars {http.rate_limit.json.operationName} a b c\ncost 20",
}

// A request has the highest price of the values that a backend may read.
func TestOfSeveralValuesTheHighestPriceCounts(t *testing.T) {
	const (
		fixed   = "cost 20 vars {http.rate_limit.json.op} Export"
		header  = "cost 20 vars {http.request.header.X-Mode} heavy"
		query   = "cost 20 vars {http.request.uri.query.mode} heavy"
		cookie  = "cost 20 vars {http.request.cookie.mode} heavy"
		several = "cost 5 vars {http.rate_limit.json.op} Dump\ncost 20 vars {http.rate_limit.json.op} Export\ncost 2"
		cheap   = "cost 1 vars {http.rate_limit.json.op} List Get\ncost 20"
	)
	for _, c := range []struct {
		options, target, kind, body string
		fields                      []string
		want                        int
	}{
		{several, "/", inJSON, `{"op":["Dump","Export"]}`, nil, 20},
		{several, "/", inJSON, `{"op":["Dump","List"]}`, nil, 5},
		{several, "/", inJSON, `{"op":"dump"}`, nil, 5},
		{several, "/", inJSON, `{}`, nil, 2},
		{cheap, "/", inJSON, `{"op":["List","Get"]}`, nil, 1},
		{cheap, "/", inJSON, `{"op":["List","Export"]}`, nil, 20},
		{cheap, "/", inJSON, `{"op":"list"}`, nil, 20},
		{cheap, "/", inJSON, `{"op":null}`, nil, 20},
		{"cost 20 not vars {http.rate_limit.json.op} List", "/", inJSON, `{"op":["List","Export"]}`, nil, 20},
		{"cost 20 {\nvars {http.rate_limit.json.op} Export\nvars {http.rate_limit.json.of} all\n}", "/", inJSON, `{"op":["List","Export"],"of":["one","all"]}`, nil, 20},
		{fixed, "/", inJSON, `{"op":["1","2","3","4","5","6","7","8","Export"]}`, nil, 400},
		{fixed, "/", "text/plain", `{"op":"List"}`, nil, 20},
		{fixed, "/", "", `{"op":"List"}`, nil, 20},
		{fixed, "/", form, `op=List`, nil, 20},
		{fixed + "\ncost 20 vars {http.rate_limit.form.op} Export", "/", form, `op=List`, nil, 1},
		{fixed + "\ncost 20 vars {http.rate_limit.form.op} Export", "/", inJSON, `{"op":"List"}`, nil, 1},
		{fixed + "\ncost 20 vars {http.rate_limit.form.op} Export", "/?op=export", form, `op=List`, nil, 20},
		{fixed, "/", "text/plain", "", nil, 1},
		{"cost 20 {\npath /graphql\nvars {http.rate_limit.json.op} Export\n}", "/other", "text/plain", `{"op":"Export"}`, nil, 1},
		{"cost 20 `path('/graphql') && {http.rate_limit.json.op} == 'Export'`", "/other", "text/plain", `{"op":"Export"}`, nil, 1},
		{"cost 20 `path('/graphql') && {http.rate_limit.json.op} == 'Export'`", "/graphql", "text/plain", `{"op":"Export"}`, nil, 20},
		{fixed + "\non_unreadable_body empty", "/", inJSON, `{"op":"List"`, nil, 20},

		{header, "/", "", "", []string{"X-Mode", "light", "X-Mode", "heavy"}, 20},
		{header, "/", "", "", []string{"X-Mode", "heavy", "X-Mode", "light"}, 20},
		{header, "/", "", "", []string{"X-Mode", " HEAVY "}, 20},
		{header, "/", "", "", []string{"X-Mode", "light", "X-Mode", "medium"}, 1},
		{"cost 20 vars_regexp {http.request.header.X-Mode} ^heavy$", "/", "", "", []string{"X-Mode", "light", "X-Mode", "Heavy"}, 20},
		{"cost 20 `{http.request.header.x-mode} == 'heavy'`", "/", "", "", []string{"X-Mode", "light", "X-Mode", "heavy"}, 20},
		{"cost 20 header X-Mode heavy", "/", "", "", []string{"X-Mode", "light", "X-Mode", "HEAVY"}, 20},
		{"cost 1 header X-Mode light\ncost 20", "/", "", "", []string{"X-Mode", "light"}, 1},
		{"cost 1 header X-Mode light\ncost 20", "/", "", "", []string{"X-Mode", "light", "X-Mode", "heavy"}, 20},
		{"cost 1 header_regexp X-Mode ^light\ncost 20", "/", "", "", []string{"X-Mode", "light", "X-Mode", "heavy"}, 20},
		{"cost 1 `header({'X-Mode': 'light'})`\ncost 20", "/", "", "", []string{"X-Mode", "light", "X-Mode", "heavy"}, 20},
		{"cost 20 not header X-Mode light", "/", "", "", []string{"X-Mode", "light", "X-Mode", "heavy"}, 20},
		{"cost {http.request.header.X-Batch}", "/", "", "", []string{"X-Batch", "3", "X-Batch", "5"}, 1000},
		{"cost {http.request.header.X-Batch} header X-Batch *", "/", "", "", []string{"X-Batch", "3", "X-Batch", "5"}, 1000},
		{"cost {http.request.header.X-Batch} header X-Batch *", "/", "", "", []string{"X-Batch", "3"}, 3},

		{query, "/?mode=light&mode=heavy", "", "", nil, 20},
		{query, "/?mode=heavy&mode=light", "", "", nil, 20},
		{query, "/?mode[]=heavy", "", "", nil, 20},
		{query, "/?MODE=HEAVY", "", "", nil, 20},
		{query, "/?mode=light&x=%zz&mode=heavy", "", "", nil, 20},
		{query, "/?mode=light&x=1", "", "", nil, 1},
		{query, "/", "", "", nil, 1},
		{"cost 20 vars_regexp {http.request.uri.query.mode} ^heavy$", "/?mode=light&mode=heavy", "", "", nil, 20},
		{"cost 20 `{http.request.uri.query.mode} == 'heavy'`", "/?mode=light&mode=heavy", "", "", nil, 20},
		{"cost 1 vars {http.request.uri.query.mode} light\ncost 20", "/?mode=light&mode=heavy", "", "", nil, 20},

		{cookie, "/", "", "", []string{"Cookie", "mode=light; mode=heavy"}, 20},
		{cookie, "/", "", "", []string{"Cookie", "mode=light; other=heavy"}, 1},
	} {
		if got := priced(t, zoneOf(t, c.options+"\nper everyone\nlimit 1000/1h"), c.target, c.kind, c.body, c.fields...); got != c.want {
			t.Errorf("%s\n%s %s %s %q costs %d, want %d", c.options, c.target, c.kind, c.body, c.fields, got, c.want)
		}
	}
	for _, options := range exports {
		for _, body := range []string{
			`{"operationName":"Export"}`, `{"operationName":"a","operationName":"Export"}`, `{"operationName":"Export","operationName":"a"}`,
			`{"OPERATIONNAME":"Export"}`, `{"operationName":"a","OperationName":"Export"}`, `{"operationName":"EXPORT"}`, `{"operationName":" export\n"}`,
			`[{"operationName":"Export"},{"operationName":"a"}]`, `[{"operationName":"a"},{"operationName":"b"},{"operationName":"EXPORT"}]`,
			`{"operationName":["Export"]}`, `{"operationName":["a","Export"]}`, `{"operationName":{"x":"Export","y":"a"}}`,
		} {
			if got := priced(t, zoneOf(t, options+"\nper everyone\nlimit 1000/1h"), "/", inJSON, body); got != 20 {
				t.Errorf("%s\n%s costs %d, want 20", options, body, got)
			}
		}
	}
}

// A cost that a body says has to be found in it: a backend may read it in a body of any type.
func TestCostsInBodiesOfOtherTypesAreTheHighest(t *testing.T) {
	for _, c := range []struct {
		options, kind, body string
		want                int
	}{
		{"cost {http.rate_limit.json.n}\nmax_cost 100", "text/plain", `{"n":500}`, 100},
		{"cost {http.rate_limit.json.n}\nmax_cost 100", "", `{"n":500}`, 100},
		{"cost {http.rate_limit.json.n}\nmax_cost 100", form, `{"n":500}`, 100},
		{"cost {http.rate_limit.json.n}\nmax_cost 100", "multipart/form-data; boundary=x", `{"n":500}`, 100},
		{"cost {http.rate_limit.json.n}\nmax_cost 100", "application/vnd.api", `{"n":500}`, 100},
		{"cost {http.rate_limit.json.n}\nmax_cost 100", inJSON, `{"n":50}`, 50},
		{"cost {http.rate_limit.json.n}\nmax_cost 100", inJSON, `{}`, 1},
		{"cost {http.rate_limit.json.n}\nmax_cost 100", "text/plain", "", 1},
		{"cost {http.rate_limit.json.n}", "text/plain", `{"n":500}`, 1000},
		{"cost {http.rate_limit.json.n}\non_unreadable_body empty", "text/plain", `{"n":500}`, 1000},
		{"cost {http.rate_limit.form.n}\nmax_cost 100", inJSON, `{"n":500}`, 100},
		{"cost {http.rate_limit.form.n}{http.rate_limit.json.n}\nmax_cost 100", inJSON, `{"n":50}`, 50},
		{"cost {http.rate_limit.form.n}{http.rate_limit.json.n}\nmax_cost 100", form, `n=50`, 50},
		{"cost {http.rate_limit.form.n}{http.rate_limit.json.n}\nmax_cost 100", "text/plain", `n=50`, 100},
		{"cost {http.rate_limit.json.n} POST /\ncost 3\nmax_cost 100", "text/plain", `{"n":500}`, 100},
		{"cost {http.rate_limit.json.n} vars_regexp {http.rate_limit.json.n} .\ncost 3\nmax_cost 100", inJSON, `{"n":50}`, 50},
		{"cost {http.rate_limit.json.n} vars_regexp {http.rate_limit.json.n} .\ncost 3\nmax_cost 100", inJSON, `{}`, 3},
	} {
		if got := priced(t, zoneOf(t, c.options+"\nper everyone\nlimit 1000/1h"), "/", c.kind, c.body); got != c.want {
			t.Errorf("%s\n%s %s costs %d, want %d", c.options, c.kind, c.body, got, c.want)
		}
	}
}

// Matchers are asked about each value, too: a zone has a request that may be one of its own, and an exemption is for
// those that surely are.
func TestMatchersAreAskedAboutEachValue(t *testing.T) {
	for _, c := range []struct {
		match, target, body string
		fields              []string
		want                bool
	}{
		{"match vars {http.rate_limit.json.method} tools/call", "/", `{"method":"ping","method":"tools/call"}`, nil, true},
		{"match vars {http.rate_limit.json.method} tools/call", "/", `{"method":"ping","method":"list"}`, nil, false},
		{"match `{http.rate_limit.json.method} == 'tools/call'`", "/", `{"method":"ping","method":"tools/call"}`, nil, true},
		{"match `{http.rate_limit.json.method} == 'tools/call'`", "/", `[{"method":"ping"},{"method":"list"}]`, nil, false},
		{"match not vars {http.rate_limit.json.method} ping", "/", `{"method":"ping","method":"tools/call"}`, nil, true},
		{"match vars {http.request.header.X-Mode} heavy", "/", "", []string{"X-Mode", "light", "X-Mode", "heavy"}, true},
		{"match not header X-Mode light", "/", "", []string{"X-Mode", "light", "X-Mode", "heavy"}, true},
		{"match `{http.request.uri.query.mode} == 'heavy'`", "/?mode=light&mode=heavy", "", nil, true},
		{"match `{http.request.uri.query.mode} == 'heavy'`", "/?mode=light&mode=lighter", "", nil, false},
	} {
		h := zoneOf(t, c.match+"\nper everyone\nlimit 1000/1h")
		if got := priced(t, h, c.target, inJSON, c.body, c.fields...); (got == 1) != c.want {
			t.Errorf("%s: %s %s %q: %d, want it in the zone: %v", c.match, c.target, c.body, c.fields, got, c.want)
		}
	}
}

// A tier is that of a field only if the field can be read with certainty: the default would be one that the client
// chose beside it.
func TestTiersInBodiesThatCannotBeReadAreRefused(t *testing.T) {
	app := &config.App{Tiers: []*config.Tier{
		{Name: "heavy", Limits: []config.Limit{{Amount: 4, Window: handlertest.Hour}}}, {Name: "light", Limits: []config.Limit{{Amount: 100, Window: handlertest.Hour}}},
	}}
	h := handlertest.Start(t, app, handlertest.Parse(t, "zone z {\ntier {http.rate_limit.json.mode} light\nper everyone\n}"))
	for _, c := range []struct {
		kind, body string
		want       int
	}{
		{"text/plain", `{"mode":"heavy"}`, 415}, {"", `{"mode":"heavy"}`, 415}, {form, "mode=heavy", 415}, {inJSON, `{"mode":["light","heavy"]}`, 400}, {inJSON, `{"mode":"light","mode":"heavy"}`, 400},
		{inJSON, `{"mode":["light"]}`, 200}, {inJSON, `{}`, 200}, {"text/plain", "", 200}, {inJSON, `{"mode":"heavy"}`, 200}, {inJSON, `{"mode":"heavy"}`, 429},
	} {
		if got := post(t, h, "/", c.kind, c.body); got != c.want {
			t.Errorf("%s %s is answered with %d, want %d", c.kind, c.body, got, c.want)
		}
	}
}
