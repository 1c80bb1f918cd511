package proposal_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	_ "github.com/caddyserver/caddy/v2/modules/standard" // as in a Caddy

	_ "github.com/caddy-tally/caddy-tally" // the directive
	"github.com/caddy-tally/caddy-tally/internal/advice"
	"github.com/caddy-tally/caddy-tally/internal/proposal"
)

func TestMain(m *testing.M) {
	debug.SetGCPercent(400) // most of what tests allocate is garbage soon
	m.Run()
}

// ran runs `caddy rate-limit init`, for a running Caddy with the config of a file if running is set.
func ran(t *testing.T, file string, running bool, args ...string) (out string, err error) {
	t.Helper()
	t.Setenv("XDG_DATA_HOME", t.TempDir()) // bans of this machine are none of the log's
	cmd := proposal.Command(func() (proposal.Source, error) {
		source, err := proposal.Load(file, "")
		if running {
			source.File = ""
		}
		return source, err
	})
	var said bytes.Buffer
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetOut(&said)
	cmd.SetErr(&said)
	cmd.SetArgs(args)
	err = cmd.ExecuteContext(t.Context())
	return said.String(), err
}

func write(t *testing.T, path, text string) string {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o640); err != nil {
		t.Fatal(err)
	}
	return path
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// copyOf returns the path of a file's n-th copy.
func copyOf(file string, n int) string {
	return filepath.Join(filepath.Dir(file), fmt.Sprintf(".%s.%d.bak", filepath.Base(file), n))
}

// wantSays checks that a text has some parts.
func wantSays(t *testing.T, text string, says ...string) {
	t.Helper()
	for _, part := range says {
		if !strings.Contains(text, part) {
			t.Errorf("expected %q in\n%s", part, text)
		}
	}
}

// unwrapped returns a text with each comment in one line.
func unwrapped(text string) string {
	return regexp.MustCompile(`(# .*)\n\s*# `).ReplaceAllString(regexp.MustCompile(`(# .*)\n\s*# `).ReplaceAllString(text, "$1 "), "$1 ")
}

const app = "git.example.com {\n\treverse_proxy forgejo:3000\n}\n"

// request is a line of Caddy's access log.
func request(second int, from, method, uri string, status int, fields string) string {
	at := time.Date(2026, 11, 1, 8, 0, 0, 0, time.UTC).Add(time.Duration(second) * time.Second)
	return fmt.Sprintf(`{"ts":%d,"logger":"http.log.access","request":{"remote_ip":%q,"client_ip":%[2]q,"proto":"HTTP/2.0","method":%q,"host":"git.example.com","uri":%q,"headers":{%s},"tls":{"server_name":"git.example.com"}},"duration":0.01,"size":100,"status":%d}`,
		at.Unix(), from, method, uri, fields, status) + "\n"
}

// A written file has its old text and the zones, where their site begins; a copy has the old one, and the mode
// stays. Enforcing removes the shadow of these zones and no other.
func TestWriteThenEnforce(t *testing.T) {
	for name, text := range map[string]string{
		"a block":        app,
		"Windows":        strings.ReplaceAll(app, "\n", "\r\n"),
		"no block":       "git.example.com\nreverse_proxy forgejo:3000",
		"several":        "www.example.com {\n\trespond hello\n}\n\ngit.example.com,\n\thttp://git.example.org {\n  reverse_proxy forgejo:3000\n}\n",
		"another shadow": "shop.example.com {\n\trate_limit {\n\t\tzone own {\n\t\t\tshadow\n\t\t\tlimit 100/1m\n\t\t}\n\t}\n\treverse_proxy shop:80\n}\n" + app,
		"comments":       "# git.example.com {\n(proxy) {\n\treverse_proxy {args[0]}\n}\n\ngit.example.com { # Forgejo\n\timport proxy forgejo:3000\n}\n",
	} {
		t.Run(name, func(t *testing.T) {
			file := write(t, filepath.Join(t.TempDir(), "Caddyfile"), text)
			out, err := ran(t, file, false, "--write")
			if err != nil {
				t.Fatal(err)
			}
			wantSays(t, out, "Added 3 zones in shadow to "+file, "caddy reload --config "+file, "caddy rate-limit zones --config "+file, copyOf(file, 1))
			written := read(t, file)
			wantSays(t, written, "zone git_example_com_login {", "# people who mistype need fewer", "limit 10/5m")
			if strings.Contains(text, "\r\n") && strings.Count(written, "\r\n") != strings.Count(written, "\n") {
				t.Errorf("the ends of lines differ in %q", written)
			}
			rest := written
			for line := range strings.Lines(text) {
				_, after, ok := strings.Cut(rest, strings.TrimRight(line, "\r\n"))
				if rest = after; !ok {
					t.Errorf("the line %q is lost in\n%s", line, written)
				}
			}
			if got := read(t, copyOf(file, 1)); got != text {
				t.Errorf("the copy is %q", got)
			}
			if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o640 {
				t.Errorf("the mode is %v, error %v", info.Mode(), err)
			}
			if _, _, _, err := caddycmd.LoadConfig(file, "caddyfile"); err != nil {
				t.Error(err)
			}
			out, err = ran(t, file, false)
			wantSays(t, out, "has rate_limit already")
			if err != nil || strings.Contains(out, "zone git") {
				t.Errorf("error %v, and more is proposed:\n%s", err, out)
			}
			out, err = ran(t, file, false, "--enforce")
			if err != nil {
				t.Fatal(err)
			}
			wantSays(t, out, "3 zones will refuse after: caddy reload")
			if got, want := strings.Count(read(t, file), "shadow"), strings.Count(text, "shadow"); got != want || read(t, copyOf(file, 2)) != written {
				t.Errorf("the word shadow is there %d times, expected %d", got, want)
			}
			if _, err := ran(t, file, false, "--enforce"); err == nil || !strings.Contains(err.Error(), "remove the word shadow") {
				t.Errorf("enforcing twice: %v", err)
			}
		})
	}
}

// Whatever can't be read or written stays as it is, and the error says why.
func TestWriteLosesNothing(t *testing.T) {
	folder := t.TempDir()
	check := func(name, says string, running bool, args ...string) {
		t.Helper()
		file := filepath.Join(folder, name)
		before := read(t, file)
		if out, err := ran(t, file, running, args...); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: got %v, expected %q\n%s", name, err, says, out)
		}
		if read(t, file) != before {
			t.Errorf("%s has changed", name)
		}
	}
	write(t, filepath.Join(folder, "invalid"), "git.example.com {\n\treverse_proxi forgejo:3000\n}\n")
	check("invalid", "unrecognized directive: reverse_proxi", false, "--write")
	write(t, filepath.Join(folder, "open"), "git.example.com {\n\treverse_proxy forgejo:3000\n")
	check("open", "syntax error", false, "--write")
	real := write(t, filepath.Join(folder, "real"), app)
	if err := os.Symlink(real, filepath.Join(folder, "link")); err == nil {
		check("link", "is a symbolic link to "+real, false, "--write")
	}
	locked := write(t, filepath.Join(folder, "locked"), app)
	if err := os.Chmod(locked, 0o440); err != nil {
		t.Fatal(err)
	}
	check("locked", "is read-only (-r--r-----), and stays as it is", false, "--write")
	check("real", "name it with --config Caddyfile", true, "--write")
	check("real", "the standard input can be read only once", false, "--write", "--log", "-")
	check("real", os.DevNull+" can be read only once, and is needed twice: expected a file", false, "--write", "--log", os.DevNull)
	write(t, filepath.Join(folder, "files"), "git.example.com {\n\tredir https://example.com\n}\n")
	check("files", "nothing was written: no zone is proposed", false, "--write")
	check("real", "no such file", false, "--write", "--log", filepath.Join(folder, "missing.log"))
	write(t, filepath.Join(folder, "noise.log"), "hello\n")
	check("real", "no line of the log could be read", false, "--write", "--log", filepath.Join(folder, "noise.log"))
	if left, _ := filepath.Glob(filepath.Join(folder, ".*.bak")); len(left) > 0 {
		t.Errorf("copies are left: %v", left)
	}
}

// The zones of programs are those of their recipes.
func TestProgramsAreThoseOfRecipes(t *testing.T) {
	recipe := ""
	for line := range strings.Lines(read(t, "programs.txt")) {
		line = strings.TrimSpace(line)
		if title, _, ok := strings.Cut(line, ":"); ok && strings.Contains(title, ", ") && !strings.HasPrefix(line, "limit") {
			_, name, _ := strings.Cut(title, ", ")
			recipe = read(t, "../../examples/recipes/"+name+".Caddyfile")
			read(t, "../../docs/recipes/"+name+".md")
			continue
		}
		line, _, _ = strings.Cut(line, " #")
		if kind, ok := strings.CutPrefix(line, "zone "); ok {
			line = "_" + kind + " {"
		}
		if !strings.Contains(recipe, line+"\n") && line != "" {
			t.Errorf("the recipe doesn't have %q", line)
		}
	}
}

// A running Caddy's config has what its Caddyfile has.
func TestProposalForARunningCaddy(t *testing.T) {
	file := write(t, filepath.Join(t.TempDir(), "Caddyfile"), app+"\nwiki.example.com {\n\trate_limit {\n\t\tzone w {\n\t\t\tlimit 100/1m\n\t\t}\n\t}\n\treverse_proxy wiki:80\n}\n\nold.example.com {\n\tredir https://wiki.example.com\n}\n")
	out, err := ran(t, file, true)
	if err != nil {
		t.Fatal(err)
	}
	wantSays(t, out, "git.example.com {\n\trate_limit {", "zone git_example_com_costly {", "wiki.example.com has rate_limit already", "old.example.com serves neither")
}

// The log that the config writes is read with those that were rotated. A recipe's numbers stay, and what people
// want beyond them is noted.
func TestProposalsFitTheLog(t *testing.T) {
	folder := t.TempDir()
	file := write(t, filepath.Join(folder, "Caddyfile"), "git.example.com {\n\tlog {\n\t\toutput file "+folder+"/access.log\n\t}\n\treverse_proxy forgejo:3000\n}\n")
	var old, log strings.Builder
	for i := range 300 {
		old.WriteString(request(i, "203.0.113.7", "GET", "/team/app.git/info/refs", []int{401, 200}[i%2], `"Authorization":["Basic abc"]`))
		log.WriteString(request(1000+i, fmt.Sprintf("203.0.113.%d", 10+i%30), "GET", "/team/app", 200, `"User-Agent":["Mozilla/5.0"]`))
	}
	write(t, filepath.Join(folder, "access.log"), log.String())
	write(t, filepath.Join(folder, "access-2026-11-01T08-30-00.000.log"), old.String())
	out, err := ran(t, file, false)
	if err != nil {
		t.Fatal(err)
	}
	wantSays(t, unwrapped(out), "# only wrong passwords count, so that apps with the right one may sync as they like; few clients to go by: of 1 honest client in the log, the most wanted 150 in 10m; if that was a person, raise this\n\t\t\tlimit 60/10m")
	if strings.Contains(out, "git_example_com_all") {
		t.Errorf("a program of a recipe gets other zones than the recipe's:\n%s", out)
	}
	write(t, file, strings.ReplaceAll(read(t, file), "forgejo:3000", "shop:80"))
	if out, err = ran(t, file, false); err != nil {
		t.Fatal(err)
	}
	wantSays(t, unwrapped(out), "# any request\n", "of 30 honest clients in the log, the most wanted 3 in 1m (1 other left aside)")
}

// A log without hosts is of the only site that serves something, or of the one that --site names. Clients that
// mostly get 400 aren't honest: that is how some programs answer a wrong password. Numbers of things are in no pattern.
func TestProposalsForLogsWithoutHosts(t *testing.T) {
	folder := t.TempDir()
	var log strings.Builder
	line := func(second int, from, request string, status, size int) {
		at := time.Date(2026, 11, 1, 8, 0, second, 0, time.UTC)
		fmt.Fprintf(&log, "%s - - [%s] \"%s HTTP/1.1\" %d %d \"-\" \"Mozilla/5.0\"\n", from, at.Format("02/Jan/2006:15:04:05 -0700"), request, status, size)
	}
	for i := range 300 {
		line(i, fmt.Sprintf("203.0.113.%d", 10+i%30), "GET /videos/55/stream", 200, 2<<20)
		line(i, "198.51.100.7", "POST /session", 400, 10)
	}
	access := write(t, filepath.Join(folder, "access.log"), log.String())
	one := write(t, filepath.Join(folder, "Caddyfile"), "www.example.com {\n\tredir https://shop.example.com\n}\nshop.example.com {\n\treverse_proxy shop:80\n}\n")
	out, err := ran(t, one, false, "--log", access)
	if err != nil {
		t.Fatal(err)
	}
	wantSays(t, unwrapped(out), "zone shop_example_com_all {", "of 30 honest clients in the log, the most wanted 3 in 1m (1 other left aside)", "match /videos/*\n")
	two := write(t, filepath.Join(folder, "Caddyfile"), read(t, one)+"wiki.example.com {\n\treverse_proxy wiki:80\n}\n")
	if out, err = ran(t, two, false, "--log", access); err != nil {
		t.Fatal(err)
	}
	wantSays(t, out, "600 requests of the log name no host: name it with --site, such as --site shop.example.com")
	if _, err = ran(t, two, false, "--log", access, "--site", "blog.example.com"); err == nil || !strings.Contains(err.Error(), `no site of the config has the host "blog.example.com"`) {
		t.Errorf("an unknown site: %v", err)
	}
	if out, err = ran(t, two, false, "--log", access, "--site", "shop.example.com"); err != nil {
		t.Fatal(err)
	}
	wantSays(t, out, "zone shop_example_com_all {", "wiki.example.com has no request in the log")
	if out, err = ran(t, two, true, "--log", access); err != nil || !strings.HasPrefix(out, "# The config isn't a Caddyfile.") {
		t.Errorf("error %v; the first comment isn't of the form in\n%s", err, out)
	}
	none := write(t, filepath.Join(folder, "Caddyfile"), "{\n\tadmin off\n}\n")
	if out, err = ran(t, none, false, "--log", access); err != nil || !strings.Contains(out, "No zone is proposed.") {
		t.Errorf("without sites: error %v of\n%s", err, out)
	}
}

// Lines that people have edited are enforced as well, if they still say that they are proposed; others are named.
func TestEnforceAfterEdits(t *testing.T) {
	file := write(t, filepath.Join(t.TempDir(), "Caddyfile"), app)
	if _, err := ran(t, file, false, "--write"); err != nil {
		t.Fatal(err)
	}
	const line = "shadow # until caddy rate-limit init --enforce"
	text := strings.Replace(read(t, file), line, "  shadow   #until caddy rate-limit init --enforce", 1)
	last := strings.LastIndex(text, line)
	write(t, file, text[:last]+"shadow"+text[last+len(line):])
	out, err := ran(t, file, false, "--enforce")
	if err != nil {
		t.Fatal(err)
	}
	wantSays(t, out, "2 zones will refuse")
	for i, line := range strings.Split(read(t, file), "\n") {
		if strings.TrimSpace(line) == "shadow" {
			wantSays(t, out, fmt.Sprintf("Still in shadow: git_example_com_costly (line %d).", i+1))
		}
	}
	if out, err = ran(t, file, false, "--enforce"); err == nil || !strings.Contains(err.Error(), "in shadow are git_example_com_") {
		t.Errorf("error %v of\n%s", err, out)
	}
}

// Comments are above their lines and fit a terminal. What isn't a Caddyfile gets lines for one, and is told so.
func TestProposalsAreReadable(t *testing.T) {
	file := write(t, filepath.Join(t.TempDir(), "Caddyfile"), app)
	out, err := ran(t, file, true)
	if err != nil {
		t.Fatal(err)
	}
	wantSays(t, out, "# The config isn't a Caddyfile.")
	for line := range strings.SplitSeq(out, "\n") {
		if strings.HasPrefix(line, "\t") && strings.HasPrefix(strings.TrimSpace(line), "#") && len(strings.TrimSpace(line)) > 80 {
			t.Errorf("too long is %q", line)
		}
	}
}

// Clients that mostly get 400 decide no limit, even if they are as many as people.
func TestWrongPasswordsWith400AreNotHonest(t *testing.T) {
	folder := t.TempDir()
	var log strings.Builder
	for i := range 600 {
		log.WriteString(request(i, fmt.Sprintf("198.51.100.%d", i%20), "POST", "/session", 400, ""))
	}
	for i := range 60 {
		log.WriteString(request(i, fmt.Sprintf("203.0.113.%d", i%20), "POST", "/session", 200, ""))
	}
	file := write(t, filepath.Join(folder, "Caddyfile"), strings.ReplaceAll(app, "forgejo:3000", "shop:80"))
	out, err := ran(t, file, false, "--log", write(t, filepath.Join(folder, "access.log"), log.String()))
	if err != nil {
		t.Fatal(err)
	}
	wantSays(t, unwrapped(out), "of 20 honest clients in the log")
}

// Patterns end before the number of a thing, wherever it is.
func TestNoPatternOfOneThing(t *testing.T) {
	for _, path := range []string{"/55/66/stream", "/4711/videos/a/b", "/videos/55/stream"} {
		folder := t.TempDir()
		var log strings.Builder
		for i := range 300 {
			log.WriteString(strings.Replace(request(i, fmt.Sprintf("203.0.113.%d", i%30), "GET", path, 200, ""), `"size":100`, `"size":9000000`, 1))
		}
		out, err := ran(t, write(t, filepath.Join(folder, "Caddyfile"), strings.ReplaceAll(app, "forgejo:3000", "shop:80")), false, "--log", write(t, filepath.Join(folder, "access.log"), log.String()))
		if err != nil {
			t.Fatal(err)
		}
		if regexp.MustCompile(`match .*/\d`).MatchString(out) {
			t.Errorf("%s: a number is in a pattern of\n%s", path, out)
		}
	}
}

// A proxy in front that isn't trusted is named.
func TestProposalNamesAnUntrustedProxy(t *testing.T) {
	folder := t.TempDir()
	var log strings.Builder
	for i := range 100 {
		log.WriteString(request(i, "10.0.0.7", "GET", "/", 200, fmt.Sprintf(`"X-Forwarded-For":["203.0.113.%d"]`, i)))
	}
	out, err := ran(t, write(t, filepath.Join(folder, "Caddyfile"), app), false, "--log", write(t, filepath.Join(folder, "access.log"), log.String()))
	if err != nil {
		t.Fatal(err)
	}
	wantSays(t, out, "git.example.com gets nearly all requests from 10.0.0.7, which isn't trusted", "Is that your proxy?", "docs/clients.md#behind-a-proxy")
}

// Each program of a site has its zones, and requests belong to the block that serves them, whatever redirects
// to it.
func TestProposalsForSeveralProgramsAndBlocks(t *testing.T) {
	folder := t.TempDir()
	file := write(t, filepath.Join(folder, "Caddyfile"), `http://git.example.com {
	redir https://git.example.com{uri}
}

git.example.com {
	handle /media/* {
		reverse_proxy jellyfin:8096
	}
	handle {
		reverse_proxy forgejo:3000
	}
}
`)
	out, err := ran(t, file, false, "--log", write(t, filepath.Join(folder, "access.log"), strings.Repeat(request(0, "203.0.113.7", "GET", "/", 200, ""), 30)))
	if err != nil {
		t.Fatal(err)
	}
	wantSays(t, out, "zone git_example_com_login {", "zone git_example_com_forgejo_login {")
	if n := strings.Count(out, "per ip"); n != 4 {
		t.Errorf("%d zones are proposed in\n%s", n, out)
	}
}

// Warnings that a config has already, of places below what is written, keep no site from its proposal. Sites
// without a host have names of their own, and sites in imported files are named.
func TestProposalsBesideOtherWarnings(t *testing.T) {
	folder := t.TempDir()
	write(t, filepath.Join(folder, "imported"), "shop.example.com {\n\treverse_proxy shop:80\n}\n")
	twice := "{\n\trate_limit {\n\t\tzone same {\n\t\t\tlimit %d/1m\n\t\t}\n\t}\n\treverse_proxy shop:80\n}\n"
	file := write(t, filepath.Join(folder, "Caddyfile"), "import imported\n\n"+app+"a.example.com "+fmt.Sprintf(twice, 100)+"b.example.com "+fmt.Sprintf(twice, 200)+
		":8080 {\n\treverse_proxy jellyfin:8096\n}\n:8081 {\n\treverse_proxy jellyfin:8097\n}\n")
	out, err := ran(t, file, false)
	if err != nil {
		t.Fatal(err)
	}
	wantSays(t, out, "zone git_example_com_login {", "zone 8080_login {", "zone 8081_login {", "# In "+filepath.Join(folder, "imported")+":\nshop.example.com {\n\trate_limit {\n", "zone shop_example_com_login {")
}

// Sites in imported files, which may use snippets of the file that imports them, have proposals that can be put
// there; only the file of --config is written.
func TestProposalsForImportedFiles(t *testing.T) {
	folder := t.TempDir()
	const blog = "blog.example.com {\n\timport proxy blog:80\n}\n"
	imported := write(t, filepath.Join(folder, "blog.caddy"), blog)
	text := "(proxy) {\n\treverse_proxy {args[0]}\n}\n\nimport *.caddy\n"
	main := write(t, filepath.Join(folder, "Caddyfile"), text)
	block := "# In " + imported + ":\nblog.example.com {\n\trate_limit {\n"
	out, err := ran(t, main, false)
	if err != nil {
		t.Fatal(err)
	}
	wantSays(t, out, block)
	out, err = ran(t, main, false, "--write")
	if err == nil || !strings.Contains(err.Error(), "nothing was written: the sites are in imported files") {
		t.Errorf("got %v", err)
	}
	wantSays(t, out, "Imported files are neither written nor enforced", block)
	if read(t, main) != text || read(t, imported) != blog {
		t.Error("a file has changed")
	}
	if _, err := proposal.Load(imported, ""); err == nil || !strings.Contains(err.Error(), "not found: proxy") || !strings.Contains(err.Error(), "name that one with --config") {
		t.Errorf("the imported file alone: %v", err)
	}
	write(t, main, text+app)
	out, err = ran(t, main, false, "--write")
	if err != nil {
		t.Fatal(err)
	}
	wantSays(t, out, "Added 3 zones in shadow to "+main, block)
	if got := read(t, main); read(t, imported) != blog || !strings.Contains(got, "zone git_example_com_login {") || strings.Contains(got, "zone blog") {
		t.Errorf("the files are\n%s\n%s", got, read(t, imported))
	}
	_, directive, _ := strings.Cut(out, "blog.example.com {\n")
	write(t, imported, "blog.example.com {\n\timport proxy blog:80\n"+directive)
	if out, err = ran(t, main, false); err != nil {
		t.Fatal(err)
	}
	wantSays(t, out, "blog.example.com has rate_limit already")
}

// An import may make several sites of the same lines, of which none can be written alone.
func TestNoProposalForOneOfSeveralImports(t *testing.T) {
	file := write(t, filepath.Join(t.TempDir(), "Caddyfile"), "(site) {\n{args[0]} {\n\treverse_proxy forgejo:3000\n}\n}\n\nimport site a.example.com\nimport site b.example.com\n")
	out, err := ran(t, file, false)
	if err != nil || strings.Contains(out, "rate_limit") {
		t.Fatalf("error %v of\n%s", err, out)
	}
	wantSays(t, out, "a.example.com is made by an import", "b.example.com is made by an import")
}

// A file is a Caddyfile, whatever its name, unless it has JSON.
func TestLoad(t *testing.T) {
	folder := t.TempDir()
	for name, want := range map[string]string{"Caddyfile": "caddy reload --config " + folder, "blog.caddy": "with the Caddyfile that imports " + folder} {
		file := write(t, filepath.Join(folder, name), app)
		if source, err := proposal.Load(file, ""); err != nil || source.File != file {
			t.Errorf("%s: %q, %v", name, source.File, err)
		}
		out, err := ran(t, file, false, "--write")
		if err != nil {
			t.Error(err)
		}
		wantSays(t, out, want, "caddy rate-limit zones --config "+file+map[bool]string{true: " --adapter caddyfile"}[name != "Caddyfile"]+"    shows")
	}
	for _, name := range []string{"caddy.json", "config"} {
		if source, err := proposal.Load(write(t, filepath.Join(folder, name), `{"apps": {}}`), ""); err != nil || source.File != "" {
			t.Errorf("%s: %q, %v", name, source.File, err)
		}
	}
	if _, err := proposal.Load(write(t, filepath.Join(folder, "broken.json"), app), ""); err == nil || !strings.Contains(err.Error(), "not valid JSON") || strings.Contains(err.Error(), "imports") {
		t.Errorf("broken JSON: %v", err)
	}
	for _, name := range []string{"-", os.DevNull} {
		if _, err := proposal.Load(name, ""); err == nil || !strings.Contains(err.Error(), "expected a file") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Crawlers are limited as the recipe does, whatever they want.
func TestCrawlersAreLimited(t *testing.T) {
	folder := t.TempDir()
	var log strings.Builder
	for i := range 153 {
		log.WriteString(request(i/3, "198.51.100.7", "GET", "/", 200, `"User-Agent":["GPTBot/1.0"]`))
	}
	out, err := ran(t, write(t, filepath.Join(folder, "Caddyfile"), app), false, "--log", write(t, filepath.Join(folder, "access.log"), log.String()))
	if err != nil {
		t.Fatal(err)
	}
	wantSays(t, unwrapped(out), "# crawlers for AI, 153 requests", "# all of them together; lower it to slow them\n\t\t\tlimit 30/1m\n")
	write(t, filepath.Join(folder, "Caddyfile"), strings.ReplaceAll(app, "forgejo:3000", "shop:80"))
	if out, err = ran(t, filepath.Join(folder, "Caddyfile"), false, "--log", filepath.Join(folder, "access.log")); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(out, "_all {") {
		t.Errorf("a limit is made for crawlers:\n%s", out)
	}
}

func TestProposalOfTheListenerWrapper(t *testing.T) {
	const site = " {\n\treverse_proxy localhost:3000\n}\n"
	for name, tt := range map[string]struct {
		config string
		says   bool
	}{
		"HTTPS":            {"example.com" + site, true},
		"HTTPS and HTTP":   {"http://example.org" + site + "example.com" + site, true},
		"HTTP":             {"http://example.com" + site, false},
		"a port alone":     {":8080" + site, false},
		"port 80":          {"example.com:80" + site, false},
		"has it":           {"{\n\tservers {\n\t\tlistener_wrappers {\n\t\t\trate_limit\n\t\t\ttls\n\t\t}\n\t}\n}\nexample.com" + site, false},
		"no zone proposed": {"example.com {\n\trespond hello\n}\n", false},
	} {
		t.Run(name, func(t *testing.T) {
			out, err := ran(t, write(t, filepath.Join(t.TempDir(), "Caddyfile"), tt.config), false)
			if says := strings.Contains(out, advice.ListenerWrapper); err != nil || says != tt.says {
				t.Errorf("%v, want %v: %s", says, tt.says, out)
			}
		})
	}
}
