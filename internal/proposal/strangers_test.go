package proposal_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/testing/proof"
)

// logOf is an access log in the making.
type logOf struct {
	strings.Builder
	at     time.Time
	random *rand.Rand
}

func newLog(seed uint64) *logOf {
	return &logOf{at: time.Date(2026, 11, 1, 8, 0, 0, 0, time.UTC), random: rand.New(rand.NewPCG(52, seed))}
}

func (l *logOf) add(host, from, method, uri string, status int, fields string) {
	fmt.Fprintf(l, `{"ts":%d.%03d,"logger":"http.log.access","request":{"remote_ip":%q,"client_ip":%[3]q,"proto":"HTTP/2.0","method":%q,"host":%q,"uri":%q,"headers":{%s},"tls":{"server_name":%[5]q}},"duration":0.01,"size":100,"status":%[8]d}`+"\n",
		l.at.Unix(), l.at.Nanosecond()/1e6, from, method, host, uri, fields, status)
}

func (l *logOf) wait(most time.Duration) {
	l.at = l.at.Add(time.Duration(l.random.Int64N(int64(most))))
}

// People visit a site: n of them, of as many networks.
func (l *logOf) people(host string, n int, pages []string, signIn string) {
	for visit := range 3 * n {
		person := fmt.Sprintf("%d.%d.3.4", 20+visit%n, visit%n)
		l.wait(2 * time.Minute)
		for range 2 + l.random.IntN(14) {
			l.wait(time.Second)
			l.add(host, person, "GET", fmt.Sprintf(pages[l.random.IntN(len(pages))], l.random.IntN(100)), 200, `"User-Agent":["Mozilla/5.0"]`)
		}
		if visit < n/2 {
			l.add(host, person, "POST", signIn, []int{302, 302, 302, 401}[l.random.IntN(4)], "")
		}
	}
}

// strangers write lines of one to 200 addresses of few networks, after those of people.
var strangers = map[string]func(l *logOf, host string, from func(n int) string){
	"a path that nobody can write": func(l *logOf, host string, from func(int) string) { l.add(host, from(0), "POST", "//login", 302, "") },
	"sign-ins of other programs": func(l *logOf, host string, from func(int) string) {
		for i, status := range []int{200, 302, 401, 500} {
			l.add(host, from(i), "POST", "/wp-login.php", status, "")
			l.add(host, from(i), "POST", "/identity/connect/token", status, "")
			l.add(host, from(i), "GET", "/wp-content/x.css", 200, "")
		}
	},
	"sign-ins that come first": func(l *logOf, host string, from func(int) string) {
		for i := range 120 {
			l.add(host, from(i), "POST", fmt.Sprintf("/%d-login", i), 200, "")
			l.add(host, from(i), "GET", fmt.Sprintf("/v%d/x", i), 200, "")
		}
	},
	"refused everywhere": func(l *logOf, host string, from func(int) string) {
		for i := range 400 {
			l.add(host, from(i), "POST", "/cart", 403, "")
			l.add(host, from(i), "GET", "/", 200, "")
		}
	},
	"a ladder": func(l *logOf, host string, from func(int) string) {
		for i, n := range []int{50, 195, 770, 3000} {
			l.wait(5 * time.Minute)
			for k := range n {
				l.add(host, from(i), "GET", "/", 200, "")
				if k%3 == 0 {
					l.add(host, from(i), "POST", "/login", 302, "")
				}
			}
		}
	},
	"guessers that get 200": func(l *logOf, host string, from func(int) string) {
		for i := range 200 {
			for range 10 {
				l.add(host, fmt.Sprintf("%d.77.%d.9", 60+i%100, i), "POST", "/login", 200, "")
			}
			l.add(host, from(i), "POST", "/login", 200, "")
		}
	},
	"crawlers' names": func(l *logOf, host string, from func(int) string) {
		for i := range 100 {
			l.add(host, from(i), "GET", "/", 200, `"User-Agent":["GPTBot/1.0"]`)
		}
	},
	"forged forwarding": func(l *logOf, host string, from func(int) string) {
		for i := range 1500 {
			l.add(host, from(i), "GET", "/", 200, fmt.Sprintf(`"X-Forwarded-For":["10.9.%d.%d"]`, i/250, i%250))
		}
	},
	"slow and large": func(l *logOf, host string, from func(int) string) {
		before := l.String()
		for i := range 300 {
			l.add(host, from(i), "GET", "/page/1/", 200, "")
		}
		text := strings.ReplaceAll(l.String()[len(before):], `"size":100`, `"size":90000000`)
		l.Reset()
		l.WriteString(before + text)
	},
	"costly pages": func(l *logOf, host string, from func(int) string) {
		for i := range 120 {
			for _, c := range crowds {
				l.add(host, from(i), "GET", strings.ReplaceAll(c.pages[0], "{n}", fmt.Sprint(i)), 200, "")
			}
		}
	},
	"many paths": func(l *logOf, host string, from func(int) string) {
		for i := range 5100 {
			l.add(host, from(i), "POST", fmt.Sprintf("/%d/login", i), 200, "")
		}
	},
}

// attack is what strangers write, and from where.
type attack struct {
	lines func(l *logOf, host string, from func(n int) string)
	from  string
}

var comments = regexp.MustCompile(`(?m)^\s*#.*\n|^\n`)

// Whatever one to 200 clients of few networks do, a proposal is the one that the log of people alone leads to,
// but for its comments.
func TestStrangersChangeNotesOnly(t *testing.T) {
	sites := []struct {
		name, upstream, signIn string
		pages                  []string
	}{
		{"unknown", "shop:80", "/login", []string{"/page/%d", "/", "/cart?%d"}},
		{"unusual sign-in", "127.0.0.1:3000", "/enter/session", []string{"/api/items/%d", "/a/%d"}},
		{"Jellyfin by port", "127.0.0.1:8096", "/Users/AuthenticateByName", []string{"/System/Info/Public?%d", "/Items/%d"}},
		{"WordPress by its paths", "blog:80", "/wp-login.php", []string{"/wp-content/%d.css", "/2026/%d"}},
		{"another program on a port", "10.0.0.5:2283", "/login", []string{"/photos/%d", "/album/%d/x"}},
	}
	networks := map[string]func(int) string{
		"one address":   func(int) string { return "203.0.113.66" },
		"200 addresses": func(n int) string { return fmt.Sprintf("198.51.%d.%d", 100+n%3, n%200) },
		"IPv6":          func(n int) string { return fmt.Sprintf("2001:db8:7:%x::1", n%200) },
	}
	for i, s := range sites[:proof.Sample(2, len(sites))] {
		t.Run(s.name, func(t *testing.T) {
			folder := t.TempDir()
			const host = "git.example.com"
			file := write(t, filepath.Join(folder, "Caddyfile"), host+" {\n\treverse_proxy "+s.upstream+"\n}\n")
			proposed := func(log string) string {
				out, err := ran(t, file, false, "--log", write(t, filepath.Join(folder, "access.log"), log))
				if err != nil {
					t.Fatal(err)
				}
				return comments.ReplaceAllString(out, "")
			}
			honest := newLog(uint64(i))
			honest.people(host, 60, s.pages, s.signIn)
			want := proposed(honest.String())
			wantSays(t, want, s.signIn, "limit 10/5m")
			check := func(name string, first bool, attacks ...attack) {
				l := newLog(uint64(i))
				if l.at = honest.at; first {
					l.at = l.at.Add(-1000 * time.Hour)
				}
				for _, attack := range attacks {
					attack.lines(l, host, networks[attack.from])
				}
				if got := proposed(honest.String() + l.String()); got != want {
					t.Errorf("%s: got\n%s\nwant\n%s", name, got, want)
				}
			}
			var all []attack
			each := 2 * len(strangers) * len(networks) // alone, before people and after them
			alone, seen := min(proof.Times(0, 10*each), each), i*each/len(sites)
			for n, name := range slices.Sorted(maps.Keys(strangers)) {
				for k, from := range slices.Sorted(maps.Keys(networks)) {
					a := attack{strangers[name], from}
					if k == (n+i)%len(networks) {
						all = append(all, a)
					}
					for _, first := range []bool{false, true} {
						if seen++; seen*alone/each > (seen-1)*alone/each {
							check(fmt.Sprintf("%s, from %s, before=%v", name, from, first), first, a)
						}
					}
				}
			}
			check("all", i%2 == 0, all...)
		})
	}
}
