package caddytest

import (
	"cmp"
	"fmt"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-tally/caddy-tally/internal/testing/browser"
	"github.com/caddy-tally/caddy-tally/internal/testing/proof"
)

// siege is an attack on the site of a recipe: hundreds of networks of crawlers. Each network asks for
// one costly page, as a browser would. Meanwhile others come. The page of the recipe says in a table who
// passed.
type siege struct {
	recipe  string
	site    string
	address string                        // of the software, in the recipe
	backend func(*testing.T) http.Handler // nil: everything is answered with a page
	costly  []string                      // paths, in which {n} is a number
	least   int                           // networks without PROOF, above the limit
	others  []other
}

// other is somebody who comes while the crowd does.
type other struct {
	who  string // the first cell of the page's row
	come func(*besieged) string
}

// besieged is a recipe's Caddy that a crowd has found.
type besieged struct {
	*recipeServer
	siege
	came    int // networks of the crowd
	browser *browser.Browser
}

// The second cells of the rows.
const (
	passes  = "yes"
	solves  = "after the puzzle"
	refused = "no"
)

const chrome = "User-Agent: Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/150.0.0.0 Safari/537.36"

// besiegedConfig makes the window of a crowd's zone an hour, so that nothing depends on how long the others
// take, and puzzles quick. It adds the zone for crawlers that give their name, as the page ai-crawlers.md says.
func besiegedConfig(t *testing.T) func(string) string {
	_, crawlers, _ := strings.Cut(readSample(t, "../examples/recipes/ai-crawlers.Caddyfile"), "\t\tzone crawlers {")
	crawlers, _, ok := strings.Cut(crawlers, "\t\tzone ")
	if !ok {
		t.Fatal("the recipe for AI crawlers has no zone for them")
	}
	return func(text string) string {
		t.Helper()
		text = strings.Replace(text, "\t\tzone ", "\t\tzone crawlers {"+crawlers+"\t\tzone ", 1)
		window := regexp.MustCompile(`(per everyone\n\t+limit \d+)/1m(\n\t+on_exceeded challenge)`)
		if !window.MatchString(text) {
			t.Fatalf("no zone has a puzzle for everyone:\n%s", text)
		}
		text = window.ReplaceAllString(text, "$1/1h$2")
		return strings.Replace(text, "\t\tsession\n", "\t\tsession {\n\t\t\tchallenge proof_of_work 4\n\t\t}\n", 1)
	}
}

// A crowd gets no more pages than the zone for it allows, and meanwhile those pass who the page says.
func TestRecipesStopACrowd(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("builds a Caddy")
	}
	for _, c := range sieges {
		t.Run(c.recipe, func(t *testing.T) {
			t.Parallel()
			backend := http.Handler(http.HandlerFunc(answerPage))
			if c.backend != nil {
				backend = c.backend(t)
			}
			software := httptest.NewServer(backend)
			t.Cleanup(software.Close)
			b := &besieged{siege: c, recipeServer: startRecipe(t, recipe{
				name: c.recipe, running: map[string]string{c.address: software.Listener.Addr().String()}, edit: besiegedConfig(t),
			})}
			rows := []string{fmt.Sprintf("| 600 networks, as browsers, a costly page each | %d |", b.press(proof.Times(c.least, 600), c.costly))}
			for _, o := range c.others {
				rows = append(rows, fmt.Sprintf("| %s | %s |", o.who, o.come(b)))
			}
			page := readSample(t, "../docs/recipes/"+c.recipe+".md")
			if want := "\n" + strings.Join(rows, "\n") + "\n\n"; !strings.Contains(page, want) {
				t.Errorf("the page docs/recipes/%s.md lacks the rows%s", c.recipe, want)
			}
		})
	}
}

// press sends requests of n more networks for costly paths, and returns how many pass. All others must get
// the puzzle.
func (b *besieged) press(n int, costly []string) (passed int) {
	b.t.Helper()
	for range n {
		b.came++
		from := fmt.Sprintf("100.%d.%d.7", 64+b.came/250, 1+b.came%250) // each in a /24 of its own
		path := costly[b.came%len(costly)]
		a := b.ask(from, "GET "+path, chrome, "Accept: text/html,application/xhtml+xml", "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: document", "Sec-Fetch-Site: none")
		b.client(from).CloseIdleConnections()
		switch {
		case a.status == http.StatusOK:
			passed++
		case a.status != http.StatusTooManyRequests || !strings.Contains(a.body, "/.well-known/rate-limit/"):
			b.t.Fatalf("network %d of the crowd gets %d for %s: %.500s", b.came, a.status, path, a.body)
		}
	}
	return passed
}

// ask sends one request, whose line has a path.
func (b *besieged) ask(from, line string, fields ...string) answer {
	b.t.Helper()
	method, path, _ := strings.Cut(line, " ")
	r, err := requestOf(method+" https://"+b.site+path, fields, b.came)
	if err != nil {
		b.t.Fatal(err)
	}
	a, err := do(b.client(from), r)
	if err != nil {
		b.t.Fatal(err)
	}
	return a
}

// program is somebody who sends requests and can't solve a puzzle.
func program(who string, fields []string, lines ...string) other {
	return other{who, func(b *besieged) string {
		for _, line := range lines {
			if a := b.ask(person, line, fields...); a.status == http.StatusTooManyRequests {
				return refused
			} else if a.status >= 400 {
				b.t.Errorf("%s: %s is answered with %d: %.500s", who, line, a.status, a.body)
			}
		}
		return passes
	}}
}

// inBrowser is a person whose browser loads a page, in which script then is true.
func inBrowser(who, from, cookie, path, script string) other {
	return other{who, func(b *besieged) string {
		chromium := browser.Find(b.t)
		if b.browser == nil {
			b.browser = browser.Start(b.t, chromium)
		}
		_, port, _ := strings.Cut(b.forward(from, "443"), ":")
		p := b.browser.Open(b.t, browser.View{Width: 1280, Height: 900})
		address := "https://" + b.site + ":" + port
		if cookie != "" {
			p.Go(address + "/style.css") // what sets the cookie isn't looked at
			p.Eval("document.cookie = "+fmt.Sprintf("%q", cookie), nil)
		}
		p.Go(address + path)
		for loads := 0; ; loads++ {
			var there, solved bool
			if p.Eval(cmp.Or(script, "document.title === 'The page'"), &there); there {
				if p.Eval("'rateLimit' in sessionStorage", &solved); solved { // where puzzles note that they were
					return solves
				}
				return passes
			}
			if loads > 3 {
				return refused
			}
			p.Load(func() {})
		}
	}}
}

// answerPage answers with a page.
func answerPage(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/html")
	fmt.Fprint(w, "<!DOCTYPE html><title>The page</title><form method=post><input name=password><button>Sign in</button></form>")
}

// knownSearchEngine is a crawler of a search engine that DNS confirms.
func knownSearchEngine(line string) other {
	return other{"a search engine that its address confirms", func(b *besieged) string {
		for range 1000 { // the first ones come before the answer of the DNS
			if a := b.ask(crawlerAddress, line, "User-Agent: "+googlebot); a.status == http.StatusOK {
				return passes
			}
		}
		return refused
	}}
}

// withGit is somebody who runs a script of git, in which FRONT is the site.
func withGit(who, script string) other {
	return other{who, func(b *besieged) string {
		f := b.front(b.site, person)
		out, err := newWorkshop(b.t).try(strings.ReplaceAll(script, "FRONT", f.address))
		if f.refused.Load() > 0 {
			return refused
		}
		if err != nil || f.requests.Load() == 0 {
			b.t.Errorf("%s: %v: %s", who, err, out)
		}
		return passes
	}}
}

// forge answers for a forge: repositories by git's own server, and a page for everything else. It takes
// what Gitea takes for a password in the field Authorization.
func forge(t *testing.T) http.Handler {
	needs(t, "git")
	w := newWorkshop(t)
	backend := strings.TrimSpace(w.run("git --exec-path")) + "/git-http-backend"
	if _, err := os.Stat(backend); err != nil {
		t.Skip(err)
	}
	w.run(`git config --global init.defaultBranch main
mkdir -p repos/alice
git init -q --bare repos/alice/tool.git
git -C repos/alice/tool.git config http.receivepack true
git init -q tool
cd tool
echo a > file
git add file
git commit -qm first
git push -q ../repos/alice/tool.git main`)
	repos := &cgi.Handler{Path: backend, Env: []string{"GIT_PROJECT_ROOT=" + filepath.Join(w.dir, "repos"), "GIT_HTTP_EXPORT_ALL=1", "HOME=" + w.dir}}
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		_, secret, basic := r.BasicAuth()
		token := r.Header.Get("Authorization") == "token "+rightPassword || r.Header.Get("Authorization") == "Bearer "+rightPassword
		mustSign := strings.Contains(r.RequestURI, "git-receive-pack")
		switch {
		case r.Header.Get("Authorization") != "" && !token && secret != rightPassword, mustSign && !basic:
			rw.Header().Set("WWW-Authenticate", `Basic realm="Gitea"`)
			rw.WriteHeader(http.StatusUnauthorized)
		case strings.Contains(r.URL.Path, ".git/"):
			repos.ServeHTTP(rw, r)
		default:
			answerPage(rw, r)
		}
	})
}

const cloneAndPush = `git clone -q http://FRONT/alice/tool.git clone; git -C clone fetch -q
cd clone; echo new > file; git commit -qam new; git push -q http://alice:` + rightPassword + `@FRONT/alice/tool.git HEAD:more`

// What a browser without a session sends when somebody signs in.
var signsIn = []string{chrome, inForm, "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: document", "Sec-Fetch-Site: same-origin"}

var sieges = []siege{{
	recipe: "forgejo", site: "git.example.com", address: "127.0.0.1:3000", backend: forge, least: 140,
	costly: []string{
		"/alice/tool/blame/commit/{n}/main.go", "/alice/tool/commit/{n}", "/alice/tool/commits/commit/{n}/main.go", "/alice/tool/compare/{n}...main",
		"/alice/tool/src/commit/{n}/main.go", "/alice/tool/raw/commit/{n}/main.go", "/alice/tool/pulls/{n}/files", "/Alice/tool/Blame/commit/{n}/main.go",
		"/alice/tool/raw/blob/{n}", "/alice/tool/media/blob/{n}", "/alice/tool/blob_excerpt/{n}?path=main.go",
	},
	others: []other{
		inBrowser("a person in Chromium who isn't signed in", neighbor, "", "/alice/tool/blame/branch/main/main.go", ""),
		inBrowser("a person in Chromium who is signed in", "203.0.113.30", "i_like_gitea=0123456789abcdef; path=/; secure", "/alice/tool/commit/1", ""),
		program("signing in, without a session before", signsIn, "GET /user/login", "POST /user/login user_name=alice&password=wonderland"),
		withGit("`git clone`, `git fetch`, `git push`", cloneAndPush),
		program("a feed reader", []string{"User-Agent: FreshRSS/1.27"}, "GET /alice.rss", "GET /alice/tool.atom", "GET /alice/tool/releases.rss", "GET /alice/tool/rss/branch/main/main.go"),
		program("a CI with a token: commits, statuses, a runner", []string{"Authorization: token " + rightPassword, inJSON},
			"GET /api/v1/repos/alice/tool/commits/main/statuses", `POST /api/v1/repos/alice/tool/statuses/1 {"state":"success"}`, "GET /api/v1/repos/alice/tool/pulls/1/files",
			"POST /api/actions/runner.v1.RunnerService/FetchTask {}"),
		program("webhooks that come in, and pull mirrors", []string{inJSON, "X-Gitea-Signature: 00"}, "POST /api/v1/repos/alice/tool/push_mirrors-sync {}", "POST /alice/tool/hooks/1 {}"),
		program("package and container managers", []string{"User-Agent: docker/29.0"}, "GET /v2/", "GET /v2/alice/tool/manifests/latest", "GET /v2/alice/tool/blobs/sha256:{n}",
			"GET /api/packages/alice/npm/tool", "GET /api/packages/alice/debian/dists/stable/Release", "GET /alice/tool/releases/download/v1/tool.tar.gz", "GET /alice/tool/archive/v1.tar.gz"),
		program("a link preview", []string{"User-Agent: Mozilla/5.0 (compatible; Mattermost-Bot/1.1)"}, "GET /alice/tool", "GET /alice/tool/issues/1", "GET /alice/tool/releases"),
		knownSearchEngine("GET /alice/tool/commits/branch/main"),
		{"then 100 networks, an archive each, beside the one above", func(b *besieged) string {
			return fmt.Sprint(b.press(100, []string{"/alice/tool/archive/{n}.tar.gz", "/alice/tool/archive/{n}.bundle"}))
		}},
	},
}, {
	recipe: "git", site: "code.example.com", address: "127.0.0.1:3000", backend: forge, least: 140,
	costly: []string{
		"/tool/log/?ofs={n}", "/tool/commit/?id={n}", "/tool/diff/?id={n}", "/tool/blame/main.go?id={n}", "/tool/tree/?id={n}", "/tool/patch/?id={n}",
		"/alice/tool/-/commit/{n}", "/alice/tool/-/blame/{n}/main.go", "/alice/tool/-/commits/{n}", "/alice/tool/-/compare/{n}...main", "/alice/tool/-/merge_requests/{n}/diffs",
	},
	others: []other{
		inBrowser("a person in Chromium", neighbor, "", "/tool/log/", ""),
		inBrowser("a person in Chromium who is signed in", "203.0.113.30", "_gitlab_session=0123456789abcdef; path=/; secure", "/alice/tool/-/commits/main", ""),
		program("signing in, without a session before", signsIn, "GET /users/sign_in", "POST /users/sign_in user=alice&password=wonderland"),
		withGit("`git clone`, `git fetch`, `git push`", cloneAndPush),
		program("a feed reader", []string{"User-Agent: FreshRSS/1.27"}, "GET /tool/atom/", "GET /alice/tool/-/commits/main?format=atom", "GET /alice/tool.atom"),
		program("a CI with a token, and a runner", []string{"Authorization: Bearer " + rightPassword, inJSON}, "GET /api/v4/projects/1/repository/commits/main/statuses", "POST /api/v4/jobs/request {}"),
		program("webhooks that come in", []string{inJSON, "X-Gitlab-Token: a"}, "POST /api/v4/projects/1/mirror/pull {}"),
		program("package and container managers", []string{"User-Agent: docker/29.0"}, "GET /v2/", "GET /v2/alice/tool/manifests/latest", "GET /tool/snapshot/tool-1.tar.gz", "GET /alice/tool/-/archive/v1/tool-v1.tar.gz"),
		program("a link preview", []string{"User-Agent: Mozilla/5.0 (compatible; Mattermost-Bot/1.1)"}, "GET /alice/tool", "GET /tool/about/"),
		knownSearchEngine("GET /tool/log/"),
	},
}, {
	recipe: "wiki", site: "wiki.example.com", address: "127.0.0.1:8080", least: 140,
	costly: []string{
		"/w/index.php?title=Page&oldid={n}", "/w/index.php?title=Page&diff={n}", "/w/index.php?title=Page&action=history&offset={n}", "/wiki/Special:WhatLinksHere/Page{n}",
		"/wiki/Page?action=edit&section={n}", "/wiki/Page?oldid={n}", "/doku.php?id=page&rev={n}", "/page?do=revisions&first={n}", "/page{n}?do=diff", "/start?idx=a{n}",
		"/w/index.php/Page?oldid={n}", "/wiki/Page?search=word{n}", "/wiki/:Special:Search/{n}", "/wiki/_Special:Search/{n}", "/wiki/Special_:Search/{n}",
	},
	others: []other{
		inBrowser("a person in Chromium", neighbor, "", "/wiki/Page?action=history", ""),
		inBrowser("signing in, without a session before", "203.0.113.30", "", "/w/index.php?title=Special:UserLogin", ""),
		program("the form of somebody who opened it before the crowd came", signsIn, "POST /w/index.php?title=Special:UserLogin wpName=alice&wpPassword=wonderland", "POST /doku.php?do=login u=alice&p=wonderland"),
		program("a reader of pages, with pictures and styles", []string{chrome}, "GET /wiki/Page", "GET /wiki/Other", "GET /w/load.php?modules=startup&only=scripts", "GET /w/images/a.png", "GET /doku.php?id=page", "GET /lib/exe/css.php?t=dokuwiki"),
		program("a feed reader", []string{"User-Agent: FreshRSS/1.27"}, "GET /w/index.php?title=Special:RecentChanges&feed=atom", "GET /w/api.php?action=feedrecentchanges", "GET /feed.php?mode=recent"),
		program("a bot with a token, by the API", []string{"Authorization: Bearer " + rightPassword}, "GET /w/api.php?action=query&titles=Page", "POST /w/api.php action=edit"),
		program("the visual editor", []string{chrome}, "GET /w/api.php?action=visualeditor&page=Page", "GET /w/rest.php/v1/page/Page"),
		program("a link preview", []string{"User-Agent: facebookexternalhit/1.1"}, "GET /wiki/Page"),
		knownSearchEngine("GET /wiki/Special:AllPages"),
	},
}, {
	recipe: "wordpress", site: "blog.example.com", address: "127.0.0.1:8080", least: 80,
	costly: []string{"/?s=word{n}", "/search/word{n}", "/page/2/?s={n}", "/wp-json/wp/v2/posts?search={n}", "/?rest_route=/wp/v2/search&search={n}"},
	others: []other{
		inBrowser("a person in Chromium who searches", neighbor, "", "/?s=caddy", ""),
		program("signing in, without a session before", signsIn, "GET /wp-login.php", "POST /wp-login.php log=alice&pwd=wonderland"),
		program("a reader of pages", []string{chrome}, "GET /", "GET /?p=1", "GET /2026/11/a-post/", "GET /wp-content/uploads/a.jpg"),
		program("a feed reader", []string{"User-Agent: FreshRSS/1.27"}, "GET /feed/", "GET /comments/feed/"),
		program("webhooks of plugins, and the cron", []string{inJSON}, "POST /wp-json/wc/v3/hook {}", "POST /wp-cron.php?doing_wp_cron=1"),
		program("a link preview", []string{"User-Agent: facebookexternalhit/1.1"}, "GET /2026/11/a-post/", "GET /wp-json/oembed/1.0/embed?url=x"),
	},
}, {
	recipe: "shop", site: "shop.example.com", address: "127.0.0.1:8080", least: 140,
	costly: []string{"/shop/?filter_color=red&min_price={n}", "/product-category/chairs/?orderby=price&filter_size={n}", "/product/chair/?add-to-cart={n}", "/shop/page/{n}/?rating_filter=5", "/?s=chair{n}", "/search/chair{n}/"},
	others: []other{
		inBrowser("a person in Chromium who filters", neighbor, "", "/shop/?filter_color=blue", ""),
		program("a customer who comes from an advertisement, buys and pays", signsIn, "GET /product/chair/?utm_source=ad&gclid=x", "POST /product/chair/ add-to-cart=1", "GET /cart/", "POST /?wc-ajax=checkout a=b", "GET /checkout/order-received/1/?key=x"),
		program("signing in, without a session before", signsIn, "GET /my-account/", "POST /my-account/ username=alice&password=wonderland"),
		program("webhooks of payment services", []string{inJSON, "Stripe-Signature: t=1"}, "POST /?wc-api=wc_stripe {}", "POST /wp-json/wc/v3/hook {}"),
		program("a feed of products", []string{"User-Agent: FreshRSS/1.27"}, "GET /feed/?post_type=product", "GET /products.xml"),
		program("a link preview", []string{"User-Agent: facebookexternalhit/1.1"}, "GET /product/chair/"),
		knownSearchEngine("GET /shop/?filter_color=red"),
	},
}, {
	recipe: "mirror", site: "mirror.example.com", address: "127.0.0.1:8080", least: 320,
	costly: []string{"/debian/pool/main/{n}/", "/debian/dists/{n}/Contents-amd64.gz", "/images/{n}.iso"},
	others: []other{
		inBrowser("a person in Chromium", neighbor, "", "/debian/pool/main/", ""),
		program("apt, dnf, pip, docker, curl", []string{"User-Agent: Debian APT-HTTP/1.3 (3.0.3)", "Accept: */*"}, "GET /debian/dists/stable/InRelease", "GET /debian/pool/main/a/a_1.deb", "GET /fedora/repodata/repomd.xml", "GET /pypi/tool/json"),
		program("a mirror that copies this one", []string{"User-Agent: rclone/v1.70"}, "GET /debian/pool/main/a/", "GET /debian/pool/main/a/a_1.deb"),
		knownSearchEngine("GET /debian/"),
	},
}}

// Every recipe that has a table of who passes a crowd has an attack.
func TestCrowdsOfPagesAreTried(t *testing.T) {
	t.Parallel()
	for _, path := range glob(t, "../docs/recipes/*.md") {
		name := strings.TrimSuffix(filepath.Base(path), ".md")
		tried := slices.ContainsFunc(sieges, func(c siege) bool { return c.recipe == name })
		if says := strings.Contains(readSample(t, path), "\n## A crowd at the door\n"); says != tried {
			t.Errorf("%s: has a table of who passes a crowd: %v, the test has it: %v", path, says, tried)
		}
	}
}
