package caddytest

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// cacheable are ways to let caches store a site's pages: those of the first kind Caddy does when an
// answer is written, after our handler.
var cacheable = map[string]string{
	"a removed field":     "header {\n-Server\nCache-Control \"public, max-age=600\"\nAccess-Control-Allow-Origin *\n}",
	"defer":               "header {\ndefer\nCache-Control \"public, max-age=600\"\nAccess-Control-Allow-Origin *\n}",
	"a later value":       "header {\n>Cache-Control \"public, max-age=600\"\nAccess-Control-Allow-Origin *\n}",
	"a default":           "header ?Cache-Control \"public, max-age=600\"\nheader Access-Control-Allow-Origin *",
	"for CDNs":            "header {\n-Server\nCDN-Cache-Control \"max-age=600\"\nSurrogate-Control \"max-age=600\"\nExpires \"Tue, 01 Jan 2030 00:00:01 GMT\"\nX-Accel-Expires 600\nAccess-Control-Allow-Origin *\n}",
	"two header":          "header {\n-Server\nCache-Control \"public, max-age=600\"\n}\nheader {\n-X\nCDN-Cache-Control \"max-age=600\"\nAccess-Control-Allow-Origin *\n}",
	"at once":             "header {\nCache-Control \"public, max-age=600\"\nAccess-Control-Allow-Origin *\n}",
	"with an access log":  "log\nheader {\n-Server\nCache-Control \"public, max-age=600\"\nAccess-Control-Allow-Origin *\n}",
	"with compression":    "encode {\nminimum_length 1\n}\nheader {\n-Server\nCache-Control \"public, max-age=600\"\nAccess-Control-Allow-Origin *\n}",
	"another's own error": "header {\n-Server\nCache-Control \"public, max-age=600\"\nAccess-Control-Allow-Origin *\n}\nhandle_errors 404 {\nrespond \"not found\" 404\n}",
}

// wantPrivate reports an answer that a cache may store.
func wantPrivate(t *testing.T, what string, a answer) {
	t.Helper()
	for field, values := range a.header {
		if strings.HasSuffix(field, "Cache-Control") || strings.HasPrefix(field, "Surrogate-") {
			if len(values) != 1 || values[0] != "no-store" {
				t.Errorf("%s: status %d with %s %q", what, a.status, field, values)
			}
		}
	}
	if a.header.Get("Cache-Control") == "" || a.header.Get("Expires") != "" || strings.Trim(a.header.Get("X-Accel-Expires"), "0") != "" {
		t.Errorf("%s: status %d with %v", what, a.status, a.header)
	}
}

// What a site says about caches is about its pages, also if Caddy says it after our handler; its
// other header fields are those of a refusal, too.
func TestCachesStoreNoAnswerOfOurs(t *testing.T) {
	t.Parallel()
	sites := make(map[string]string)
	for name, header := range cacheable {
		sites[name] = site(header + `
			handle_path /board/* {
				rate_limit_dashboard {
					allow remote_ip 127.0.0.1
				}
			}
			rate_limit {
				zone z {
					match /limited*
					limit 1/1h
				}
				zone never {
					match /never
					limit 1/1h
					cost 2
				}
			}
			respond hello`)
	}
	eachSite(t, "rate_limit {\nstore_timeout 1m\nsession\n}\norder rate_limit_dashboard first\n", sites, func(t *testing.T, s *server, name string) {
		page := s.get("/limited")
		if stored := fmt.Sprint(page.header); !strings.Contains(stored, "600") {
			t.Errorf("%s: a page is answered with %s", name, stored)
		}
		for path, want := range map[string]int{"/limited": 429, "/never": 403, "/.well-known/rate-limit/": 200, "/board/": 200, "/board/style.css": 200, "/board/none": 404} {
			for _, accept := range []string{"*/*", "application/json", "application/problem+json", "text/html"} {
				a := s.get(path, "Accept: "+accept, "Origin: https://a.test")
				what := name + " " + path + " " + accept
				if a.status != want && !strings.HasPrefix(path, "/.well") {
					t.Errorf("%s: status %d, want %d", what, a.status, want)
				}
				wantPrivate(t, what, a)
				if a.header.Get("Access-Control-Allow-Origin") != "*" || a.body == "" {
					t.Errorf("%s: %d %q, %v", what, a.status, a.body, a.header)
				}
			}
		}
	})
}

// The answer to a refused request is the same whether or not another site of the server has error
// routes.
func TestRefusalsDontDependOnNeighbors(t *testing.T) {
	t.Parallel()
	const header = "header {\n-Server\nAccess-Control-Allow-Origin *\n}\n"
	s := startCaddy(t, options(patient)+site(header+"rate_limit {\nzone z {\nlimit 1/1h\n}\n}\nrespond hello")+
		"\nhttp://neighbor.test:{$PORT} {\nrespond hi\nhandle_errors {\nrespond neighbor\n}\n}\n")
	s.wantPassed(1, 1, "/")
	if a := s.get("/"); a.status != 429 || a.header.Get("Access-Control-Allow-Origin") != "*" || a.body != "Too Many Requests\n" {
		t.Errorf("got %d %q %v", a.status, a.body, a.header)
	}
}

// An upstream that answers errors has no say about limits or caches.
func TestErrorRoutesKeepOurFields(t *testing.T) {
	t.Parallel()
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for field, value := range map[string]string{"Retry-After": "1", "RateLimit": `"x";r=9`, "RateLimit-Policy": `"x";q=9`, "Cache-Control": "public, max-age=600"} {
			w.Header().Set(field, value)
		}
		fmt.Fprint(w, "sorry")
	}))
	defer upstream.Close()
	sites := make(map[string]string)
	for name, answers := range map[string]string{
		"a proxy":           "reverse_proxy " + upstream.Listener.Addr().String(),
		"a proxy, relayed":  "reverse_proxy " + upstream.Listener.Addr().String() + " {\nhandle_response {\ncopy_response_headers\ncopy_response\n}\n}",
		"header":            "header Retry-After 1\nheader Cache-Control \"public, max-age=600\"\nrespond sorry",
		"a deferred header": "header {\n-Server\n+Retry-After 1\n+RateLimit x\nCache-Control \"public, max-age=600\"\n}\nrespond sorry",
	} {
		sites[name] = site("rate_limit {\nzone z {\nmatch /limited\nlimit 1/1h\n}\n}\nroute /limited {\nerror 404\n}\nrespond hello\nhandle_errors {\n" + answers + "\n}")
	}
	eachSite(t, patient, sites, func(t *testing.T, s *server, name string) {
		s.get("/limited")
		a := s.get("/limited")
		for _, field := range []string{"Retry-After", "Ratelimit", "Ratelimit-Policy", "Cache-Control"} {
			if values := a.header[field]; len(values) != 1 || values[0] == "1" || strings.Contains(values[0], "x") {
				t.Errorf("%s: %s is %q", name, field, values)
			}
		}
		if a.body != "sorry" {
			t.Errorf("%s: %d %q", name, a.status, a.body)
		}
	})
}

// A real cache in front passes each client's refusal to this client only.
func TestCachesInFrontStoreNoRefusal(t *testing.T) {
	t.Parallel()
	caches := map[string]func(*testing.T, string, string) (string, []string){
		"/usr/sbin/nginx": func(t *testing.T, port, behind string) (string, []string) {
			dir := t.TempDir()
			conf := filepath.Join(dir, "nginx.conf")
			paths := ""
			for _, kind := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
				paths += fmt.Sprintf("%s_temp_path %s/%s;\n", kind, dir, kind)
			}
			text := fmt.Sprintf("daemon off;\nuser root;\npid %s/pid;\nerror_log %s/error.log;\nevents {}\nhttp {\naccess_log off;\n%sproxy_cache_path %s/cache keys_zone=c:1m;\nserver {\nlisten 127.0.0.1:%s;\nlocation / {\nproxy_cache c;\nproxy_cache_valid any 10m;\nproxy_set_header X-Forwarded-For $http_x_client;\nproxy_pass http://127.0.0.1:%s;\n}\n}\n}\n", dir, dir, paths, dir, port, behind)
			if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			return "/usr/sbin/nginx", []string{"-p", dir, "-c", conf, "-e", dir + "/error.log"}
		},
		"/usr/sbin/varnishd": func(t *testing.T, port, behind string) (string, []string) {
			return "/usr/sbin/varnishd", []string{"-F", "-n", t.TempDir(), "-a", "127.0.0.1:" + port, "-b", "127.0.0.1:" + behind, "-s", "malloc,16m"}
		},
	}
	for program, command := range caches {
		if _, err := os.Stat(program); err != nil {
			t.Logf("not tried: %v", err)
			continue
		}
		s := startCaddy(t, options(patient)+site("header {\n-Server\nCache-Control \"public, max-age=600\"\n}\nrate_limit {\nzone z {\nmatch /limited*\nkey {header.X-Client}\nlimit 1/1h\n}\n}\nrespond \"hello {header.X-Client}\""))
		port := freePort(t)
		name, args := command(t, port, s.port)
		cache := &upstream{name: filepath.Base(program)}
		cache.run(t, t.TempDir(), port, nil, name, args...)
		cache.await(t)
		get := func(path, client string) answer {
			a, err := insist(func() (answer, error) {
				r, err := http.NewRequest(http.MethodGet, "http://127.0.0.1:"+port+path, nil)
				if err != nil {
					return answer{}, err
				}
				return do(s.client, r, "X-Client: "+client)
			})
			if err != nil {
				t.Fatal(err)
			}
			return a
		}
		get("/limited?warm", "attacker")
		if a := get("/limited?page", "attacker"); a.status != 429 {
			t.Errorf("%s: the attacker gets %d", program, a.status)
		}
		if a := get("/limited?page", "visitor"); a.status != 200 || a.body != "hello visitor" {
			t.Errorf("%s: a visitor gets the attacker's %d %q", program, a.status, a.body)
		}
		if get("/page", "one"); get("/page", "two").body != "hello one" {
			t.Errorf("%s stores nothing at all", program)
		}
	}
}
