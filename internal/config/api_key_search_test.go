package config

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-tally/caddy-tally/internal/answer"
	"github.com/caddy-tally/caddy-tally/internal/enforce"
	"github.com/caddy-tally/caddy-tally/internal/httpfield"
)

// findKey finds the key of a request with a query and header fields.
func findKey(t *testing.T, from []KeySource, query string, fields ...string) (string, *answer.Denial) {
	t.Helper()
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.URL.RawQuery = query
	for _, field := range fields {
		name, value, _ := strings.Cut(field, ": ")
		r.Header.Add(name, value)
	}
	k := sourcesOf(t, &APIKeys{From: from})
	r = caddyhttp.PrepareRequest(r, caddy.NewReplacer(), httptest.NewRecorder(), new(caddyhttp.Server))
	return k.Find(r, r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer))
}

// Every value that an upstream could take for a key is found, or the request is refused.
func TestKeysAreFoundAsUpstreamsFindThem(t *testing.T) {
	header := []KeySource{{Type: enforce.FromHeader, Name: "x-api-key"}}
	bearer := []KeySource{{Type: enforce.FromBearer}}
	query := []KeySource{{Type: enforce.FromQuery, Name: "api_key"}}
	cookie := []KeySource{{Type: enforce.FromPlaceholder, Name: "{http.request.cookie.key}"}}
	mixed := []KeySource{{Type: enforce.FromPlaceholder, Name: "{http.request.header.X-A}{http.request.header.X-B}"}}
	all := []KeySource{{Type: enforce.FromHeader, Name: "X-Api-Key"}, {Type: enforce.FromBearer}, {Type: enforce.FromQuery, Name: "key"}}
	for _, c := range []struct {
		from   []KeySource
		query  string
		fields []string
		key    string
		err    *answer.Denial
	}{
		{header, "", nil, "", nil},
		{header, "", []string{"X-Api-Key: K"}, "K", nil},
		{header, "", []string{"X-Api-Key: K "}, "K", nil},
		{header, "", []string{"X-Api-Key: \t K \t"}, "K", nil},
		{header, "", []string{"X-Api-Key: "}, "", nil},
		{header, "", []string{"X-Api-Key: az09-._~+/=="}, "az09-._~+/==", nil},
		{header, "", []string{`X-Api-Key: "K"`}, "", enforce.OddKey},
		{header, "", []string{"X-Api-Key: K\u00a0"}, "", enforce.OddKey},
		{header, "", []string{"X-Api-Key: K K"}, "", enforce.OddKey},
		{header, "", []string{"X-Api-Key: K,K"}, "", enforce.OddKey},
		{header, "", []string{"X-Api-Key: K;a=b"}, "", enforce.OddKey},
		{header, "", []string{"X-Api-Key: %4B"}, "", enforce.OddKey},
		{header, "", []string{"X-Api-Key: K=K"}, "", enforce.OddKey},
		{header, "", []string{"X-Api-Key: ="}, "", enforce.OddKey},
		{header, "", []string{"X-Api-Key: K", "X-Api-Key: K"}, "", enforce.TwoKeys},
		{header, "", []string{"X-Api-Key: K", "X-Api-Key: "}, "", enforce.TwoKeys},
		{header, "", []string{"X-Api-Keys: K", "Api-Key: K"}, "", nil},

		{bearer, "", []string{"Authorization: Bearer K"}, "K", nil},
		{bearer, "", []string{"Authorization: bEARER K"}, "K", nil},
		{bearer, "", []string{"Authorization:  Bearer   K "}, "K", nil},
		{bearer, "", []string{"Authorization: Bearer\tK"}, "K", nil},
		{bearer, "", []string{"Authorization: Bearer"}, "", nil},
		{bearer, "", []string{`Authorization: Bearer "K"`}, "", enforce.OddKey},
		{bearer, "", []string{`Authorization: "Bearer K"`}, "", enforce.OddKey},
		{bearer, "", []string{"Authorization: Bearer K, Bearer L"}, "", enforce.OddKey},
		{bearer, "", []string{"Authorization: Basic YTpi, Bearer K"}, "", enforce.OddKey},
		{bearer, "", []string{"Authorization: BearerK"}, "", enforce.OddKey},
		{bearer, "", []string{"Authorization: Bearer:K"}, "", enforce.OddKey},
		{bearer, "", []string{"Authorization: Bearer\u00a0K"}, "", enforce.OddKey},
		{bearer, "", []string{"Authorization: Basic K"}, "", nil},
		{bearer, "", []string{"Authorization: Basic xBearerx"}, "", nil},
		{bearer, "", []string{"Authorization: Basic K", "Authorization: Bearer K"}, "", enforce.TwoKeys},

		{query, "api_key=K", nil, "K", nil},
		{query, "a=b&api_key=K&x=%zz", nil, "K", nil},
		{query, "a=b;api_key=K", nil, "K", nil}, // Go omits it, others don't
		{query, "api_key=K;a=b", nil, "K", nil},
		{query, "api%5Fkey=%4B", nil, "K", nil},
		{query, "API_KEY=K", nil, "K", nil},
		{query, "api.key=K", nil, "K", nil}, // PHP reads api_key, also below
		{query, "api+key=K", nil, "K", nil},
		{query, "api_key[]=K", nil, "K", nil},
		{query, "api[key=K", nil, "K", nil},
		{query, "api%5Bkey=K", nil, "K", nil},
		{query, "api_key=K&api[key=L", nil, "", enforce.TwoKeys},
		{query, "api_key%00x=K", nil, "K", nil},
		{query, "+api_key=K+", nil, "K", nil},
		{query, "api_key=K%zz", nil, "", enforce.OddKey},
		{query, "api_key=%22K%22", nil, "", enforce.OddKey},
		{query, "api_key=K&api_key=K", nil, "", enforce.TwoKeys},
		{query, "api_key=K&api_key[]=L", nil, "", enforce.TwoKeys},
		{query, "api_keys=K&x=api_key=K&api_key", nil, "", nil},
		{query, "=api_key=K", nil, "K", nil}, // h3 and Nitro
		{query, "?api_key=K", nil, "K", nil},
		{query, "api_key=K&?api_key=L", nil, "", enforce.TwoKeys},
		{query, strings.Repeat("a=b&", 999) + "api_key=K", nil, "K", nil},
		{query, strings.Repeat("a=b&", 1000) + "api_key=K", nil, "", enforce.ManyPairs},

		{cookie, "", []string{"Cookie: a=b; key=K"}, "K", nil},
		{cookie, "", []string{`Cookie: key="K"`}, "K", nil},
		{cookie, "", []string{"Cookie: key=K; key=L"}, "", enforce.TwoKeys},
		{cookie, "", []string{"Cookie: key=K", "Cookie: key=L"}, "", enforce.TwoKeys},
		{cookie, "", []string{"Cookie: a=b, key=K"}, "K", nil},
		{cookie, "", []string{"Cookie: KEY[]=K"}, "K", nil},
		{cookie, "", []string{"Cookie: key=K%20"}, "", enforce.OddKey},

		{mixed, "", []string{"X-A: a", "X-B: b"}, "ab", nil},
		{mixed, "", []string{"X-A: a", "X-B: b "}, "ab", nil},

		{all, "key=K", nil, "K", nil},
		{all, "key=K", []string{"X-Api-Key: ", "Authorization: Bearer K"}, "K", nil},
		{all, "key=K", []string{"X-Api-Key: L"}, "", enforce.TwoKeys},
		{all, "key=", []string{"X-Api-Key: K", "Authorization: Bearer L"}, "", enforce.TwoKeys},
		{all, "", []string{"X-Api-Key: K", "Authorization: Basic L"}, "K", nil},
	} {
		got, err := findKey(t, c.from, c.query, c.fields...)
		if err != c.err || err == nil && got != c.key {
			t.Errorf("%+v: ?%s %q: %q, %v; want %q, %v", c.from, c.query, c.fields, got, err, c.key, c.err)
		}
	}
}

// hostilePairs are queries and cookies of 14 kB that took up to seconds to decode.
func hostilePairs() (all []string) {
	for _, unit := range []string{"%c0%a5", "\xc0\xa5", "%25", "%%32%35", "%u0025", "&", ";", "=", "a&", "a;", "%25=&", "%25=;", "a[=;", "%00=&", "api_ke%79=&", "key[=;", ",", "?"} {
		all = append(all, "%"+strings.Repeat(unit, 14<<10/len(unit)))
	}
	return all
}

func BenchmarkFindKeyOfHostileRequests(b *testing.B) {
	k := sourcesOf(b, &APIKeys{From: []KeySource{{Type: enforce.FromQuery, Name: "api_key"}, {Type: enforce.FromPlaceholder, Name: "{http.request.cookie.key}"}}})
	for _, text := range hostilePairs() {
		for place, r := range map[string]*http.Request{
			"query":  {URL: &url.URL{RawQuery: text}},
			"cookie": {URL: new(url.URL), Header: http.Header{"Cookie": {text}}},
		} {
			b.Run(place+"/"+url.QueryEscape(text[1:min(len(text), 9)]), func(b *testing.B) {
				fastest := time.Hour
				for b.Loop() {
					start := time.Now()
					k.Find(r, nil)
					fastest = min(fastest, time.Since(start))
				}
				b.ReportMetric(float64(fastest.Nanoseconds())/float64(len(text)), "ns/byte")
				b.ReportMetric(float64(fastest.Microseconds()), "fastest-µs")
			})
		}
	}
}

// For all requests, finding a key takes no longer than reading the request.
func FuzzFindKey(f *testing.F) {
	f.Add("api_key=K&x=%zz", "Bearer K", "a=b; key=K")
	f.Add("api_key[=K;;=&%00", "bearer", `key="`)
	from := func() []KeySource {
		return []KeySource{{Type: enforce.FromBearer}, {Type: enforce.FromQuery, Name: "api_key"}, {Type: enforce.FromPlaceholder, Name: "{http.request.cookie.key}"}}
	}
	f.Fuzz(func(t *testing.T, query, authorization, cookie string) {
		key, err := findKey(t, from(), query, "Authorization: "+authorization, "Cookie: "+cookie)
		if err == nil && key != "" && !httpfield.IsToken(key) {
			t.Errorf("%q is no token", key)
		}
	})
}

func sourcesOf(t testing.TB, k *APIKeys) *enforce.APIKeys {
	t.Helper()
	run := new(enforce.APIKeys)
	for i := range k.From {
		source, err := k.From[i].compile()
		if err != nil {
			t.Fatal(err)
		}
		run.From = append(run.From, source)
	}
	return run
}
