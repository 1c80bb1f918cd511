package caddytest

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"
)

// Directives that rewrite a request run before rate_limit: what was sent is counted
// all the same, and freed only if it is exempt, too.
func TestRewrittenRequestsAreCountedAsTheyWereSent(t *testing.T) {
	t.Parallel()
	docroot := t.TempDir()
	if err := os.WriteFile(filepath.Join(docroot, "index.php"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	zones := 0
	login := func(match string) string {
		zones++ // those of one name count together
		return fmt.Sprintf("rate_limit {\nexempt /static/*\nzone login%d {\nmatch %s\nper everyone\nlimit 1/1h\n}\n}\n", zones, match)
	}
	tests := map[string]struct{ site, target string }{
		"rewrite":                  {"rewrite * /index.php\n" + login("POST /login"), "/login"},
		"rewrite to what's exempt": {"rewrite * /static/x.css\n" + login("POST /login"), "/login"},
		"try_files":                {"root " + docroot + "\ntry_files {path} /index.php\n" + login("POST /login"), "/login"},
		"uri strip_prefix, sent":   {"uri strip_prefix /api\n" + login("POST /api/login"), "/api/login"},
		"uri strip_prefix, left":   {"uri strip_prefix /api\n" + login("POST /login"), "/api/login"},
		"uri query":                {"uri query -mode\n" + login("/search mode=heavy"), "/search?mode=heavy"},
		"method":                   {"method GET\n" + login("POST /login"), "/login"},
		"handle_path, sent":        {"handle_path /app/* {\n" + login("POST /app/login") + "respond hello\n}\n", "/app/login"},
		"handle_path, left":        {"handle_path /app/* {\n" + login("POST /login") + "respond hello\n}\n", "/app/login"},
	}
	config := options(patient)
	ports := make(map[string]string)
	for name, test := range tests {
		ports[name] = freePort(t)
		config += "http://:" + ports[name] + " {\n" + test.site + "respond hello\n}\n"
	}
	startCaddy(t, config)
	for name, test := range tests {
		for _, want := range []int{http.StatusOK, http.StatusTooManyRequests} {
			r, err := http.NewRequest(http.MethodPost, "http://127.0.0.1:"+ports[name]+test.target, nil)
			if err != nil {
				t.Fatal(err)
			}
			if got, err := do(http.DefaultClient, r); err != nil || got.status != want {
				t.Errorf("%s: %s is answered with %d, want %d (%v)", name, test.target, got.status, want, err)
			}
		}
	}
}
