package caddytest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddy-tally/caddy-tally/internal/testing/proof"
	"github.com/caddy-tally/caddy-tally/internal/testing/testserver"
)

// wordPressFolder is where Debian has WordPress.
const wordPressFolder = "/usr/share/wordpress"

// asForm and asJSON say what a body is.
const (
	asForm = "Content-Type: application/x-www-form-urlencoded"
	asJSON = "Content-Type: application/json"
)

// wordPressWork are requests that WordPress searches or lists users for, each as the zones
// that may count it.
var wordPressWork = map[string][][]string{
	"wp_search": {
		{"GET /?s=x"}, {"HEAD /?s=x"}, {"GET /index.php?s=x"}, {"GET /hello-world/?s=x"}, {"GET /feed/?s=x"}, {"GET /?p=1&s=x"},
		{"GET /?%73=x"}, {"GET /?+s=x"}, {"GET /?s%00y=x"}, {"GET /??s=x"},
		{"GET /search/x"}, {"GET /search/x/"}, {"GET /search/x/feed/"}, {"GET /search/x/page/2/"},
		{"GET //search/x"}, {"GET /search//x"}, {"GET /%73earch/x"}, {"GET /search%2Fx"}, {"GET /a/../search/x"}, {"GET /index.php/search/x"},
		{"GET /wp-json/wp/v2/users"}, {"GET /wp-json/wp/v2/users/"}, {"GET /wp-json/WP/v2/USERS"}, {"GET /wp-json/wp/v2//users"},
		{"GET /wp-json/wp/v2/%75sers"}, {"GET /index.php/wp-json/wp/v2/users"}, {"PUT /wp-json/wp/v2/users?_method=GET"},
		{"GET /?rest_route=/wp/v2/users"}, {"GET /?rest_route=/WP/v2/Users/"}, {"GET /?rest_route=/wp/v2/users//"}, {"GET /?rest_route=%2Fwp%2Fv2%2Fusers"},
		{"GET /?rest_route=/wp/v2/%75sers"}, {"GET /?rest%5Froute=/wp/v2/users"}, {"GET /?rest.route=/wp/v2/users"}, {"GET /?rest+route=/wp/v2/users"}, {"GET /wp-json/?rest_route=/wp/v2/users"},
		{"GET /?rest_route=/wp/v2/search&search=x&type=term"}, {"GET /wp-json/wp/v2/search?search=x"},
		{"GET /wp-json/wp/v2/posts?search=x"}, {"GET /wp-json/wp/v2/pages?search=x"}, {"GET /wp-json/wp/v2/tags?search=x"},
		{"GET /wp-json/wp/v2/comments?search=x"}, {"GET /?rest_route=/wp/v2/posts&search=x"},
	},
	"wp_body": {
		{"POST / s=x", asForm}, {"POST /hello-world/ s=x", asForm}, {"POST /nothing/here s=x", asForm}, {"POST /wp-trackback.php s=x", asForm},
		{"POST /?_method=GET rest_route=/wp/v2/users", asForm}, {"POST / rest_route=/wp/v2/users", asForm, "X-HTTP-Method-Override: GET"},
		{`GET /wp-json/wp/v2/posts {"search":"x"}`, asJSON}, {`PUT /wp-json/wp/v2/posts?_method=GET {"search":"x"}`, asJSON},
		{`GET /?rest_route=/wp/v2/posts {"search":"x"}`, asJSON},
	},
}

// wordPressReading are requests of readers and of a page that stays open, which cost nothing.
var wordPressReading = []string{
	"GET /", "GET /hello-world/", "GET /?p=1", "GET /feed/", "GET /author/admin/", "GET /category/uncategorized/",
	"GET /wp-includes/js/jquery/jquery.min.js?ver=3.6.1", "GET /wp-login.php",
	"POST /wp-admin/admin-ajax.php action=heartbeat",
}

// The recipe for WordPress missed searches by `/search/…`, in a body and by its API, and lists of
// users by `?rest_route=`. Whatever the real one searches or lists for is counted.
func TestWordPressRecipeCountsAllSearches(t *testing.T) {
	t.Parallel()
	proof.Only(t)
	s := startRecipe(t, recipe{name: "wordpress", running: map[string]string{"127.0.0.1:8080": startWordPress(t)}})
	clients := 0
	ask := func(line string, fields ...string) (work, counted string) {
		t.Helper()
		clients++ // each has limits of its own
		r, err := requestOf(strings.Replace(line, " ", " https://blog.example.com", 1), fields, 0)
		if err != nil {
			t.Fatal(err)
		}
		a, err := do(s.client(fmt.Sprintf("198.18.0.%d", clients)), r)
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		return a.header.Get("X-Work"), a.header.Get("RateLimit-Policy")
	}
	for zone, requests := range wordPressWork {
		for _, r := range requests {
			if work, counted := ask(r[0], r[1:]...); work == "" {
				t.Errorf("%s %s: WordPress does nothing for it", r[0], r[1:])
			} else if !strings.Contains(counted, `"`+zone) {
				t.Errorf("%s %s: WordPress does %q, and the limits that count it are %q, want %s", r[0], r[1:], work, counted, zone)
			}
		}
	}
	for _, line := range wordPressReading {
		if work, counted := ask(line, asForm); work != "" || counted != "" {
			t.Errorf("%s: WordPress does %q, and it counts as %q", line, work, counted)
		}
	}
}

// startWordPress installs WordPress on a MariaDB of its own, and returns where it listens.
func startWordPress(t *testing.T) string {
	t.Helper()
	php, err := exec.LookPath("php")
	if err != nil {
		t.Skip("php is missing")
	}
	if out, err := exec.Command(php, "-r", "exit(extension_loaded('mysqli') ? 0 : 1);").CombinedOutput(); err != nil {
		t.Skipf("php can't ask a MariaDB: %s", out)
	}
	if _, err := os.Stat(wordPressFolder); err != nil {
		t.Skip(err)
	}
	db, err := testserver.MariaDB()
	if errors.Is(err, testserver.ErrMissing) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	site := copyWordPress(t)
	env := []string{"DB_HOST=" + db.Address(), "DB_USER=" + testserver.User, "DB_PASSWORD=" + testserver.Password}
	install := exec.Command(php, filepath.Join(site, "install.php"))
	install.Env = append(os.Environ(), env...)
	if out, err := install.CombinedOutput(); err != nil || len(out) > 0 {
		t.Fatalf("installing WordPress: %v: %s", err, out)
	}
	port := freePort(t)
	server := &upstream{name: "wordpress"}
	server.run(t, site, port, env, php, "-q", "-S", "127.0.0.1:"+port)
	server.await(t)
	return "127.0.0.1:" + port
}

// copyWordPress returns a folder with WordPress, the config of the test, a theme that shows nothing
// and a plugin that says in X-Work what is done.
func copyWordPress(t *testing.T) string {
	t.Helper()
	site := filepath.Join(t.TempDir(), "site")
	if out, err := exec.Command("cp", "-r", wordPressFolder, site).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	const ours = "testdata/wordpress"
	for to, from := range map[string]string{"wp-config.php": "wp-config.php", "install.php": "install.php", "wp-content": "mu-plugins", "wp-content/themes": "plain"} {
		if out, err := exec.Command("cp", "-r", filepath.Join(ours, from), filepath.Join(site, to)).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	return site
}
