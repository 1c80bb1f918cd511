package blocklist

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func bans(l *List, addr string) bool {
	_, banned := l.Ban(netip.MustParseAddr(addr), time.Now())
	return banned
}

func TestParse(t *testing.T) {
	p, err := parse([]byte("\ufeff# a list\n\n203.0.113.7 # scraper\n198.51.100.0/24 ; SBL1\r\n2001:db8::/32\n" +
		"10.1.2.3\n127.0.0.1\n::1\n::ffff:192.168.0.1\nfe80::1\n224.0.0.0/3\n0.0.0.0/0\n8.0.0.0/7\n192.0.0.0/8\n" +
		"203.0.113.7/24\nkey:alice\nban 203.0.113.9\n"))
	if err != nil || p.bans.entries != 3 || p.skipped != 9 || p.broken != 3 {
		t.Fatalf("got %+v, %v", p, err)
	}
	if text := p.first.Error(); !strings.HasPrefix(text, "line 15: got ") || !strings.Contains(text, "203.0.113.0/24 for the network") {
		t.Errorf("the first broken line: %s", text)
	}
	if fmt.Sprint(p.bans.networks) != "[198.51.100.0/24 203.0.113.7/32 2001:db8::/32]" {
		t.Errorf("got %v", p.bans.networks)
	}
}

// A page that says that a list has moved is no list, and neither is one without bound.
func TestNoList(t *testing.T) {
	for says, text := range map[string]string{
		"line 1: got":              "<html>\n<body>Sorry!</body>\n</html>",
		"more than 200000 entries": strings.Repeat("203.0.113.7\n", maxEntries+1),
		"more than 16777216 bytes": strings.Repeat("#", maxSize+1),
		"expected at most 8192":    strings.Repeat("1", maxLine+1),
	} {
		if _, err := parse([]byte(text)); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("got %v, want %s", err, says)
		}
	}
}

// origin serves a list.
type origin struct {
	status           int
	text             string
	asked, unchanged int
}

func (o *origin) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	o.asked++
	etag := fmt.Sprintf(`"%x"`, o.text)
	w.Header().Set("ETag", etag)
	if r.Header.Get("If-None-Match") == etag {
		o.unchanged++
		w.WriteHeader(http.StatusNotModified)
		return
	}
	w.WriteHeader(o.status)
	io.WriteString(w, o.text)
}

func mustAcquire(t *testing.T, o Options) *List {
	t.Helper()
	l, err := Acquire(o, false)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestTheLastGoodListStays(t *testing.T) {
	o := &origin{status: 200, text: "203.0.113.7\n"}
	at := httptest.NewServer(o)
	defer at.Close()
	options := Options{Source: at.URL + "/list?key=secret", Every: time.Hour, Folder: filepath.Join(t.TempDir(), "lists")}
	l := mustAcquire(t, options)
	if bans(l, "203.0.113.7") || o.asked != 0 {
		t.Fatal("a list is fetched before it runs")
	}
	l.refresh()
	if !bans(l, "203.0.113.7") || l.failures != 0 {
		t.Fatal("the list isn't in force")
	}
	l.refresh()
	if o.unchanged != 1 || !bans(l, "203.0.113.7") {
		t.Errorf("asked %d times, %d unchanged", o.asked, o.unchanged)
	}
	for status, text := range map[int]string{200: "<html>\n", 500: "203.0.113.8\n", 404: ""} {
		o.status, o.text = status, text
		l.refresh()
		if wait := time.Until(l.next); l.failures == 0 || !bans(l, "203.0.113.7") || wait > 10*time.Minute {
			t.Errorf("status %d %q: %d failures, next in %v", status, text, l.failures, wait)
		}
	}
	l.Release()

	o.asked = 0
	again := mustAcquire(t, options) // after a restart
	defer again.Release()
	if !bans(again, "203.0.113.7") || o.asked != 0 || time.Until(again.next) < 50*time.Minute {
		t.Errorf("after a restart: in force %v, asked %d, next in %v", bans(again, "203.0.113.7"), o.asked, time.Until(again.next))
	}
	o.status, o.text = 200, "# none\n203.0.113.9\n"
	again.refresh()
	if bans(again, "203.0.113.7") || !bans(again, "203.0.113.9") || again.failures != 0 {
		t.Error("a new version isn't in force")
	}
}

func TestBansThatEnd(t *testing.T) {
	file := filepath.Join(t.TempDir(), "list")
	if err := os.WriteFile(file, []byte("203.0.113.7\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	l := mustAcquire(t, Options{Source: file, Every: time.Second, Ban: time.Hour})
	defer l.Release()
	in := func(d time.Duration) bool {
		_, banned := l.Ban(netip.MustParseAddr("203.0.113.7"), time.Now().Add(d))
		return banned
	}
	if !in(59*time.Minute) || in(time.Hour+time.Second) {
		t.Error("a ban doesn't last an hour")
	}
	l.enforce(l.bans.Load().set, time.Now().Add(-2*time.Hour)) // when it was read long ago
	l.refresh()
	if !in(59 * time.Minute) {
		t.Error("an unchanged list doesn't make bans last longer")
	}
	if err := os.WriteFile(file, []byte("# none any more\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	l.refresh()
	if in(0) {
		t.Error("a ban outlasts its entry")
	}
}

func TestURLs(t *testing.T) {
	for text, good := range map[string]bool{
		"https://example.com/list": true, "http://127.0.0.1:41412/list": true, "http://localhost/": true, "http://[::1]/": true,
		"http://example.com/list": false, "ftp://example.com/": false, "https://": false, "http://127.0.0.1.example.com/": false, "://x": false,
	} {
		if err := CheckURL(text); (err == nil) != good {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestRedirectsStayTrusted(t *testing.T) {
	at := httptest.NewServer(http.RedirectHandler("http://example.com/list", http.StatusFound))
	defer at.Close()
	l := mustAcquire(t, Options{Source: at.URL + "/?key=secret", Every: time.Hour, Folder: t.TempDir()})
	defer l.Release()
	if err := l.fetch(); err == nil || !strings.Contains(err.Error(), "expected https") || strings.Contains(err.Error(), "secret") {
		t.Errorf("got %v", err)
	}
}

func TestAFileThatComesLater(t *testing.T) {
	file := filepath.Join(t.TempDir(), "list")
	l := mustAcquire(t, Options{Source: file, Every: time.Second})
	defer l.Release()
	if l.refresh(); bans(l, "203.0.113.7") || l.failures != 1 {
		t.Errorf("%d failures", l.failures)
	}
	if err := os.WriteFile(file, []byte("203.0.113.7\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if l.refresh(); !bans(l, "203.0.113.7") || l.failures != 0 {
		t.Errorf("%d failures", l.failures)
	}
	if err := os.WriteFile(file, []byte("<html>\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if l.refresh(); !bans(l, "203.0.113.7") || l.failures != 1 {
		t.Errorf("%d failures", l.failures)
	}
	if l.refresh(); l.failures != 2 {
		t.Error("a file that is no list is taken for unchanged")
	}
}

func TestAFileThatIsNoList(t *testing.T) {
	if l, err := Acquire(Options{Source: t.TempDir(), Every: time.Second}, false); err == nil {
		l.Release()
		t.Error("a folder is opened")
	}
}

// A server that fails answers with little or nothing: that lifts no bans unless the next fetch, an
// interval later, says the same.
func TestAListThatIsSuddenlyShortMustBeConfirmed(t *testing.T) {
	long := ""
	for i := range 100 {
		long += fmt.Sprintf("203.0.113.%d\n", i)
	}
	short, other := "203.0.113.200\n203.0.113.201\n", "203.0.113.210\n203.0.113.211\n"
	type step struct {
		text   string
		banned bool // the long list is still in force
	}
	for name, steps := range map[string][]step{
		"empty once":              {{"", true}, {long, true}},
		"empty twice":             {{"", true}, {"", false}},
		"a comment twice":         {{"# sorry\n", true}, {"# sorry, too\n", false}},
		"not twice in a row":      {{"", true}, {long + "203.0.113.250\n", true}, {"", true}},
		"short twice":             {{short, true}, {short + "203.0.113.202\n", false}},
		"short in different ways": {{short, true}, {other, true}, {other, false}},
		"a tenth is left":         {{long[:10*len("203.0.113.0\n")], false}},
	} {
		t.Run(name, func(t *testing.T) {
			o := &origin{status: 200, text: long}
			at := httptest.NewServer(o)
			defer at.Close()
			l := mustAcquire(t, Options{Source: at.URL, Every: time.Hour, Folder: t.TempDir()})
			defer l.Release()
			l.refresh()
			for i, step := range steps {
				o.text = step.text
				l.refresh()
				failed := l.State().Err != nil
				if bans(l, "203.0.113.99") != step.banned || failed != (step.banned && step.text[:min(len(step.text), 20)] != long[:20]) {
					t.Errorf("step %d: in force %t, error %v", i, bans(l, "203.0.113.99"), l.State().Err)
				}
				if wait := time.Until(l.next); wait < 50*time.Minute {
					t.Errorf("step %d: it is fetched again in %v, before the interval is over", i, wait)
				}
			}
		})
	}
}

// What follows a redirect may be read and changed on the way unless it is https.
func TestHTTPSStaysHTTPS(t *testing.T) {
	plain := httptest.NewServer(&origin{status: 200, text: "203.0.113.7\n"})
	defer plain.Close()
	at := httptest.NewTLSServer(http.RedirectHandler(plain.URL, http.StatusFound))
	defer at.Close()
	l := mustAcquire(t, Options{Source: at.URL, Every: time.Hour, Folder: t.TempDir()})
	defer l.Release()
	l.client.Transport = at.Client().Transport
	if err := l.fetch(); err == nil || !strings.Contains(err.Error(), "redirects from https to http") || bans(l, "203.0.113.7") {
		t.Errorf("got %v", err)
	}
}

// A file that is no list keeps nothing from starting that may do without; it is in force once it is
// right, without another config.
func TestStartingWithoutABrokenList(t *testing.T) {
	file := filepath.Join(t.TempDir(), "list")
	for name, text := range map[string]string{
		"HTML": "<html>\n", "host bits": "203.0.113.7/24\n", "UTF-16": "\xff\xfe2\x000\x003\x00\n\x00", "too many": strings.Repeat("203.0.113.7\n", maxEntries+1),
	} {
		t.Run(name, func(t *testing.T) {
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			o := Options{Source: file, Every: time.Second, Ban: time.Duration(len(name)) * time.Hour}
			if l, err := Acquire(o, false); err == nil {
				l.Release()
				t.Fatal("it is accepted where the config is only checked")
			}
			l, err := Acquire(o, true)
			if err != nil {
				t.Fatal(err)
			}
			defer l.Release()
			if l.State().Err == nil || l.State().Bans != 0 {
				t.Errorf("its state is %+v", l.State())
			}
			if again, err := Acquire(o, false); err == nil {
				again.Release()
				t.Error("a reload accepts it")
			}
			if err := os.WriteFile(file, []byte("203.0.113.7\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			again, err := Acquire(o, false) // before it was read again
			if err != nil {
				t.Fatal(err)
			}
			again.Release()
			if l.refresh(); !bans(l, "203.0.113.7") || l.State().Err != nil {
				t.Errorf("it isn't in force when it is right: %+v", l.State())
			}
		})
	}
}
