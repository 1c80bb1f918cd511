package enforce

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

func TestHostKey(t *testing.T) {
	for host, want := range map[string]string{
		"example.com": "example.com", "EXAMPLE.com": "example.com", "example.com.": "example.com", "example.com..": "example.com",
		"Example.COM.:80": "example.com", "example.com:": "example.com", "example.com::1": "example.com",
		"192.0.2.1": "192.0.2.1", "192.0.2.1:80": "192.0.2.1",
		"::1": "::1", "[::1]": "::1", "[::1]:80": "::1", "[0:0::1]": "::1", "[x]:1": "x", "[": "", "": "", ".": "", ":80": "",
	} {
		if got := hostKey(host); got != want {
			t.Errorf("%q is %q, want %q", host, got, want)
		}
	}
}

func FuzzHostKey(f *testing.F) {
	f.Add("Example.com.:80")
	f.Add("[[::1]]]")
	f.Fuzz(func(t *testing.T, host string) {
		if once := hostKey(host); hostKey(once) != once {
			t.Errorf("%q is %q, and that is %q", host, once, hostKey(once))
		}
	})
}

func TestHostLabel(t *testing.T) {
	for nth, want := range map[string]string{"0": "com", "1": "example", "2": "a", "3": "", "-1": "", "x": ""} {
		for _, host := range []string{"a.example.com", "A.Example.com.:443"} {
			if got := hostLabel(host, nth); got != want {
				t.Errorf("label %s of %s is %q, want %q", nth, host, got, want)
			}
		}
	}
}

// Spellings of one host or header field share one count, and different hosts have different counts.
func TestKeysHaveOneSpelling(t *testing.T) {
	for key, requests := range map[string][]*http.Request{
		"{http.request.host}":          {{Host: "a.example.com"}, {Host: "A.example.com."}, {Host: "a.EXAMPLE.com.:81"}, {Host: "b.example.com"}},
		"{http.request.host.labels.2}": {{Host: "a.example.com"}, {Host: "A.example.com."}, {Host: "a.example.net"}, {Host: "b.example.com"}},
		"t {http.request.header.X-Tenant}": {
			{Header: http.Header{"X-Tenant": {"a"}}}, {Header: http.Header{"X-Tenant": {"a "}}}, {Header: http.Header{"X-Tenant": {"\ta"}}}, {Header: http.Header{"X-Tenant": {"b"}}},
		},
	} {
		z := &Zone{Key: key, OneSpelling: NeedsOneSpelling(key)}
		var texts []string
		for _, r := range requests {
			r.URL = new(url.URL)
			e := newEvaluation(caddyhttp.PrepareRequest(r, caddy.NewReplacer(), httptest.NewRecorder(), new(caddyhttp.Server)))
			texts = append(texts, z.keyText(e))
			e.Release()
		}
		if texts[0] != texts[1] || texts[0] != texts[2] || texts[0] == texts[3] {
			t.Errorf("%s is %q, want the same three times, and another", key, texts)
		}
	}
}
