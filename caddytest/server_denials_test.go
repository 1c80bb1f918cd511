package caddytest

import (
	"encoding/json"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-tally/caddy-tally/identity/apikeys"
)

// A client that asks for problem details gets them for what is denied as well, past
// handle_errors, and others what the site says.
func TestDenialsAreProblemDetailsForThoseWhoAsk(t *testing.T) {
	t.Parallel()
	s := newServer(t, tiered("from header X-Api-Key", byKey), serviceToken)
	key := s.newKey("acme", "free")
	s.start()
	for _, tt := range []struct {
		status int
		detail string
		fields []string
	}{
		{http.StatusUnauthorized, "an API key is required", nil},
		{http.StatusForbidden, "the API key is not known", []string{"X-Api-Key: unknown"}},
		{http.StatusBadRequest, "the request has two API keys", []string{key, "X-Api-Key: other"}},
	} {
		a := s.get("/", append(tt.fields, "Accept: application/problem+json")...)
		var problem map[string]any
		if err := json.Unmarshal([]byte(a.body), &problem); err != nil {
			t.Errorf("status %d: the body is %q: %v", tt.status, a.body, err)
			continue
		}
		if a.status != tt.status || a.header.Get("Content-Type") != "application/problem+json" || a.header.Get("Content-Length") == "" ||
			problem["status"] != float64(tt.status) || problem["title"] != http.StatusText(tt.status) || problem["detail"] != tt.detail || problem["type"] != nil {
			t.Errorf("answered with %d %v %v, want %d %q", a.status, a.header, problem, tt.status, tt.detail)
		}
		if challenge := a.header.Get("WWW-Authenticate"); (challenge != "") != (tt.status == http.StatusUnauthorized) {
			t.Errorf("status %d with WWW-Authenticate %q", tt.status, challenge)
		}
		if a := s.get("/", append(tt.fields, "Accept: text/html")...); a.status != tt.status || strings.HasPrefix(a.body, "{") {
			t.Errorf("who doesn't ask is answered with %d %q", a.status, a.body)
		}
	}
	if a := s.send(http.MethodHead, "/", "Accept: application/problem+json"); a.status != http.StatusUnauthorized || a.body != "" {
		t.Errorf("HEAD is answered with %d %q", a.status, a.body)
	}
}

// A browser never shows a key when it asks whether a page may send a request. What else
// has no key, or claims to be something else, is denied.
func TestPreflightNeedsNoKey(t *testing.T) {
	t.Parallel()
	const origin, method = "Origin: https://a.test", "Access-Control-Request-Method: POST"
	for zone, counted := range map[string]bool{byKey: false, "per api_key\nlimit 2/1h": true} {
		s := startTiered(t, "from header X-Api-Key", zone)
		preflight := func(path string, fields ...string) int { return s.send(http.MethodOptions, path, fields...).status }
		for i := range 3 {
			want := http.StatusOK
			if counted && i == 2 {
				want = http.StatusTooManyRequests // by its address
			}
			if got := preflight("/", origin, method); got != want {
				t.Errorf("%q: preflight %d is answered with %d, want %d", zone, i, got, want)
			}
		}
		for name, got := range map[string]int{
			"no origin":       preflight("/", method),
			"no method":       preflight("/", origin),
			"an override":     preflight("/", origin, method, "X-HTTP-Method-Override: POST"),
			"another":         preflight("/", origin, method, "X-Method-Override: DELETE"),
			"in the query":    preflight("/?_method=POST", origin, method),
			"encoded":         preflight("/?_m%65thod=POST", origin, method),
			"two origins":     preflight("/", origin, origin, method),
			"another method":  s.send(http.MethodPost, "/", origin, method).status,
			"one with a body": s.sendBody(http.MethodOptions, "x", origin, method),
		} {
			if got != http.StatusUnauthorized {
				t.Errorf("%q: %s is answered with %d, want 401", zone, name, got)
			}
		}
	}
}

// sendBody sends a request with a body, and returns the status of the answer.
func (s *server) sendBody(method, body string, fields ...string) int {
	s.t.Helper()
	a, err := insist(func() (answer, error) {
		r, err := http.NewRequest(method, "http://127.0.0.1:"+s.port+"/", strings.NewReader(body))
		if err != nil {
			return answer{}, err
		}
		return do(s.client, r, fields...)
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return a.status
}

// A key of a tier that there is not would have the file rejected: the command asks the
// running Caddy before it writes anything.
func TestKeyCommandAsksForTheTier(t *testing.T) {
	t.Parallel()
	s := startTiered(t, "from header X-Api-Key", byKey)
	for _, where := range [][]string{{"--address", s.admin}, {"--config", s.config, "--adapter", "caddyfile"}} {
		out, err := s.run(append([]string{"rate-limit", "key", "new", "acme", "golden"}, where...)...)
		if err == nil || !strings.Contains(out, `there is no tier "golden" in the Caddy at `+s.admin+": write free, gold or internal") {
			t.Errorf("%q: error %v, says %q", where, err, out)
		}
		if _, err := os.Stat(s.keyFile()); err == nil {
			t.Errorf("%q: a key was made", where)
		}
	}
	if out, err := s.run("rate-limit", "key", "new", "acme", "gold", "--address", s.admin); err != nil || strings.Contains(out, "could be asked") {
		t.Errorf("a tier that there is: error %v, says %q", err, out)
	}
	if out, err := s.runByConfig("rate-limit", "key", "new", "acme", "gold"); err != nil || strings.Contains(out, "could be asked") {
		t.Errorf("by a config: error %v, says %q", err, out)
	}
	if out, err := s.run("rate-limit", "key", "new", "other", "golden", "--address", s.admin, "--force"); err != nil {
		t.Errorf("with --force: error %v, says %q", err, out)
	}
	s.stop()
	if out, err := s.run("rate-limit", "key", "new", "third", "any", "--address", s.admin); err != nil || !strings.Contains(out, "No running Caddy could be asked") {
		t.Errorf("without a Caddy: error %v, says %q", err, out)
	}
}

// Files that others may read or write lead to a warning, with what to do about it.
func TestFilesThatOthersMayReadAreWarnedOf(t *testing.T) {
	noData(t)
	if os.PathSeparator != '/' {
		t.Skip("files have no such modes here")
	}
	secret, keys := t.TempDir()+"/secret", t.TempDir()+"/keys"
	input := "{\n\trate_limit {\n\t\tsecret_file " + secret + "\n\t\ttier free {\n\t\t\tlimit 5/1m\n\t\t}\n\t\tapi_keys {\n\t\t\tfile " + keys + "\n\t\t}\n\t}\n}\n" + inZone("tiers")
	if err := os.WriteFile(secret, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := apikeys.New(keys, apikeys.Holder{Name: "acme", Tier: "free"}); err != nil {
		t.Fatal(err)
	}
	for mode, warned := range map[os.FileMode]bool{0o600: false, 0o640: false, 0o644: true, 0o660: true, 0o602: true} {
		for _, file := range []string{secret, keys} {
			if err := os.Chmod(file, mode); err != nil {
				t.Fatal(err)
			}
		}
		warnings, err := load(t, input)
		if err != nil {
			t.Fatal(err)
		}
		advice := make(map[string]string)
		for _, w := range warnings {
			if strings.Contains(w.Msg, "others on this machine") {
				advice[w.Write] = w.At
			}
		}
		for _, file := range []string{secret, keys} {
			if at, ok := advice["chmod g-w,o-rwx "+file]; ok != warned || ok && at != "Caddyfile:2" {
				t.Errorf("mode %#o: warned of %v", mode, advice)
			}
		}
	}
}

// A secret that is too short is told of when the config is validated, and not only by a Caddy that runs with it.
func TestSecretsThatAreTooShortAreWarnedOf(t *testing.T) {
	noData(t)
	for text, warned := range map[string]bool{"abcdefg\n": true, "": true, strings.Repeat("x", 32): false, strings.Repeat("x", 32) + "\nold\n": true} {
		secret := t.TempDir() + "/secret"
		if err := os.WriteFile(secret, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		warnings, err := load(t, "{\n\trate_limit {\n\t\tsecret_file "+secret+"\n\t}\n}\n"+inZone("limit 50/1m"))
		if err != nil {
			t.Fatal(err)
		}
		got := slices.ContainsFunc(warnings, func(w warning) bool {
			return strings.Contains(w.Msg, "secret_file: ") && strings.Contains(w.Msg, "expected at least 32") && w.At == "Caddyfile:2"
		})
		if got != warned {
			t.Errorf("a secret file with %q: warned is %v: %v", text, got, warnings)
		}
	}
}
