package caddytest

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"
)

// spelling is one way to ask for an action.
type spelling struct {
	method, target string
	field          string // a header field, or ""
}

func (s spelling) String() string {
	return strings.TrimSpace(s.method + " " + s.target + " " + s.field)
}

// pathSpellings are those of /P, which stands for the path of an action.
var pathSpellings = []string{
	"/P", "/P/", "/P//", "//P", "///P", "/./P", "/P/.", "/P/./", "/x/../P", "/P/x/..", "/x//../P", "/../P", "/%2e/P", "/x/%2e%2e/P", "/x/.%2e/P", "/.;/P", "/x/..;/P", "/x;/../P",
	"/P.json", "/P.html", "/P.JSON", "/P%2ejson", "/P.", "/P.json/", "/P.x.json", "/P.php", "/P.php/x", "/P.do",
	"/P;x", "/P;x=y", "/P;", "/;x/P", "/P;x/", "/P%3bx", "/P;jsessionid=1.json", "/P;a%2fb", "/P;a/b",
	"/P%2f", "/P%2F", "/P%252f", "/%2fP", "/%2f/P", "/x%2f..%2fP", "/x%2f../P", "/P%5c", "/%5cP", `/\P`, `/P\`, `/x\..\P`, "/x%5c..%5cP", `/.\P`,
	"/P%00", "/P%00.css", "/P%20", "/%20P", "/P%09", "/P%0a", "/P%0d%0a", "/P+", "/P%2e", "/P%3f", "/P%3fx", "/P%23", "/P%23x", "/P#x", "/P&x", "/P,x", "/P:x", "/P::$DATA", "/P~", "/P*",
	"/P/x", "/P/x.php", "/P/x.css", "/P/a/b.js", "/P/index.php", "/P/index.html", "/P/index", "/P/index.php/x", "/P/.css", "/P/%2e%2e/P",
	"/index.php/P", "/index.php//P", "/INDEX.PHP/P", "/index.php%2fP", "/index.php/P/", "/index.php/P.json", "/index.php/x/../P", "/index.php;/P", "/signin.php/P", "/x/index.php/P", "/index.php/P/x.css",
	"//host/P", "//host:80/P", "//user@host/P", `/\host/P`, `\\host\P`, "//host//P", "///host/P", "//host/P/", "http://localhost/P", "http://localhost//P", "http:///P", "http://localhost/x/../P",
	"/%c0%afP", "/%c0%ae%c0%ae/P", "/x/%c0%ae%c0%ae/P", "/%ef%bc%8fP", "/P%c2%a0", "/P%e3%80%82json", "/P%ff",
}

// nameSpellings are those of the letters of a name.
func nameSpellings(name string) []string {
	first, rest := name[:1], name[1:]
	return []string{
		strings.ToUpper(name), strings.ToUpper(first) + rest, fmt.Sprintf("%%%02x", first[0]) + rest, fmt.Sprintf("%%25%02x", first[0]) + rest, fmt.Sprintf("%%2525%02x", first[0]) + rest,
		fmt.Sprintf("%%u00%02x", first[0]) + rest, string([]rune{rune(first[0]) - '!' + 0xff01}) + rest, strings.Replace(name, "i", "%c4%b1", 1), strings.Replace(name, "s", "%c5%bf", 1),
	}
}

// querySpellings are those of mode=heavy.
var querySpellings = []string{
	"mode=heavy", "mode=heavy&a;b", "a;mode=heavy", "mode=heavy;a", "mode=heavy&x=%zz", "%zz&mode=heavy", "mode=heavy&x=%", "mode[]=heavy", "mode[0]=heavy", "mode[x]=heavy", "mode[][]=heavy", "mode%5b%5d=heavy", "[mode]=heavy", "mode[=heavy",
	"mode]=heavy", "mode=light&mode=heavy", "mode=heavy&mode=light", "mode[]=light&mode[]=heavy", "MODE=heavy", "mode=HEAVY", "mo%64e=heavy", "mode=%68eavy", "mode=%2568eavy", "mode%3dheavy", "mode=heavy%00", "mode%00=heavy", "mode%00x=heavy",
	"+mode=heavy", "%20mode=heavy", "mode+=heavy", "mode=+heavy", "mode=heavy+", "mode=hea%vy", "mode=%u0068eavy", "%u006dode=heavy", "&mode=heavy", "?mode=heavy", "mode=heavy?", "mode=heavy#x", "mode==heavy", "mode=heavy=", "mode.x=heavy", "_mode=heavy", "mode=heavy&" + strings.Repeat("a=b&", 2000),
	"mode=%ef%bd%88eavy", "mode=hea%c0%b6y", "mode[%00]=heavy", "mode=heavy,light", "mode=\"heavy\"",
}

func spellingsOf(name, method string) (all []spelling) {
	for _, path := range pathSpellings {
		all = append(all, spelling{method: method, target: strings.ReplaceAll(path, "P", name)})
	}
	for _, spelled := range nameSpellings(name) {
		all = append(all, spelling{method: method, target: "/" + spelled})
	}
	return append(all, []spelling{
		{"post", "/" + name, ""}, {"Post", "/" + name, ""}, {"GET", "/" + name, "X-HTTP-Method-Override: POST"}, {"PUT", "/" + name, "X-HTTP-Method-Override: POST"}, {"GET", "/" + name, "X_HTTP_Method_Override: post"},
		{"GET", "/" + name + "?_method=POST", ""}, {"PUT", "/" + name + "?_method=post", ""}, {"GET", "/" + name, "X-Method-Override: POST"},
		{"GET", "/x", "X-Original-URL: /" + name}, {"GET", "/x", "X-Rewrite-URL: /" + name},
	}...)
}

// spellings are all that are tried on a backend.
func (u *upstream) spellings() []spelling {
	all := spellingsOf("login", "POST")
	if u.files {
		all = append(all, spellingsOf("signin.php", "POST")...)
	}
	for _, query := range querySpellings {
		all = append(all, spelling{method: "GET", target: "/search?" + query})
	}
	for _, path := range pathSpellings {
		all = append(all, spelling{method: "GET", target: strings.ReplaceAll(path, "P", "search") + "?mode=heavy"})
	}
	return append(all, spelling{"GET", "/search%3fmode=heavy", ""}, spelling{"GET", "/search%3fmode=heavy?a=b", ""}, spelling{"POST", "/search?mode=heavy", ""}, spelling{"FOO", "/search?mode=heavy", ""})
}

// plainSpellings reach the actions everywhere.
var plainSpellings = map[string]string{"POST /login": "login", "GET /search?mode=heavy": "heavy", "POST /signin.php": "signin"}

// outcome is what became of a spelling: which action has run, if any, and who has
// counted it.
type outcome struct {
	action  string
	counted bool // by a zone with the safe matcher
	byPath  bool // by one with Caddy's own
}

const spellingZones = `
	rate_limit {
		zone safe {
			match POST /login /signin.php
			match /search mode=heavy
			per everyone
			limit 1000000/1h
		}
		zone own {
			match {
				method POST
				path /login /signin.php
			}
			match {
				path /search
				query mode=heavy
			}
			per everyone
			limit 2000000/1h
		}
	}
`

// TestSpellingsThatReachAnActionAreCounted sends spellings, byte by byte, through
// Caddy to real servers: no action may run that the zone hasn't counted.
func TestSpellingsThatReachAnActionAreCounted(t *testing.T) {
	all := upstreams(t)
	config := options(patient)
	ports := make(map[*upstream]string)
	for _, b := range all {
		if b.missing == "" {
			ports[b] = freePort(t)
			config += "http://:" + ports[b] + " {\n" + spellingZones + b.route + "\n}\n"
		}
	}
	startCaddy(t, config)
	table := readSpellingTable(t)
	var mu sync.Mutex
	t.Run("backends", func(t *testing.T) {
		for _, b := range all {
			t.Run(b.name, func(t *testing.T) {
				t.Parallel()
				if b.missing != "" {
					t.Skip(b.missing)
				}
				b.await(t)
				outcomes := tryAll(t, ports[b], b.spellings())
				mu.Lock()
				defer mu.Unlock()
				table.compare(t, b, outcomes)
			})
		}
	})
	if *update {
		table.write(t)
	}
}

// tryAll sends each spelling, and checks that it is counted if an action runs.
func tryAll(t *testing.T, port string, spellings []spelling) map[string]outcome {
	t.Helper()
	outcomes := make(map[string]outcome)
	missed := 0
	for _, s := range spellings {
		o := sendRaw(t, port, s)
		outcomes[s.String()] = o
		if o.action != "" && !o.counted {
			t.Errorf("%.200s runs %s, and is not counted", s, o.action)
		}
		if o.action != "" && !o.byPath {
			missed++
		}
	}
	for plain, action := range plainSpellings {
		if o, tried := outcomes[plain]; tried && (o.action != action || !o.byPath) {
			t.Errorf("%s: %+v, want %s", plain, o, action)
		}
	}
	t.Logf("%d of %d spellings reach an action, %d of them past Caddy's own matchers", countReached(outcomes), len(spellings), missed)
	return outcomes
}

func countReached(outcomes map[string]outcome) (n int) {
	for _, o := range outcomes {
		if o.action != "" {
			n++
		}
	}
	return n
}

// sendRaw sends a request as it is written, on a connection of its own.
func sendRaw(t *testing.T, port string, s spelling) outcome {
	t.Helper()
	conn, err := net.Dial("tcp", "127.0.0.1:"+port)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(patience))
	fields := "Host: localhost\r\nConnection: close\r\nContent-Length: 0\r\n"
	if s.field != "" {
		fields += s.field + "\r\n"
	}
	if _, err := fmt.Fprintf(conn, "%s %s HTTP/1.1\r\n%s\r\n", s.method, s.target, fields); err != nil {
		t.Fatal(err)
	}
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatalf("%.200s: %v", s, err)
	}
	defer response.Body.Close()
	policy := response.Header.Get("RateLimit-Policy")
	return outcome{response.Header.Get("X-Action"), strings.Contains(policy, `"safe"`), strings.Contains(policy, `"own"`)}
}

// spellingTable records which spelling reaches an action in which backend: facts, for
// documentation. What is required of them is found out again in each run.
type spellingTable struct {
	versions map[string]string          // by backend
	reached  map[string]map[string]bool // by spelling and backend
	byPath   map[string]bool            // by spelling
	order    []string                   // of spellings
	columns  []string
}

const spellingFile = "testdata/spellings.txt"

const spellingHead = `# Which spelling reaches an action in which backend, through Caddy. The first column
# says whether Caddy's own matchers path and query match it; x: it reaches an action.
# Written by go test ./caddytest -run Spellings -update
`

func readSpellingTable(t *testing.T) *spellingTable {
	t.Helper()
	table := &spellingTable{versions: make(map[string]string), reached: make(map[string]map[string]bool), byPath: make(map[string]bool)}
	text, err := os.ReadFile(spellingFile)
	if err != nil {
		if *update {
			return table
		}
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		switch {
		case strings.HasPrefix(line, "#"):
		case fields[0] == "backend" && len(fields) == 3:
			table.versions[fields[1]] = fields[2]
			table.columns = append(table.columns, fields[1])
		default:
			marks, name, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
			table.byPath[name] = marks[0] == 'x'
			for i, column := range table.columns {
				table.set(name, column, marks[2+i] == 'x')
			}
		}
	}
	return table
}

func (table *spellingTable) set(name, column string, reached bool) {
	if table.reached[name] == nil {
		table.reached[name] = make(map[string]bool)
		table.order = append(table.order, name)
	}
	table.reached[name][column] = reached
}

// compare compares outcomes with the table, or puts them into it. Other versions
// than the table's may do otherwise.
func (table *spellingTable) compare(t *testing.T, b *upstream, outcomes map[string]outcome) {
	t.Helper()
	if !*update && table.versions[b.name] != b.version {
		t.Logf("the table is of version %q, this is %q: not compared", table.versions[b.name], b.version)
		return
	}
	table.versions[b.name] = b.version
	for _, s := range b.spellings() {
		name := shortened(s.String())
		o := outcomes[s.String()]
		if *update {
			table.byPath[name] = o.byPath
			table.set(name, b.name, o.action != "")
		} else if table.reached[name][b.name] != (o.action != "") {
			t.Errorf("%s reaches an action: %v; the table says %v (-update writes it again)", name, o.action != "", table.reached[name][b.name])
		}
	}
}

// shortened is how the table names a spelling.
func shortened(name string) string {
	if len(name) > 80 {
		name = name[:60] + "…"
	}
	return name
}

func (table *spellingTable) write(t *testing.T) {
	t.Helper()
	columns := []string{"go", "node", "express", "php", "rack", "sinatra", "flask", "django", "tomcat", "nginx", "nginx+info", "php_fastcgi"}
	var b strings.Builder
	b.WriteString(spellingHead)
	for _, column := range columns {
		fmt.Fprintf(&b, "backend %s %s\n", column, table.versions[column])
	}
	order := (&upstream{files: true}).spellings()
	for _, s := range order {
		name := shortened(s.String())
		b.WriteByte(mark(table.byPath[name]))
		b.WriteByte('|')
		for _, column := range columns {
			b.WriteByte(mark(table.reached[name][column]))
		}
		b.WriteString(" " + name + "\n")
	}
	if err := os.WriteFile(spellingFile, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
}

func mark(set bool) byte {
	if set {
		return 'x'
	}
	return '.'
}

// The directive's own matcher is one of Caddy's, and so misses spellings, too; what a block around the
// directive misses, doesn't come to its upstream.
func TestTheDirectivesMatcherWarns(t *testing.T) {
	const zone = "zone login {\nlimit 5/1m\n}"
	for lines, want := range map[string]string{
		"rate_limit /login {\n" + zone + "\n}":                                "match /login in its zones",
		"@a {\npath /login\nmethod POST\n}\nrate_limit @a {\n" + zone + "\n}": "match POST /login in its zones",
		"@a path_regexp ^/login$\nrate_limit @a {\n" + zone + "\n}":           "in its zones",
		"rate_limit {\n" + zone + "\n}":                                       "",
		"rate_limit * {\n" + zone + "\n}":                                     "",
		"@a header X-Y z\nrate_limit @a {\n" + zone + "\n}":                   "",
		"handle /login {\nrate_limit {\n" + zone + "\n}\nrespond ok\n}":       "",
		"rate_limit /login {\n}":                                              "",
	} {
		out, err := saidOf(t, ":{$PORT} {\n"+lines+"\n}\n")
		if err != nil {
			t.Fatalf("%s: %v: %s", lines, err, out)
		}
		if missed := strings.Contains(out, "miss spellings"); missed != (want != "") || !strings.Contains(out, want) {
			t.Errorf("%s: warning %v, want %q in it:\n%s", lines, missed, want, out)
		}
	}
}

// Matchers of a zone that miss spellings, and exemptions that free too much, are
// warned of when a config is loaded, with what to write instead.
func TestMatchersThatMissSpellingsWarn(t *testing.T) {
	for options, want := range map[string]string{
		"zone login {\nmatch path /login\nlimit 5/1m\n}":                                    "match /login",
		"zone login {\nmatch {\npath /login\nmethod POST\n}\nlimit 5/1m\n}":                 "match POST /login",
		"zone login {\nmatch @named\nlimit 5/1m\n}":                                         "match /search mode=heavy",
		"zone login {\nkey {remote_host}\nmatch path /login\nevents 5\nwindow 1m\n}":        "match /login",
		"zone login {\ncost 9 path /login\nlimit 5/1m\n}":                                   "cost 9 /login",
		"zone login {\nmatch /login\nlimit 5/1m\n}":                                         "",
		"zone login {\nmatch not path /login\ncost 0 path /health\nlimit 5/1m\n}":           "",
		"zone login {\nlimit 5/1m\n}\nexempt path /health\n":                                "",
		"zone login {\nlimit 5/1m\n}\nexempt path *.css\n":                                  "exempt /static/*",
		"zone login {\nmatch method POST\nlimit 5/1m\n}\n":                                  "match POST /*",
		"zone login {\nmatch POST /login\nlimit 5/1m\n}\ntrap path /wp-login.php /.git/*\n": "",
	} {
		out, err := saidOf(t, ":{$PORT} {\n@named {\npath /search\nquery mode=heavy\n}\nrate_limit {\n"+options+"\n}\n}\n")
		if err != nil {
			t.Fatalf("%s: %v: %s", options, err, out)
		}
		missed := strings.Contains(out, "miss spellings") || strings.Contains(out, "also exempts")
		if missed != (want != "") {
			t.Errorf("%s: it warns: %v:\n%s", options, missed, out)
		}
		if !strings.Contains(out, want) {
			t.Errorf("%s: the warning doesn't say %q:\n%s", options, want, out)
		}
	}
}
