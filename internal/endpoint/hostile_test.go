package endpoint

import (
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"
)

// hostileUnits are the parts of hostile requests: they need decoding in rounds, splitting in pairs,
// resolving, or look like a script.
var hostileUnits = []string{
	"%c0%a5", "\xc0\xa5", "%c0%a5c0%a5", "%\xc0\xa5c0", "%25", "%2525", "%%32%35", "%u0025", "%u00%32%35", "%u00c0", "%ef%bc%85", "％２５", "%e0%80%a5", "%f0%80%80%a5", "%c8%ba", "\xff",
	";", "&", "?", "=", "&&;", "a&", "a=&", "=a&", "_method&", "mode=%68&", "mode=x&", "%25=&", "a[=&", "a%00=b%00&", "%6d=?", "a;b/", "+", "%20", "%00", "#",
	"/", "/..", "../", "..%2f", "/a/..", "%2f", "\\", "//", "/.", ".", "....", ".php/", "/a.php", ".a", ".css", ".css/", ".a/", "a.php/..;", "/(S(x))", "(x(", "a", "aa/b", "login/", "/login", "mode", "/%2e%2e;/",
	"heavy", "mode=heavy,", "POST,", ", x",
}

// keptIn keeps the readings of one request.
type keptIn struct{ kept *Readings }

func (k keptIn) Readings() *Readings { return k.kept }

// hostileRequests are requests with a text in each place where a client can write.
func hostileRequests(text string) map[string]*Request {
	short := text[:min(len(text), maxPath-1)]
	raw := "/" + short[:max(0, len(short)-2)]
	field := map[string][]string{}
	for _, name := range overrideFields {
		field[name] = []string{text}
	}
	return map[string]*Request{
		"path":     {Method: "POST", Path: "/" + short, RawPath: raw},
		"longPath": {Method: "POST", Path: "/" + text, RawPath: "/" + text},
		"query":    {Method: "GET", Path: "/login", Query: text[:min(len(text), maxQuery)]},
		"asked":    {Method: "GET", Path: "/login", Query: ("?" + text)[:min(len(text), maxQuery)]},
		"longest":  {Method: "GET", Path: "/login", Query: text},
		"field":    {Method: "GET", Path: "/login", Header: field},
		"fields":   {Method: "GET", Path: "/login", Header: map[string][]string{overrideFields[0]: slices.Repeat([]string{text[:1]}, len(text)/len("X-HTTP-Method:a\r\n"))}},
	}
}

func hostileText(unit string, size int) string {
	return strings.Repeat(unit, size/len(unit)+1)[:size]
}

// Reading is linear in the length of a request, counted in steps, and done once for all endpoints.
// It took as many rounds over the text as its deepest encoding.
func TestHostileRequestIsReadOnceInFewSteps(t *testing.T) {
	endpoints := hostileEndpoints(t)
	for _, unit := range hostileUnits {
		for name, r := range hostileRequests("%" + hostileText(unit, 14<<10)) {
			checkSteps(t, unit+" in "+name, r, endpoints)
		}
	}
}

// stepsPerByte bounds the steps for a byte of a request: a path is read in several ways.
const stepsPerByte = 60

func checkSteps(t *testing.T, name string, r *Request, endpoints []*Endpoint) {
	t.Helper()
	var kept Readings
	for _, e := range endpoints {
		q := *r
		q.Memory = keptIn{&kept}
		e.Covers(&q)
		e.Names(&q)
		e.Is(&q)
		q.HasCanonicalQuery()
	}
	if kept.recent[0] != nil && kept.recent[1] != nil {
		t.Errorf("%q is read twice", name)
	}
	for _, read := range kept.recent {
		if size := len(r.Path) + len(r.RawPath) + len(r.Query); read != nil && read.decoder.work > stepsPerByte*(size+1) {
			t.Errorf("%q takes %d steps for %d bytes", name, read.decoder.work, size)
		}
	}
}

func hostileEndpoints(t testing.TB) []*Endpoint {
	heavy := map[string]string{"mode": "heavy", "q": "*", "x": "a*b*c"}
	return []*Endpoint{
		mustNew(t, []string{"POST"}, "/login", heavy), mustNew(t, []string{"PUT"}, "/login", nil), mustNew(t, nil, "/api/*", heavy), mustNew(t, nil, "/*.php", heavy), mustNew(t, nil, "/a.php", heavy),
		mustNew(t, nil, "/*a*a/*b", nil), mustNew(t, []string{"DELETE"}, "/", heavy), mustNew(t, nil, "/"+strings.Repeat("*a", 100), nil), mustNew(t, []string{"DELETE"}, "/*", heavy),
	}
}

// FuzzSteps looks for requests that take more steps than their length allows.
func FuzzSteps(f *testing.F) {
	endpoints := hostileEndpoints(f)
	for _, unit := range hostileUnits {
		f.Add("%", unit, "/", "")
		f.Add("/..;/", unit, "?", unit)
	}
	f.Fuzz(func(t *testing.T, before, unit, after, other string) {
		if unit == "" {
			return
		}
		text := before + hostileText(unit, 2000) + after + other
		for name, r := range hostileRequests(text) {
			checkSteps(t, name, r, endpoints)
		}
	})
}

// BenchmarkHostile reads 14 kB of each kind in each place, for one endpoint. On a busy machine the
// fastest run is the most informative.
func BenchmarkHostile(b *testing.B) {
	const size = 14 << 10
	e := mustNew(b, []string{"POST"}, "/login", map[string]string{"mode": "heavy"})
	for _, unit := range hostileUnits {
		for name, r := range hostileRequests("%" + hostileText(unit, size-1)) {
			b.Run(name+"/"+url.QueryEscape(unit), func(b *testing.B) {
				fastest := time.Hour
				for b.Loop() {
					start := time.Now()
					q := *r
					q.Memory = keptIn{new(Readings)}
					e.Covers(&q)
					e.Is(&q)
					q.HasCanonicalQuery()
					fastest = min(fastest, time.Since(start))
				}
				b.ReportMetric(float64(fastest.Nanoseconds())/size, "ns/byte")
				b.ReportMetric(float64(fastest.Microseconds()), "fastest-µs")
			})
		}
	}
}
