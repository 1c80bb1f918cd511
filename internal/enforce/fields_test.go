package enforce_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-tally/caddy-tally/internal/config"
	"github.com/caddy-tally/caddy-tally/internal/enforce"
	"github.com/caddy-tally/caddy-tally/internal/testing/handlertest"
)

const (
	form   = "application/x-www-form-urlencoded"
	inJSON = "application/json"
)

// post returns the status of a POST with a body, from an address of its own. It fails if the body doesn't arrive
// byte for byte.
func post(t *testing.T, h *enforce.Handler, target, kind, body string, fields ...string) int {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, target, strings.NewReader(body))
	if kind != "" {
		r.Header.Set("Content-Type", kind)
	}
	for i := 0; i+1 < len(fields); i += 2 {
		r.Header.Add(fields[i], fields[i+1])
	}
	w, arrived := askFrom(t, h, r)
	if w.Code == http.StatusOK && arrived != body {
		t.Errorf("%q arrives as %q", body, arrived)
	}
	return w.Code
}

var posts int

func askFrom(t *testing.T, h *enforce.Handler, r *http.Request) (w *httptest.ResponseRecorder, arrived string) {
	t.Helper()
	w, posts = httptest.NewRecorder(), posts+1
	r = caddyhttp.PrepareRequest(r, caddy.NewReplacer(), w, new(caddyhttp.Server))
	caddyhttp.SetVar(r.Context(), caddyhttp.ClientIPVarKey, fmt.Sprintf("10.%d.%d.%d", posts>>16, posts>>8&255, posts&255))
	err := h.ServeHTTP(w, r, caddyhttp.HandlerFunc(func(w http.ResponseWriter, r *http.Request) error {
		data, err := io.ReadAll(r.Body)
		arrived = string(data)
		if value, _ := r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer).GetString("http.rate_limit.form.user"); value != "" {
			t.Errorf("later handlers see the field %q", value)
		}
		return err
	}))
	if err != nil && r.Context().Err() == context.Canceled {
		t.Fatal(err)
	}
	if failed, ok := err.(caddyhttp.HandlerError); ok {
		w.Code = failed.StatusCode
	} else if err != nil {
		t.Fatal(err)
	}
	return w, arrived
}

// zoneOf returns a handler with a zone of these options, in a Caddyfile.
func zoneOf(t *testing.T, options string) *enforce.Handler {
	t.Helper()
	return handlertest.Start(t, new(config.App), handlertest.Parse(t, "zone z {\n"+options+"\n}"))
}

// Sign-ins are limited per account over all addresses, whatever the spelling in which a backend finds the
// account: each of these uses up the account's only one.
func TestAccountsInFormsAreLimitedOverAllAddresses(t *testing.T) {
	for _, body := range []string{
		"user=victim", "password=x&user=victim", "user=+Victim%20", "user=VICTIM", "%75ser=victim", "user=%76ictim",
		"USER=victim", "user[]=victim", "user%5B%5D=victim", "user[0]=victim", "user[x]=victim", "[user]=victim", "+user=victim",
		"a=1;user=victim", "=user=victim", "user=other&user=victim", "user=victim&user=other", "user[]=other&user[]=victim", "user=&user=victim",
		"user=victim&user=", "user=v%C3%ADctim", "user=%EF%BD%96ictim", "user=vic%E2%80%8Btim", "user=vic%C2%ADtim", "user=V%C4%B0CTIM",
	} {
		h := zoneOf(t, "per key {http.rate_limit.form.user}\nlimit 1/1h")
		if got := post(t, h, "http://example.com/login", form, body); got != 200 {
			t.Errorf("%s: %d", body, got)
		}
		if got := post(t, h, "http://example.com/login", form, "user=victim"); got != 429 {
			t.Errorf("after %s another of the account is answered with %d, want 429", body, got)
		}
		if got := post(t, h, "http://example.com/login", form, "user=bystander"); got != 200 {
			t.Errorf("after %s another account is answered with %d", body, got)
		}
	}
}

func TestAccountsInJSONAreLimitedOverAllAddresses(t *testing.T) {
	for _, body := range []string{
		`{"user":{"email":"victim"}}`, ` { "user" : {"x":[{"email":"a"}], "email" : " Victim " } } `, `{"USER":{"Email":"victim"}}`, `{"\u0075ser":{"email":"\u0076ictim"}}`,
		`{"user":{"email":"other"},"user":{"email":"victim"}}`, `{"user":{"email":"victim","email":"other"}}`, `{"user":{"email":["victim"]}}`, `[{"user":{"email":"victim"}}]`,
		`{"user":[{"email":"victim"}]}`, `{"user":{"email":{"$eq":"victim"}}}`, `{"u\u017fer":{"email":"victim"}}`, `{"user":{"email":null,"email":"victim"}}`,
	} {
		h := zoneOf(t, "per key {http.rate_limit.json.user.email}\nlimit 1/1h")
		if got := post(t, h, "http://example.com/login", inJSON+"; charset=UTF-8", body); got != 200 {
			t.Errorf("%s: %d", body, got)
		}
		if got := post(t, h, "http://example.com/login", inJSON, `{"user":{"email":"victim"}}`); got != 429 {
			t.Errorf("after %s another of the account is answered with %d, want 429", body, got)
		}
		if got := post(t, h, "http://example.com/login", inJSON, `{"user":{"email":"bystander"},"x":{"email":"victim"}}`); got != 200 {
			t.Errorf("after %s another account is answered with %d", body, got)
		}
	}
}

// Each of these is read as the account victim by a framework, or by a database, whatever else the client names in
// another place. It uses up the account's only one.
func TestAccountsCountWhereverAndHoweverTheyAreNamed(t *testing.T) {
	both := "per key {http.rate_limit.form.user}{http.rate_limit.json.user}"
	wrapped, only := "per key {http.rate_limit.json.session.user}", "per key {http.rate_limit.json.user}"
	for _, c := range []struct{ key, target, kind, body string }{
		{only, "?user=victim", inJSON, `{"User":"junk"}`},
		{only, "?user=victim", inJSON, `{}`},
		{only, "?user=victim", inJSON, ``},
		{only, "?user=victim", "", ``},
		{only, "?user[]=victim", inJSON, `{"user":"junk"}`},
		{only, "?a=1;+USER=%76ictim", inJSON, `[]`},
		{wrapped, "?session[user]=victim", inJSON, `{"session":{"user":"junk"}}`},
		{wrapped, "?session%5Buser%5D=victim", inJSON, `{"user":"junk"}`},
		{wrapped, "", inJSON, `{"Session":{"user":"junk"},"user":"victim"}`},
		{wrapped, "", inJSON, `{"user":["victim"]}`},
		{"per key {http.rate_limit.json.a.session.user}", "", inJSON, `{"A":{},"session":{"user":"victim"}}`},
		{both, "?user=victim", inJSON, `{"User":"junk"}`},
		{both, "?user=victim", form, `user=junk`},
		{both, "?user=victim", form, ``},
		{both, "?user=victim", "", ``},
		{"per key {http.rate_limit.form.name}{http.rate_limit.json.user}", "?name=junk&user=victim", "", ``},
		{only, "", inJSON, `{"user":"victim` + "\u20dd\u20dd" + `"}`},
		{both, "", form, "user=vi%C3%A7tim%D2%88%E2%83%9D%E0%A4%83"},
		{both, "", form, "user=v%C4%B1ctim"},
		{both, "", form, "user=%F0%9D%95%A7ictim"},
	} {
		h := zoneOf(t, c.key+"\non_empty_key deny\nlimit 1/1h")
		if got := post(t, h, "http://example.com/login"+c.target, c.kind, c.body); got != 200 {
			t.Errorf("%v: %d", c, got)
		}
		for account, want := range map[string]int{"victim": 429, "bystander": 200} {
			if got := post(t, h, "http://example.com/login", inJSON, `{"user":"`+account+`"}`); got != want {
				t.Errorf("after %v one of the account %s is answered with %d, want %d", c, account, got, want)
			}
		}
	}
}

// A type with a parameter that a framework takes for another type is refused. Others that are in use pass.
func TestParametersOfTypesAreNoTypes(t *testing.T) {
	for kind, want := range map[string]int{
		form + `; x="/json"`: 400, form + `; x=/json`: 400, form + `; x=a+json`: 400, form + `;a/json=x`: 400, form + `; charset=utf-8; y="text/json"`: 400,
		inJSON + `; x=` + form: 400, inJSON + `; profile="https://example.com/` + form + `"`: 400,
		inJSON + `; odata.metadata=minimal;IEEE754Compatible=true`: 200, inJSON + `; profile="https://example.com/a+b"`: 200, inJSON + `; version=1.0; charset=utf-8`: 200, inJSON + `; action="urn:x"`: 200, form + `; boundary=x`: 200,
	} {
		h := zoneOf(t, "per key {http.rate_limit.form.user}{http.rate_limit.json.user}\nlimit 1/1h")
		body := `{"user":"victim"}`
		if strings.HasPrefix(kind, form) {
			body = "user=victim"
		}
		if got := post(t, h, "http://example.com/login", kind, body); got != want {
			t.Errorf("%s: %d, want %d", kind, got, want)
		}
	}
}

// A number is one key, however it is written, and another one is another key, however long they are.
func TestNumbersInJSONHaveOneSpelling(t *testing.T) {
	for _, c := range []struct{ id, same, other string }{
		{`1000`, `1000`, `1001`}, {`1e3`, `1000`, `100`}, {`1000.0`, `1000`, `1000.5`}, {`"1000"`, `1000`, `"1000x"`}, {`10E2`, `1000`, `-1000`},
		{`12345678901234567`, `"12345678901234567"`, `12345678901234568`}, {`"98765432109876543210"`, `98765432109876543210`, `98765432109876543211`}, {`-0`, `0`, `"-1"`},
	} {
		h := zoneOf(t, "per key {http.rate_limit.json.id}\nlimit 1/1h")
		post(t, h, "http://example.com/", inJSON, `{"id":`+c.id+`}`)
		if got := post(t, h, "http://example.com/", inJSON, `{"id":`+c.same+`}`); got != 429 {
			t.Errorf("after %s %s: %d", c.id, c.same, got)
		}
		if got := post(t, h, "http://example.com/", inJSON, `{"id":`+c.other+`}`); got != 200 {
			t.Errorf("after %s %s: %d", c.id, c.other, got)
		}
	}
}

// A value that is longer than what is kept of an answer's counts, too.
func TestLongValuesInJSONCount(t *testing.T) {
	h := zoneOf(t, "per key {http.rate_limit.json.user}\nread_body 1MiB\nlimit 1/1h")
	post(t, h, "http://example.com/", inJSON, `{"user":"victim`+strings.Repeat(" ", 100_000)+`"}`)
	if got := post(t, h, "http://example.com/", inJSON, `{"user":"victim"}`); got != 429 {
		t.Errorf("after one with blanks: %d, want 429", got)
	}
}

// A body in which a backend may find another account is refused, since it would leave the limit per account.
func TestBodiesThatCannotBeReadAreRefused(t *testing.T) {
	long := strings.Repeat("x", 64<<10)
	for name, c := range map[string]struct {
		kind, body string
		want       int
		fields     []string
	}{
		"too long":            {form, "x=" + long + "&user=victim", 413, nil},
		"too long in JSON":    {inJSON, `{"x":"` + long + `","user":"victim"}`, 413, nil},
		"broken escape":       {form, "user=victim%zz", 400, nil},
		"broken name":         {form, "us%zer=victim", 400, nil},
		"a NUL in a name":     {form, "user%00x=victim", 400, nil},
		"not UTF-8":           {form, "user=victim%ff", 400, nil},
		"a NUL":               {form, "user=victim%00x", 400, nil},
		"a NUL in JSON":       {inJSON, `{"user":"victim\u0000x"}`, 400, nil},
		"UTF-16":              {inJSON, "\xff\xfe{\x00}\x00", 400, nil},
		"UTF-16 declared":     {form + "; charset=utf-16", "user=victim", 400, nil},
		"gzip":                {form, "user=victim", 400, []string{"Content-Encoding", "gzip"}},
		"identity and gzip":   {form, "user=victim", 400, []string{"Content-Encoding", "identity", "Content-Encoding", "gzip"}},
		"two types":           {form, "user=victim", 400, []string{"Content-Type", inJSON}},
		"odd parameters":      {form + "; charset", "user=victim", 400, nil},
		"odd type":            {form + ", x", "user=victim", 400, nil},
		"half of JSON":        {inJSON, `{"user":"victim"`, 400, nil},
		"two in JSON":         {inJSON, `{"user":"a"} {"user":"victim"}`, 400, nil},
		"comments":            {inJSON, `{"user":"victim"/**/}`, 400, nil},
		"too deep":            {inJSON, strings.Repeat("[", 600) + strings.Repeat("]", 600), 400, nil},
		"too many":            {form, "user=1&user=2&user=3&user=4&user=5&user=6&user=7&user=8&user=victim", 400, nil},
		"text":                {"text/plain", "user=victim", 415, nil},
		"none":                {"", "user=victim", 415, nil},
		"multipart":           {"multipart/form-data; boundary=x", "--x\r\nContent-Disposition: form-data; name=\"user\"\r\n\r\nvictim\r\n--x--\r\n", 415, nil},
		"another, very long":  {"text/plain", long + long, 415, nil},
		"identity is no code": {form, "user=victim", 200, []string{"Content-Encoding", "identity"}},
	} {
		h := zoneOf(t, "per key {http.rate_limit.form.user}{http.rate_limit.json.user}\nlimit 1/1h")
		if got := post(t, h, "http://example.com/login", c.kind, c.body, c.fields...); got != c.want {
			t.Errorf("%s: answered with %d, want %d", name, got, c.want)
		}
		told := zoneOf(t, "per key {http.rate_limit.form.user}{http.rate_limit.json.user}\non_empty_key share\non_unreadable_body empty\nlimit 1/1h")
		if got := post(t, told, "http://example.com/login", c.kind, c.body, c.fields...); got != 200 {
			t.Errorf("%s: a zone that is told to take it as empty answers with %d", name, got)
		}
		if got := post(t, told, "http://example.com/login", form, ""); name != "identity is no code" && got != 429 {
			t.Errorf("%s: an empty body after it is answered with %d, want 429: both are the empty key", name, got)
		}
		shadow := zoneOf(t, "per key {http.rate_limit.form.user}{http.rate_limit.json.user}\nlimit 1/1h\nshadow")
		if got := post(t, shadow, "http://example.com/login", c.kind, c.body, c.fields...); got != 200 {
			t.Errorf("%s: a zone in shadow answers with %d", name, got)
		}
	}
}

// An absent field is the empty key. What a query says instead counts, since programs may read that.
func TestAbsentFields(t *testing.T) {
	for target, body := range map[string]string{"/login": "password=x", "/login?": "", "/login?userx=victim": "user2=victim"} {
		h := zoneOf(t, "per key {http.rate_limit.form.user}\non_empty_key deny\nlimit 1/1h")
		if got := post(t, h, "http://example.com"+target, form, body); got != 429 {
			t.Errorf("%s %s: %d, want 429 of on_empty_key deny", target, body, got)
		}
	}
	for target, body := range map[string]string{"/login?user=victim": "password=x", "/login?x=1&user[]=victim": "user=other", "/login?user=victim&": ""} {
		h := zoneOf(t, "per key {http.rate_limit.form.user}\non_empty_key deny\nlimit 1/1h")
		if got := post(t, h, "http://example.com"+target, form, body); got != 200 {
			t.Errorf("%s %s: %d", target, body, got)
		}
		if got := post(t, h, "http://example.com/login", form, "user=victim"); got != 429 {
			t.Errorf("after %s another of the account is answered with %d, want 429", target, got)
		}
	}
}

// What isn't certain counts: in zones that match by it, as the whole limit, and in no exemption.
func TestUncertainFieldsCount(t *testing.T) {
	const called = `{"method":"ping","method":"tools/call"}`
	h := zoneOf(t, "match vars {http.rate_limit.json.method} tools/call\nper everyone\nlimit 1/1h")
	for i, want := range []int{200, 429} {
		if got := post(t, h, "http://example.com/", inJSON, called); got != want {
			t.Errorf("call %d: %d, want %d", i, got, want)
		}
	}
	if got := post(t, h, "http://example.com/", inJSON, `{"method":"ping"}`); got != 200 {
		t.Errorf("another method: %d", got)
	}
	if got := post(t, h, "http://example.com/", inJSON, `{"method":"tools/call"`); got != 400 {
		t.Errorf("half of one: %d", got)
	}
	if got := post(t, h, "http://example.com/", "text/plain", "upload"); got != 200 {
		t.Errorf("a type without fields: %d", got)
	}
	h = zoneOf(t, "match `{http.rate_limit.json.method} == \"tools/call\"`\nper everyone\nlimit 1/1h")
	for i, want := range []int{200, 429} {
		if got := post(t, h, "http://example.com/", inJSON, called); got != want {
			t.Errorf("call %d by an expression: %d, want %d", i, got, want)
		}
	}
	h = zoneOf(t, "per everyone\ncost {http.rate_limit.json.max_tokens}\nlimit 1000/1h")
	if got := post(t, h, "http://example.com/", inJSON, `{"max_tokens":1,"max_tokens":2}`); got != 200 {
		t.Errorf("two costs: %d", got)
	}
	if got := post(t, h, "http://example.com/", inJSON, `{"max_tokens":1}`); got != 429 {
		t.Errorf("after two costs: %d, want 429, since they cost all of the limit", got)
	}
}

// Two requests take the places of two accounts in one order, or each could wait for what the other has.
func TestPlacesOfSeveralAccountsAreTakenInOneOrder(t *testing.T) {
	h := zoneOf(t, "per key {http.rate_limit.form.user}\nlimit 1 concurrent wait 30s\nlimit 9/1h")
	order := func(body string) (keys []string) {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "http://example.com/", strings.NewReader(body))
		r.Header.Set("Content-Type", form)
		e := h.Begin(caddyhttp.PrepareRequest(r, caddy.NewReplacer(), httptest.NewRecorder(), new(caddyhttp.Server)))
		defer e.Release()
		if err := e.Collect(); err != nil {
			t.Fatal(err)
		}
		for _, d := range e.Debits {
			keys = append(keys, string(d.Key))
		}
		return keys
	}
	if a, b := order("user=B&user=a"), order("user=A&user=b"); len(a) != 2 || !slices.Equal(a, b) {
		t.Errorf("got %q and %q", a, b)
	}
}

// An answer tells the tighter of the limits of two accounts, once.
func TestAnswersTellOneOfSeveralAccounts(t *testing.T) {
	h := zoneOf(t, "per key {http.rate_limit.form.user}\nlimit 9/1h")
	for range 3 {
		post(t, h, "http://example.com/", form, "user=a")
	}
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "http://example.com/", strings.NewReader("user=b&user=a&user=c"))
	r.Header.Set("Content-Type", form)
	w, _ := askFrom(t, h, r)
	if got := w.Header()["Ratelimit"]; len(got) != 1 || !strings.HasPrefix(got[0], `"z";r=5;`) || strings.Count(got[0], "z") != 1 {
		t.Errorf("the answer tells %q", got)
	}
}
