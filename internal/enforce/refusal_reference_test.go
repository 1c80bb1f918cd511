package enforce_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-tally/caddy-tally/identity/reference"
	"github.com/caddy-tally/caddy-tally/internal/answer"
	"github.com/caddy-tally/caddy-tally/internal/config"
	"github.com/caddy-tally/caddy-tally/internal/enforce"
	"github.com/caddy-tally/caddy-tally/internal/instance"
	"github.com/caddy-tally/caddy-tally/internal/operator"
	"github.com/caddy-tally/caddy-tally/internal/testing/handlertest"
	"github.com/caddy-tally/caddy-tally/storage"
	"github.com/caddy-tally/caddy-tally/storage/storagetest"
)

// asked is a request with its answer.
type asked struct {
	*http.Request
	answer *httptest.ResponseRecorder
	err    error // the handler's error
}

// ask makes a handler answer a request of a client for a path, with header fields.
func ask(h *enforce.Handler, path, ip string, fields ...string) asked {
	return askNext(h, path, ip, func(http.ResponseWriter, *http.Request) error { return nil }, fields...)
}

// askNext is ask with a handler of passing requests.
func askNext(h *enforce.Handler, path, ip string, next caddyhttp.HandlerFunc, fields ...string) asked {
	r, w, err := handlertest.Get(h, path, ip, next, fields...)
	return asked{r, w, err}
}

// reference returns the value of the placeholder.
func (a asked) reference() string {
	return handlertest.ReferenceOf(a.Request)
}

// made returns the reference if it exists already.
func (a asked) made(t *testing.T) string {
	t.Helper()
	p, ok := caddyhttp.GetVar(a.Context(), handlertest.ResponseVar).(*answer.Response)
	if !ok || p.Refusal == nil {
		t.Fatal("the request was not refused")
	}
	return p.Refusal.Of.(*enforce.Refusal).Reference
}

const hour = handlertest.Hour

func TestReferenceOfARefusal(t *testing.T) {
	h := handlertest.Start(t, handlertest.OnDisk(t), &config.Handler{Zones: []*config.Zone{{
		Name: "tenant", Per: enforce.PerKey, Key: "{http.request.header.X-Tenant}",
		Limits: []config.Limit{{Amount: 10, Window: hour}, {Amount: 1, Window: 24 * hour, Name: "daily"}},
	}}})
	before := time.Now().Truncate(time.Second)
	if passed := ask(h, "/", "192.0.2.1", "X-Tenant", "acme"); passed.reference() != "" {
		t.Errorf("a request that passes has the reference %q", passed.reference())
	}
	refused := ask(h, "/", "192.0.2.1", "X-Tenant", "acme")
	if refused.answer.Code != http.StatusTooManyRequests {
		t.Fatalf("answered with %d", refused.answer.Code)
	}
	if made := refused.made(t); made != "" {
		t.Errorf("nobody has asked for the reference, and there is %q", made)
	}
	text := refused.reference()
	if again := refused.reference(); len(text) != reference.TextSize || again != text {
		t.Errorf("got %q, and asked again %q", text, again)
	}
	got, err := h.Config.OpenReference(text)
	if err != nil {
		t.Fatal(err)
	}
	if got.Zone != "tenant" || got.Limit != "daily" || got.Outcome != "over_limit" || got.At.Before(before) || got.At.After(time.Now()) {
		t.Errorf("got %+v", got)
	}
	if names := keysAtRest(t, h, "SELECT DISTINCT key FROM counters"); !slices.Contains(names, got.Name) {
		t.Errorf("the key is named %x, and %x in the database", got.Name, names)
	}

	blocked := ask(h, "/", "192.0.2.1", "X-Tenant", "acme")
	if blocked.reference() == text {
		t.Error("two refusals have one reference")
	}
	if again, err := h.Config.OpenReference(strings.ToUpper(blocked.reference())); err != nil || again.Outcome != "blocked" || again.Name != got.Name {
		t.Errorf("got %+v, %v", again, err)
	}
}

// A long key works in a reference, too.
func TestReferenceOfALongKey(t *testing.T) {
	h := handlertest.Start(t, handlertest.OnDisk(t), &config.Handler{Zones: []*config.Zone{{
		Name: "tenant", Per: enforce.PerKey, Key: "{http.request.header.X-Tenant}", Limits: []config.Limit{{Amount: 1, Window: hour}},
	}}})
	for _, length := range []int{39, 40, 41, 127, 128, 1000} {
		tenant := strings.Repeat("x", length)
		ask(h, "/", "192.0.2.1", "X-Tenant", tenant)
		refused := ask(h, "/", "192.0.2.1", "X-Tenant", tenant)
		ask(h, "/", "192.0.2.1", "X-Tenant", "another")
		got, err := h.Config.OpenReference(refused.reference())
		if err != nil {
			t.Fatal(err)
		}
		if names := keysAtRest(t, h, "SELECT DISTINCT key FROM counters"); !slices.Contains(names, got.Name) {
			t.Errorf("%d characters: the key is named %x, and %x in the database", length, got.Name, names)
		}
	}
}

// keysAtRest returns the names of keys that a query finds in the database of a handler.
func keysAtRest(t *testing.T, h *enforce.Handler, query string) (names []storage.Key) {
	t.Helper()
	if _, err := (*h.Config.Instance.Load().Store.Load()).Sweep(context.Background(), storagetest.At(time.Now().UnixNano())); err != nil && !errors.Is(err, storage.ErrClosed) { // it begins with the journal
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite", "file:"+filepath.ToSlash(h.Config.Settings.Path)+"?mode=ro")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	rows, err := db.Query(query)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var name []byte
		if err := rows.Scan(&name); err != nil {
			t.Fatal(err)
		}
		names = append(names, storage.Key(name))
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return names
}

func TestReferencesOfOtherRefusals(t *testing.T) {
	trap := &config.Trap{MatcherSetsRaw: caddyhttp.RawMatcherSets{{"path": json.RawMessage(`["/trap"]`)}}, Ban: hour}
	h := handlertest.Start(t, &config.App{Ban: &config.Ban{After: 2, Within: hour, For: hour}}, &config.Handler{Traps: []*config.Trap{trap}, Zones: []*config.Zone{
		{Name: "closed", Per: enforce.PerKey, Key: "{http.request.header.X-Tenant}", OnEmptyKey: enforce.EmptyDeny, Limits: []config.Limit{{Amount: 5, Window: hour}},
			MatcherSetsRaw: caddyhttp.RawMatcherSets{{"path": json.RawMessage(`["/closed"]`)}}},
		{Name: "costly", Per: enforce.PerIP, Cost: "6", Limits: []config.Limit{{Amount: 5, Window: hour}},
			MatcherSetsRaw: caddyhttp.RawMatcherSets{{"path": json.RawMessage(`["/costly"]`)}}},
	}})
	for _, tt := range []struct {
		path, ip             string
		zone, limit, outcome string
		named                bool
	}{
		{"/trap", "192.0.2.1", enforce.BanName, enforce.BanName, "banned", true},
		{"/", "192.0.2.1", enforce.BanName, enforce.BanName, "banned", true},
		{"/closed", "192.0.2.2", "closed", "closed", "too_costly", false},
		{"/costly", "192.0.2.3", "costly", "costly", "too_costly", true},
	} {
		refused := ask(h, tt.path, tt.ip)
		got, err := h.Config.OpenReference(refused.reference())
		if err != nil {
			t.Errorf("%s: %q: %v", tt.path, refused.reference(), err)
			continue
		}
		if got.Zone != tt.zone || got.Limit != tt.limit || got.Outcome != tt.outcome || (got.Name != storage.Key{}) != tt.named {
			t.Errorf("%s: got %+v", tt.path, got)
		}
	}
}

// A ban's reference names the record of the client.
func TestReferenceOfABanNamesTheRecord(t *testing.T) {
	trap := &config.Trap{MatcherSetsRaw: caddyhttp.RawMatcherSets{{"path": json.RawMessage(`["/trap"]`)}}, Ban: hour}
	h := handlertest.Start(t, handlertest.OnDisk(t), &config.Handler{Traps: []*config.Trap{trap}})
	day := time.Now().UTC().YearDay()
	refused := ask(h, "/trap", "192.0.2.1")
	if err := h.Config.Cleanup(); err != nil { // it writes pending rows
		t.Fatal(err)
	}
	got, err := h.Config.OpenReference(refused.reference())
	if err != nil {
		t.Fatal(err)
	}
	names := keysAtRest(t, h, "SELECT key FROM standings")
	if day != time.Now().UTC().YearDay() {
		t.Skip("addresses have another name since midnight")
	}
	if !slices.Contains(names, got.Name) {
		t.Errorf("the client is named %x, and %x in the database", got.Name, names)
	}
}

func TestReferenceInProblemDetails(t *testing.T) {
	h := handlertest.Start(t, new(config.App), &config.Handler{Zones: []*config.Zone{{Name: "z", Limits: []config.Limit{{Amount: 1, Window: hour}}}}})
	ask(h, "/", "192.0.2.1")
	refused := ask(h, "/", "192.0.2.1", "Accept", "application/problem+json")
	var problem struct{ Instance string }
	if err := json.Unmarshal(refused.answer.Body.Bytes(), &problem); err != nil {
		t.Fatal(err)
	}
	if problem.Instance != reference.URN+refused.reference() {
		t.Errorf("the instance is %q, the reference %q", problem.Instance, refused.reference())
	}
	if got, err := h.Config.OpenReference(problem.Instance); err != nil || got.Zone != "z" {
		t.Errorf("%q: got %+v, %v", problem.Instance, got, err)
	}
}

func TestReferenceOnTheChallengePage(t *testing.T) {
	h := handlertest.Start(t, &config.App{Session: new(config.Session)}, &config.Handler{Zones: []*config.Zone{
		{Name: "z", Per: enforce.PerClient, OnExceeded: "challenge", Limits: []config.Limit{{Amount: 1, Window: hour}}},
	}})
	page := func() asked {
		return ask(h, "/", "192.0.2.1", "Accept", "text/html", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document", "Upgrade-Insecure-Requests", "1")
	}
	page()
	refused := page()
	if body := refused.answer.Body.String(); !strings.Contains(body, "<code>"+refused.reference()+"</code>") || !strings.Contains(body, "<code>"+reference.Short(refused.reference())+"</code>") {
		t.Errorf("the page lacks the reference %s:\n%s", refused.reference(), body)
	}
	if visited := ask(h, sessionPath, "192.0.2.2"); strings.Contains(visited.answer.Body.String(), "<code>") {
		t.Error("the page that nobody was refused for has a reference")
	}
}

func TestOpenReferenceOfNobody(t *testing.T) {
	h := handlertest.Start(t, new(config.App), &config.Handler{Zones: []*config.Zone{{Name: "z", Limits: []config.Limit{{Amount: 1, Window: hour}}}}})
	for text, want := range map[string]error{
		"": reference.ErrMalformed, "abc": reference.ErrMalformed, strings.Repeat("0", reference.TextSize): reference.ErrForeign,
	} {
		if got, err := h.Config.OpenReference(text); !errors.Is(err, want) {
			t.Errorf("%q: got %+v, %v; want %v", text, got, err, want)
		}
	}
}

// explained returns the explanation of a reference.
func explained(t *testing.T, h *enforce.Handler, text string) operator.Explanation {
	t.Helper()
	explanation, err := handlertest.Operator(h).Explain(t.Context(), operator.Question{Client: text})
	if err != nil {
		t.Fatal(err)
	}
	return explanation
}

// A request that cost 10 was refused with 9 left, and was explained with "the next request passes".
func TestReferenceKeepsTheCost(t *testing.T) {
	h := handlertest.Start(t, new(config.App), &config.Handler{Zones: []*config.Zone{{Name: "z", Per: enforce.PerIP, Cost: "{http.request.header.X-Batch}", Limits: []config.Limit{{Amount: 10, Window: hour}}}}})
	ask(h, "/", "192.0.2.1")
	costly := ask(h, "/export/12345", "192.0.2.1", "X-Batch", "10")
	whole := costly.reference()
	for _, text := range []string{whole, reference.Short(whole), "ref:" + strings.ToUpper(whole[:10])} {
		told := explained(t, h, text)
		if r := told.Refusal; r.Cost != 10 || r.Left != 9 || r.Text != "GET /export/*: it cost 10, 9 were left" {
			t.Errorf("%s: the refusal is %+v", text, r)
		}
		if told.Next.Outcome == "allowed" || told.Next.Retry == 0 {
			t.Errorf("%s: the next request %s", text, told.Next.Text)
		}
	}
	never := explained(t, h, ask(h, "/", "192.0.2.1", "X-Batch", "11").reference())
	if never.Next.Status != http.StatusForbidden || never.Refusal.Text != "GET /: it cost 11, and the limit is 10" {
		t.Errorf("a cost above the limit: %+v, %+v", never.Refusal, never.Next)
	}
	h.Config.Instance.Load().Recent = instance.RecentByReference{}
	if told := explained(t, h, whole); told.Refusal.Cost != 0 || told.Next.Text != "passes if it costs 1 in zone z, where costs differ" {
		t.Errorf("when memory has forgotten the refusal: %+v, the next request %s", told.Refusal, told.Next.Text)
	}
}

func TestShortReferenceThatMemoryDoesNotHold(t *testing.T) {
	h := handlertest.Start(t, new(config.App), &config.Handler{Zones: []*config.Zone{{Name: "z", Limits: []config.Limit{{Amount: 1, Window: hour}}}}})
	ask(h, "/", "192.0.2.1")
	refused := ask(h, "/", "192.0.2.1")
	text := refused.reference()
	if _, err := h.Config.OpenReference("00000-00000"); err == nil || !strings.Contains(err.Error(), "decision log") {
		t.Errorf("got %v, want where to look", err)
	}
	if got, err := h.Config.OpenReference(text[:9]); !errors.Is(err, reference.ErrMalformed) {
		t.Errorf("a part of a short reference: got %+v, %v", got, err)
	}
	twin := refused.made(t)[:reference.ShortSize] + strings.Repeat("0", reference.TextSize-reference.ShortSize)
	h.Config.Instance.Load().Recent.Add((&enforce.Refusal{Config: h.Config, Policy: h.Zones[0].SiteLimits.Own.Policies[0], Reference: twin}).Recent())
	if got, err := h.Config.OpenReference(text[:reference.ShortSize]); err == nil || !strings.Contains(err.Error(), "the whole reference") {
		t.Errorf("two refusals with one short reference: got %+v, %v", got, err)
	}
	if _, err := h.Config.OpenReference(text); err != nil {
		t.Errorf("the whole reference of one of them: %v", err)
	}
}

// A client that is refused a thousand times displaces at most a few refusals of others from memory.
func TestOneClientCannotMakeMemoryForgetOthers(t *testing.T) {
	h := handlertest.Start(t, new(config.App), &config.Handler{Zones: []*config.Zone{{Name: "z", Per: enforce.PerIP, Limits: []config.Limit{{Amount: 1, Window: hour}}}}})
	var others []string
	for i := range 100 {
		ip := fmt.Sprintf("192.0.2.%d", i)
		ask(h, "/", ip)
		others = append(others, ask(h, "/", ip).reference())
	}
	ask(h, "/", "198.51.100.1")
	for range 10_000 {
		ask(h, "/", "198.51.100.1").reference()
	}
	forgotten := 0
	for _, text := range others {
		if _, err := h.Config.OpenReference(text[:reference.ShortSize]); err != nil {
			forgotten++
		}
	}
	if forgotten > 20 { // of 100, of which about one shares the set
		t.Errorf("%d of %d refusals are forgotten", forgotten, len(others))
	}
}
