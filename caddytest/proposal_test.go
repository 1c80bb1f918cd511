package caddytest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/accesslog"
	"github.com/caddy-tally/caddy-tally/internal/proposal"
	"github.com/caddy-tally/caddy-tally/internal/replay"
	"github.com/caddy-tally/caddy-tally/internal/replayer"
	"github.com/caddy-tally/caddy-tally/internal/testing/proof"
)

// initOf runs `caddy rate-limit init` for a Caddyfile.
func initOf(t *testing.T, file string, args ...string) (out string, err error) {
	t.Helper()
	cmd := proposal.Command(func() (proposal.Source, error) {
		return proposal.Load(file, "")
	})
	var said bytes.Buffer
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetOut(&said)
	cmd.SetErr(&said)
	cmd.SetArgs(append([]string{}, args...)) // nil would be those of this program
	err = cmd.ExecuteContext(t.Context())
	return said.String(), err
}

// withoutLimits removes the blocks of the limiter from a Caddyfile.
func withoutLimits(text string) string {
	var kept strings.Builder
	depth := 0
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if depth == 0 && (len(words) == 0 || !strings.HasPrefix(words[0], "rate_limit")) {
			kept.WriteString(line)
			continue
		}
		if line = strings.TrimSpace(line); strings.HasSuffix(line, "{") {
			depth++
		} else if line == "}" {
			depth--
		}
	}
	return kept.String()
}

// logWriter writes an access log as Caddy does.
type logWriter struct {
	strings.Builder
	now time.Time
}

func (w *logWriter) add(from, method, address string, status int) {
	u, err := url.Parse(address)
	if err != nil {
		panic(err)
	}
	line := map[string]any{
		"level": "info", "ts": float64(w.now.UnixMilli()) / 1000, "logger": "http.log.access.log0", "msg": "handled request",
		"request": map[string]any{
			"remote_ip": from, "client_ip": from, "proto": "HTTP/2.0", "method": method, "host": u.Host, "uri": u.RequestURI(),
			"headers": map[string][]string{"User-Agent": {"Mozilla/5.0"}}, "tls": map[string]any{"server_name": u.Hostname()},
		},
		"duration": 0.01, "size": 1000, "status": status,
	}
	raw, _ := json.Marshal(line)
	w.Write(append(raw, '\n'))
}

// wantProposal writes the proposal for a Caddyfile and a log into the file, and checks that the file loads
// without a warning, keeps all its lines, and, enforced, refuses none of the honest clients of the log, but
// where the reason beside the limit says what to do if its one client was a person. It returns the file with
// the proposal in shadow.
func wantProposal(t *testing.T, text, log string, honest func(client netip.Prefix) bool) string {
	t.Helper()
	folder := t.TempDir()
	file, logFile := filepath.Join(folder, "Caddyfile"), filepath.Join(folder, "access.log")
	writeAll(t, map[string]string{file: text, logFile: log})
	before, err := load(t, text)
	if err != nil {
		t.Fatal(err)
	}
	var args []string
	if log != "" {
		args = []string{"--log", logFile}
	}
	if out, err := initOf(t, file, append(args, "--write")...); err != nil && err.Error() != "nothing was written: no zone is proposed" {
		t.Fatalf("%v\n%s", err, out)
	}
	raw, _ := os.ReadFile(file)
	written := string(raw)
	if strings.Contains(written, "9999") || strings.Contains(written, "#\n") {
		t.Errorf("a limit has no number, or no reason:\n%s", written)
	}
	if got := withoutLimits(written); got != text {
		t.Errorf("the file is\n%s\n\nand without limits it was\n%s", got, text)
	}
	after, err := load(t, written)
	if err != nil || len(after) > len(before) {
		t.Errorf("error %v, warnings %+v of\n%s", err, after, written)
	}
	if log == "" || !strings.Contains(written, "rate_limit {") {
		return written
	}
	if out, err := initOf(t, file, "--enforce"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	config, err := replayer.Load(file, "caddyfile")
	if err != nil {
		t.Fatal(err)
	}
	defer config.Close()
	parser, _ := accesslog.NewParser("")
	merger, err := accesslog.NewMerger(parser, []string{logFile}, nil)
	if err != nil {
		t.Fatal(err)
	}
	report, err := config.Replay(t.Context(), merger, replay.Options{Reveal: true, Top: 1000})
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range report.Limits {
		if l.Shadow {
			t.Errorf("zone %s is still in shadow", l.Zone)
		}
		for _, c := range l.Top {
			if honest(netip.MustParsePrefix(c.Client)) && !saysToRaise(written, l.Zone) {
				t.Errorf("zone %s, %s would refuse %d requests of %s in\n%s", l.Zone, l.Text, c.Refused, c.Client, written)
			}
		}
	}
	return written
}

// wantPrinted checks that the proposal that is printed for a Caddyfile loads.
func wantPrinted(t *testing.T, path string) {
	t.Helper()
	printed, err := initOf(t, path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := load(t, printed); err != nil && strings.Contains(printed, "rate_limit {") {
		t.Errorf("what is printed doesn't load: %v\n%s", err, printed)
	}
}

// saysToRaise reports whether a zone of a proposal says that a limit is to be raised if a client was a person.
func saysToRaise(proposal, zone string) bool {
	_, text, _ := strings.Cut(proposal, "zone "+zone+" {")
	text, _, _ = strings.Cut(text, "}")
	return strings.Contains(strings.Join(strings.Fields(strings.ReplaceAll(text, "#", " ")), " "), "if that was a person, raise this")
}

func writeAll(t *testing.T, files map[string]string) {
	t.Helper()
	for path, text := range files {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

var hostsOfConfig = regexp.MustCompile(`(?m)^(?:https?://)?([a-z][\w-]*(?:\.[\w-]+)+)`)

// visits returns a log of the sites of a Caddyfile: of people, who read pages, use APIs and sign in, of two who
// guess passwords and of a scraper.
func visits(text string) string {
	random := rand.New(rand.NewPCG(45, 1))
	w := &logWriter{now: time.Date(2026, 11, 1, 8, 0, 0, 0, time.UTC)}
	for _, found := range hostsOfConfig.FindAllStringSubmatch(text, -1) {
		site := "https://" + found[1]
		for i := range 800 {
			w.now = w.now.Add(time.Duration(random.IntN(2000)) * time.Millisecond)
			person := fmt.Sprintf("203.0.113.%d", random.IntN(40))
			switch n := random.IntN(100); {
			case n < 50:
				w.add(person, "GET", fmt.Sprintf("%s/page/%d", site, n), 200)
			case n < 75:
				w.add(person, "GET", fmt.Sprintf("%s/api/v1/items/%d", site, n), 200)
			case n < 78:
				w.add(person, "POST", site+[]string{"/login", "/user/login", "/api/auth/login"}[n%3], []int{200, 401, 302, 200}[i%4])
			case n < 84:
				w.add("198.51.100.7", "GET", fmt.Sprintf("%s/page/%d", site, i), 200)
			default:
				w.add(fmt.Sprintf("198.51.100.%d", 8+n%2), "POST", site+"/login", 401)
			}
		}
	}
	return w.String()
}

// For Caddyfiles of real sites without limits, a proposal loads without a warning, with a log and without one.
// With one, it refuses no person.
func TestProposalsForRealConfigs(t *testing.T) {
	noData(t)
	paths, err := filepath.Glob("testdata/real/*.Caddyfile")
	if err != nil || len(paths) < 30 {
		t.Fatalf("%d files, error %v", len(paths), err)
	}
	proposed := 0
	for i, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".Caddyfile"), func(t *testing.T) {
			raw, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			text := withoutLimits(string(raw))
			isPerson := netip.MustParsePrefix("203.0.113.0/24").Overlaps
			if i%6 == 0 || proof.IsOn() {
				if log := visits(text); log != "" {
					wantProposal(t, text, log, isPerson)
				}
				file := filepath.Join(t.TempDir(), "Caddyfile")
				writeAll(t, map[string]string{file: text})
				wantPrinted(t, file)
			}
			if strings.Contains(wantProposal(t, text, "", isPerson), "rate_limit {") {
				proposed++
			}
		})
	}
	if proposed < len(paths)/2 {
		t.Errorf("%d of %d configs have a proposal without a log", proposed, len(paths))
	}
}

// For recipes without their limits, and a log of the traffic that they are for, a proposal refuses no person.
func TestProposalsForRecipes(t *testing.T) {
	noData(t)
	for i, r := range recipes {
		if i%4 > 0 && !proof.IsOn() {
			continue
		}
		if len(r.traffic) == 0 || len(r.files) > 0 || r.name == "firewall" || r.name == "applications" {
			continue // a log is useless without limits, or all clients are on this machine
		}
		t.Run(r.name, func(t *testing.T) {
			raw, err := os.ReadFile("../examples/recipes/" + r.name + ".Caddyfile")
			if err != nil {
				t.Skip("no recipe")
			}
			text := withoutLimits(string(raw))
			for _, name := range r.imports {
				path, err := filepath.Abs("../examples/" + name)
				if err != nil {
					t.Fatal(err)
				}
				text = strings.ReplaceAll(text, "/etc/caddy/"+name, path)
			}
			w := &logWriter{now: time.Date(2026, 11, 1, 8, 0, 0, 0, time.UTC)}
			honest := make(map[netip.Addr]int)
			for _, wave := range r.traffic {
				method, rest, _ := strings.Cut(wave.line, " ")
				address, _, _ := strings.Cut(rest, " ")
				from := netip.MustParseAddr(wave.from)
				for n := range wave.n {
					w.now = w.now.Add(100 * time.Millisecond)
					status := wave.want
					if status == 429 || status == 403 {
						status = 401 // as without limits
					}
					if honest[from]++; wave.want == 429 {
						honest[from] -= 100 // the recipe refuses this client
					} else if status == 401 || status == 404 {
						honest[from] -= 2
					}
					w.add(wave.from, method, strings.ReplaceAll(address, "{n}", fmt.Sprint(n)), status)
				}
			}
			wantProposal(t, text, w.String(), func(client netip.Prefix) bool {
				for from, score := range honest {
					if client.Contains(from) && score >= 0 && from.String() != attacker {
						return true
					}
				}
				return false
			})
		})
	}
}
