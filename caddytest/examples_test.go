package caddytest

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/testing/child"
	"github.com/caddy-tally/caddy-tally/internal/wording"
)

// TestExamplesAreValid adapts and validates everything that is shown to people
// as a config: the files in examples, and the blocks in the documentation.
func TestExamplesAreValid(t *testing.T) {
	samples := exampleFiles(t)
	for _, pattern := range []string{"../README.md", "../docs/*.md", "../docs/*/*.md"} {
		for _, name := range glob(t, pattern) {
			for line, block := range samplesIn(readSample(t, name)) {
				samples[fmt.Sprintf("%s:%d", filepath.ToSlash(name)[len("../"):], line)] = block
			}
		}
	}
	t.Setenv("XDG_DATA_HOME", t.TempDir())
	t.Setenv("SERVICE_TOKEN", strings.TrimPrefix(exampleToken, "SERVICE_TOKEN="))
	t.Setenv("PG_PASSWORD", "a-password")
	t.Setenv("REDIS_PASSWORD", "a-password")
	t.Setenv("TURNSTILE_SECRET", "a-secret-of-the-service")
	for name, sample := range samples {
		t.Run(name, func(t *testing.T) { checkSample(t, name, sample) })
	}
	if len(samples) < 6 {
		t.Errorf("found %d samples only", len(samples))
	}
}

// exampleToken is what examples of a service header want in the environment.
const exampleToken = "SERVICE_TOKEN=a token of the services"

func checkSample(t *testing.T, name, sample string) {
	t.Helper()
	sample = withFiles(sample)
	if config, ok := jsonSample(sample); ok {
		if err := validate(config); err != nil {
			t.Fatal(err)
		}
		return
	}
	config, warnings, err := adaptCaddyfile([]byte(sample), map[string]any{"filename": name})
	if err != nil {
		t.Fatal(err)
	}
	for _, warning := range warnings {
		t.Errorf("line %d: %s", warning.Line, warning.Message)
	}
	if err := validate(config); err != nil {
		t.Fatal(err)
	}
}

// jsonSample returns the config that a sample in JSON is, or one around the handler
// that it is.
func jsonSample(sample string) (config []byte, ok bool) {
	switch {
	case strings.HasPrefix(sample, "{\n  \"apps\""):
		return []byte(sample), true
	case strings.HasPrefix(sample, "{\n  \"handler\""):
		return []byte(`{"apps": {"http": {"servers": {"s": {"routes": [{"handle": [` + sample + `]}]}}}}}`), true
	}
	return nil, false
}

// TestExamplesStart starts a real Caddy with each of the examples, as it stands
// but for the ports and a store with time, and goes over a limit of it.
func TestExamplesStart(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("builds a Caddy")
	}
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "the site") }))
	defer site.Close()
	caddyBinary, err := caddyBinary()
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		file, method, path string
		allowed            int
		wait               time.Duration // that a refusal tells of, but for a slot and what has passed; 0 if jitter makes it any
		body               string        // of a refusal, with N for the seconds to wait
	}{
		{"Caddyfile", http.MethodPost, "/login", 5, time.Minute, "Too many requests. Try again in N."},
		{"Caddyfile", http.MethodGet, "/api/time", 10, time.Second, "Too many requests. Try again in N."},
		{"self-hosted.Caddyfile", http.MethodPost, "/login", 5, time.Minute, "Too many requests (login). Try again in N"},
		{"self-hosted.Caddyfile", http.MethodGet, "/downloads/file", 30, time.Hour, "Too many requests (downloads). Try again in N."},
		{"self-hosted.Caddyfile", http.MethodGet, "/.env", 0, time.Hour, "Too many requests (ban). Try again in N"},
		{"reverse-proxy.Caddyfile", http.MethodPost, "/login", 5, time.Minute, ""},
		{"migrate-from-mholt.Caddyfile", http.MethodGet, "/", 10, 0, "Refused by each_client."},
		{"sessions.Caddyfile", http.MethodGet, "/", 10, time.Minute, "Too many requests. Try again in N"},
		{"regions.Caddyfile", http.MethodGet, "/", 1000, time.Hour, ""},
		{"users.Caddyfile", http.MethodGet, "/", 10, time.Minute, "Too many requests (user). Try again in N."},
		{"api-tiers.Caddyfile", http.MethodGet, "/v1/time", 5, time.Second, `{"error": "Too Many Requests", "limit": "api"}`},
	} {
		t.Run(tt.file+tt.path, func(t *testing.T) {
			url := startExample(t, caddyBinary, tt.file, site.Listener.Addr().String())
			if tt.file == "users.Caddyfile" {
				url = strings.Replace(url, "://", "://alice:wonderland@", 1)
			}
			allowed, begin := 0, time.Now()
			answer, body := askExample(t, tt.method, url+tt.path)
			for answer.StatusCode == http.StatusOK && allowed < tt.allowed*(2+int(time.Since(begin)/time.Second)) { // a slow machine may see a bucket refilled
				allowed++
				answer, body = askExample(t, tt.method, url+tt.path)
			}
			if allowed < tt.allowed {
				t.Errorf("%d requests are let in, want %d", allowed, tt.allowed)
			}
			if answer.StatusCode != http.StatusTooManyRequests {
				t.Errorf("refused with %s, %v", answer.Status, answer.Header)
			}
			retry := answer.Header.Get("Retry-After")
			seconds, _ := strconv.Atoi(retry)
			wait := time.Duration(seconds) * time.Second
			if wait < max(tt.wait-time.Since(begin), time.Second) || tt.wait > 0 && wait > tt.wait+tt.wait/10+time.Second {
				t.Errorf("told to wait for %q seconds, want %v", retry, tt.wait)
			}
			if want := strings.Replace(tt.body, "N", wording.Wait(wait), 1); !strings.HasPrefix(body, want) {
				t.Errorf("refused with %q, want %q", body, want)
			}
		})
	}
}

// startExample starts Caddy with an example in a folder of its own, and returns its
// URL. The test ends it.
func startExample(t *testing.T, caddyBinary, file, upstream string) string {
	t.Helper()
	folder := t.TempDir()
	if err := os.CopyFS(filepath.Join(folder, "examples"), os.DirFS("../examples")); err != nil {
		t.Fatal(err)
	}
	port, admin := freePort(t), "localhost:"+freePort(t)
	name := filepath.Join(folder, "examples", file)
	config := replaceInExample(t, readSample(t, name), ":8080 {", ":"+port+" {")
	config = withPatience(config)
	config = strings.NewReplacer("examples/data/", filepath.ToSlash(t.TempDir())+"/", "localhost:2020", admin, "127.0.0.1:3000\n", upstream+"\n").Replace(config)
	if err := os.WriteFile(name, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}

	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	command := exec.CommandContext(ctx, caddyBinary, "run", "--adapter", "caddyfile", "--config", filepath.Join("examples", file))
	command.Dir = folder
	command.Env = append(append(os.Environ(), frugal()...), exampleToken, "CADDY_ADMIN="+admin, "HOME="+folder,
		"XDG_DATA_HOME="+filepath.Join(folder, "data"), "XDG_CONFIG_HOME="+filepath.Join(folder, "config"))
	log, err := command.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(command); err != nil {
		t.Fatal(err)
	}
	drained := make(chan struct{})
	t.Cleanup(func() {
		cancel()
		<-drained
		_ = child.Wait(command) // it was killed
	})
	ready, seen := make(chan bool, 2), new(strings.Builder)
	go func() {
		defer close(drained)
		for lines := bufio.NewScanner(log); lines.Scan(); {
			fmt.Fprintln(seen, lines.Text())
			if strings.Contains(lines.Text(), "serving initial configuration") {
				ready <- true
			}
		}
		ready <- false
	}()
	if !<-ready {
		t.Fatalf("Caddy does not start:\n%s", seen)
	}
	return "http://127.0.0.1:" + port
}

// withPatience gives the store of an example time, as [patient] does.
func withPatience(config string) string {
	const block, end = "\trate_limit {\n", "\n}\n"
	options, sites, _ := strings.Cut(config, end)
	if !strings.Contains(options+"\n", block) {
		options += "\n" + block + "\t}"
	}
	return strings.Replace(options, block, block+"\t\tstore_timeout 1m\n", 1) + end + sites
}

func askExample(t *testing.T, method, url string) (*http.Response, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer, string(body)
}

func exampleFiles(t *testing.T) map[string]string {
	t.Helper()
	files := make(map[string]string)
	for _, pattern := range []string{"../examples/*Caddyfile", "../examples/*/*Caddyfile"} {
		for _, name := range glob(t, pattern) {
			files[strings.TrimPrefix(filepath.ToSlash(name), "../")] = withFiles(readSample(t, name))
		}
	}
	return files
}

var sampleFence = regexp.MustCompile("(?ms)^```(?:caddyfile|json)\n(.*?)^```$")

// samplesIn returns the blocks of a Markdown text that are configs, by the line
// they begin in. JSON in one line is what Caddy says.
func samplesIn(text string) map[int]string {
	blocks := make(map[int]string)
	for _, m := range sampleFence.FindAllStringSubmatchIndex(text, -1) {
		if block := text[m[2]:m[3]]; strings.Count(block, "\n") > 1 {
			blocks[strings.Count(text[:m[2]], "\n")+1] = block
		}
	}
	return blocks
}

func readSample(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

var (
	mmdbFile = regexp.MustCompile(` /\S+\.mmdb`)
	botsFile = regexp.MustCompile(` /\S+/bots\.json`)
)

// withFiles replaces the files of `networks`, `signed_bot` and `import`, which must exist, by those of the
// tests and examples.
func withFiles(config string) string {
	if here, err := filepath.Abs("../examples"); err == nil {
		config = strings.ReplaceAll(config, "import /etc/caddy/", "import "+filepath.ToSlash(here)+"/")
	}
	return botsFile.ReplaceAllString(mmdbFile.ReplaceAllString(config, " "+networksFile), " testdata/bots.json")
}

func replaceInExample(t *testing.T, text, old, with string) string {
	t.Helper()
	if !strings.Contains(text, old) {
		t.Fatalf("there is no %q in\n%s", old, text)
	}
	return strings.ReplaceAll(text, old, with)
}
