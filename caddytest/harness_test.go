package caddytest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"

	"github.com/caddy-tally/caddy-tally/internal/testing/child"
	"github.com/caddy-tally/caddy-tally/internal/testing/proof"
)

// patience is how long a test waits for something that will happen.
const patience = time.Minute

// scratch is the folder for temporary files. It is there until all tests are done.
var scratch string

// scratchParent is where that folder is made, or "" for the usual place, as with PROOF.
var scratchParent string

func TestMain(m *testing.M) {
	if isCaddy() {
		shiftClocks()
		caddycmd.Main()
		return
	}
	proof.Overlap()
	if !proof.IsOn() {
		debug.SetGCPercent(400) // most of what tests allocate is garbage soon
	}
	os.Exit(runTests(m))
}

func runTests(m *testing.M) int {
	var err error
	if scratch, err = os.MkdirTemp(scratchParent, "ct-"); err == nil { // a short name: paths of sockets may not be long
		err = errors.Join(child.RemoveFolder(scratch), os.Setenv("TMPDIR", scratch),
			os.Chmod(scratch, 0o777|os.ModeSticky)) // servers of SQL run as other users
	}
	if err != nil {
		log.Print(err)
		return 1
	}
	defer os.RemoveAll(scratch)
	return m.Run()
}

// caddyName is the name under which this program, the tests with all that is in a Caddy, is one.
const caddyName = "caddy.exe"

func isCaddy() bool { return filepath.Base(os.Args[0]) == caddyName }

// caddyBinary returns the path of a Caddy with this module: of the tests themselves, which have
// all of it in them, so nothing is built. CADDYTEST_BINARY names another to be tested, such as
// one built by xcaddy.
var caddyBinary = sync.OnceValues(func() (string, error) {
	if path := os.Getenv("CADDYTEST_BINARY"); path != "" {
		return path, nil
	}
	tests, err := os.Executable()
	if err != nil {
		return "", err
	}
	path := filepath.Join(scratch, caddyName)
	return path, os.Symlink(tests, path)
})

// server is a Caddy with a folder of its own, which may be started again when it
// has ended. Its Caddyfile finds in the environment what is free for it to use:
//
//	{$ADMIN}  the address of the admin endpoint
//	{$PORT}   a port of 127.0.0.1, where requests of the test go
//	{$TLS}    another
//	{$OTHER}  another
//	{$DIR}    the folder
type server struct {
	t      *testing.T
	dir    string
	env    []string
	admin  string
	port   string
	tls    string
	other  string
	config string // path
	binary string // or "" for the usual one
	before string // what a shell does before it starts Caddy, if anything
	client *http.Client

	attributes *syscall.SysProcAttr // of the processes that are started

	cmd   *exec.Cmd
	ended chan struct{} // closed when the process has
	err   error         // what it ended with, once ended is closed
}

// newServer prepares a server that is not started yet. More of its environment
// is given in the form NAME=value.
func newServer(t *testing.T, config string, env ...string) *server {
	t.Helper()
	s := &server{
		t: t, dir: t.TempDir(),
		admin: "127.0.0.1:" + freePort(t), port: freePort(t), other: freePort(t),
		client: newClient(),
	}
	tls, guard, err := child.TakePort()
	if err != nil {
		t.Fatal(err)
	}
	guard.Close() // HTTP/3 uses the port, too
	s.tls = tls
	s.env = append([]string{
		"PATH=" + os.Getenv("PATH"), "SystemRoot=" + os.Getenv("SystemRoot"),
		"HOME=" + s.dir, "AppData=" + s.dir,
		"XDG_DATA_HOME=" + s.data(), "XDG_CONFIG_HOME=" + filepath.Join(s.dir, "config"),
		"ADMIN=" + s.admin, "PORT=" + s.port, "TLS=" + s.tls, "OTHER=" + s.other, "DIR=" + s.dir,
	}, append(frugal(), env...)...)
	s.setConfig(config)
	t.Cleanup(s.cleanUp)
	return s
}

// frugal is what keeps a Caddy of a few seconds from collecting what is needed all the time, and from reading
// the system's certificates, of which it needs none.
func frugal() []string {
	if proof.IsOn() {
		return nil
	}
	return []string{"GOGC=off", "GOMEMLIMIT=256MiB", "SSL_CERT_FILE=" + os.DevNull, "SSL_CERT_DIR=" + os.DevNull}
}

// startCaddy starts a server.
func startCaddy(t *testing.T, config string, env ...string) *server {
	t.Helper()
	s := newServer(t, config, env...)
	s.start()
	return s
}

// zoneBegin is where a zone begins in a Caddyfile.
var zoneBegin = regexp.MustCompile(`zone (\w+) \{`)

// startSites starts one Caddy for the sites of several cases, which are on {$PORT} and know nothing of
// one another: each gets another port, and zones of its own. The sites are in turns where its requests
// go, when at is called with their number.
func startSites(t *testing.T, global string, sites []string, env ...string) (s *server, at func(n int)) {
	t.Helper()
	ports, config := make([]string, len(sites)), options(global)
	for i, site := range sites {
		ports[i] = freePort(t)
		config += zoneBegin.ReplaceAllString(strings.ReplaceAll(site, "{$PORT}", ports[i]), fmt.Sprintf("zone ${1}-%d {", i))
	}
	s = startCaddy(t, config, env...)
	return s, func(n int) { s.port = ports[n] }
}

// eachSite calls test for each of some sites, which one Caddy has as startSites says, as a subtest with the site's name.
func eachSite(t *testing.T, global string, sites map[string]string, test func(t *testing.T, s *server, name string)) {
	t.Helper()
	names := slices.Sorted(maps.Keys(sites))
	var list []string
	for _, name := range names {
		list = append(list, sites[name])
	}
	s, at := startSites(t, global, list)
	for i, name := range names {
		t.Run(name, func(t *testing.T) {
			at(i)
			whole := s.t
			s.t = t
			defer func() { s.t = whole }()
			test(t, s, name)
		})
	}
}

// setConfig writes the config for the next start: a Caddyfile or JSON.
func (s *server) setConfig(config string) {
	s.t.Helper()
	s.config = filepath.Join(s.dir, "Caddyfile")
	if strings.HasPrefix(config, `{"`) {
		s.config = filepath.Join(s.dir, "caddy.json")
	}
	if err := os.WriteFile(s.config, []byte(config), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

// data is the folder that Caddy's data directory lies in.
func (s *server) data() string { return filepath.Join(s.dir, "data") }

// database is where the database is unless the config says otherwise.
func (s *server) database() string {
	return filepath.Join(s.data(), "caddy", "rate_limit", "tally.db")
}

// command returns a command of Caddy with the server's environment, which writes
// to the server's log.
func (s *server) command(args ...string) *exec.Cmd {
	s.t.Helper()
	binary := s.binary
	if binary == "" {
		var err error
		if binary, err = caddyBinary(); err != nil {
			s.t.Fatal(err)
		}
	}
	cmd := exec.Command(binary, args...)
	if s.before != "" {
		cmd = exec.Command("sh", append([]string{"-c", s.before + ` && exec "$@"`, "sh", binary}, args...)...)
	}
	cmd.Env, cmd.Dir, cmd.SysProcAttr = s.env, s.dir, s.attributes
	return cmd
}

// run runs a command of Caddy to its end, and returns what it says.
func (s *server) run(args ...string) (string, error) {
	s.t.Helper()
	out, err := s.command(args...).CombinedOutput()
	return string(out), err
}

// runByConfig runs a command that finds Caddy by a config, which can be read only once.
func (s *server) runByConfig(args ...string) (string, error) {
	s.t.Helper()
	config, err := os.Open(s.config)
	if err != nil {
		s.t.Fatal(err)
	}
	defer config.Close()
	cmd := s.command(append(args, "--config", "-", "--adapter", "caddyfile")...)
	cmd.Stdin = config
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// start starts Caddy and waits until its config runs.
func (s *server) start() {
	s.t.Helper()
	s.launch()
	s.awaitReady()
}

// awaitReady waits until the config of a Caddy that was launched runs.
func (s *server) awaitReady() {
	s.t.Helper()
	deadline := time.Now().Add(patience)
	for !s.isReady() {
		select {
		case <-s.ended:
			s.t.Fatalf("Caddy has ended before it was ready: %v", s.err)
		case <-time.After(10 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			s.t.Fatal("Caddy is not ready")
		}
	}
}

// launch starts Caddy and waits for nothing.
func (s *server) launch() {
	s.t.Helper()
	logs, err := os.OpenFile(s.logFile(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		s.t.Fatal(err)
	}
	defer logs.Close()
	s.client.CloseIdleConnections()
	s.cmd = s.command("run", "--config", s.config)
	s.cmd.Stdout, s.cmd.Stderr = logs, logs
	if err := child.Start(s.cmd); err != nil {
		s.t.Fatal(err)
	}
	cmd, ended := s.cmd, make(chan struct{})
	s.ended = ended
	go func() {
		s.err = child.Wait(cmd)
		close(ended)
	}()
}

// isReady reports whether the config runs: while it is loaded, this request waits.
func (s *server) isReady() bool {
	a, err := s.askAdmin(http.MethodGet, "/config/apps/http/")
	return err == nil && a.status == http.StatusOK && !strings.HasPrefix(a.body, "null")
}

// askAdmin sends a request to the admin endpoint, on a connection of its own: every
// reload replaces the endpoint.
func (s *server) askAdmin(method, path string) (answer, error) {
	return insist(func() (answer, error) {
		r, err := http.NewRequest(method, "http://"+s.admin+path, nil)
		if err != nil {
			return answer{}, err
		}
		r.Close = true
		return do(s.client, r)
	})
}

// kill ends Caddy as a crash does.
func (s *server) kill() {
	s.t.Helper()
	if err := s.cmd.Process.Kill(); err != nil {
		s.t.Fatal(err)
	}
	<-s.ended
}

// stop has Caddy end in good order.
func (s *server) stop() {
	s.t.Helper()
	_, err := s.askAdmin(http.MethodPost, "/stop")
	if err != nil && !errors.Is(err, syscall.ECONNREFUSED) { // it may have stopped before it could answer
		s.t.Fatal(err)
	}
	s.awaitEnd()
}

// awaitEnd waits for Caddy to end, which must be in good order.
func (s *server) awaitEnd() {
	s.t.Helper()
	select {
	case <-s.ended:
	case <-time.After(patience):
		s.t.Fatal("Caddy goes on after it was told to stop")
	}
	if s.err != nil {
		s.t.Fatalf("Caddy ended with %v", s.err)
	}
}

// reload gives Caddy another config, or the same once more, and returns why it
// rejects that. It returns when no request can reach the config that is out of force
// then: for a moment, Caddy has the servers of both.
func (s *server) reload(config string) error {
	s.t.Helper()
	err := s.load(config)
	waitFor(s.t, "the other config's servers to end", func() bool {
		a, err := s.askAdmin(http.MethodGet, "/debug/pprof/goroutine?debug=1")
		return err == nil && a.status == http.StatusOK && !strings.Contains(a.body, "caddyhttp.(*App).stop")
	})
	return err
}

// load is reload without the wait. Every reload replaces the admin endpoint as
// well, which may cut off a request that comes too early after the last one.
func (s *server) load(config string) error {
	kind := "text/caddyfile"
	if strings.HasPrefix(config, `{"`) {
		kind = "application/json"
	}
	var err error
	for range 10 {
		r, _ := http.NewRequest(http.MethodPost, "http://"+s.admin+"/load", strings.NewReader(config))
		r.Close = true
		var a answer
		a, err = do(s.client, r, "Content-Type: "+kind, "Cache-Control: must-revalidate") // even if nothing has changed
		switch {
		case err == nil && a.status == http.StatusOK && !strings.Contains(a.body, `{"error":`): // Caddy 2.11.4 writes it after warnings
			return nil
		case err == nil:
			return fmt.Errorf("status %d: %s", a.status, a.body)
		}
	}
	return err
}

// mustReload reloads with a config that must be accepted.
func (s *server) mustReload(config string) {
	s.t.Helper()
	if err := s.reload(config); err != nil {
		s.t.Fatalf("reload: %v", err)
	}
}

func (s *server) logFile() string { return filepath.Join(s.dir, "caddy.log") }

// logs returns what Caddy has logged so far, in all its lives.
func (s *server) logs() string {
	s.t.Helper()
	logs, err := os.ReadFile(s.logFile())
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		s.t.Fatal(err)
	}
	return string(logs)
}

// cleanUp ends Caddy if it is still there, and shows its log if the test failed.
func (s *server) cleanUp() {
	if s.cmd != nil && s.cmd.Process != nil {
		s.cmd.Process.Kill()
		<-s.ended
	}
	s.client.CloseIdleConnections()
	logs := s.logs()
	const shown = 8 << 10
	if s.t.Failed() {
		cut := max(len(logs)-shown, 0)
		for line := range strings.Lines(logs[:cut]) {
			if strings.Contains(line, `"level":"error"`) {
				s.t.Log(line[:min(len(line), shown)])
			}
		}
		s.t.Logf("log of Caddy in %s:\n%s", s.dir, logs[cut:])
	}
	for _, bad := range []string{"panic: ", "DATA RACE"} {
		if i := strings.Index(logs, bad); i >= 0 {
			s.t.Errorf("Caddy logged a %q:\n%s", bad, logs[i:min(i+shown, len(logs))])
		}
	}
}

// answer is a response, read to its end.
type answer struct {
	status int
	header http.Header
	body   string
}

// try sends a request with header fields in the form "Name: value".
func (s *server) try(method, path string, fields ...string) (answer, error) {
	r, err := http.NewRequest(method, "http://127.0.0.1:"+s.port+path, nil)
	if err != nil {
		return answer{}, err
	}
	return do(s.client, r, fields...)
}

// do sends a request and reads the response to its end.
func do(client *http.Client, r *http.Request, fields ...string) (answer, error) {
	for _, field := range fields {
		name, value, _ := strings.Cut(field, ": ")
		r.Header.Add(name, value)
	}
	response, err := client.Do(r)
	if err != nil {
		return answer{}, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return answer{response.StatusCode, response.Header, string(body)}, err
}

// insist has a request sent, and again if the connection ends without an answer, as
// connections do that reach a listener which a reload has just closed.
func insist(send func() (answer, error)) (a answer, err error) {
	for range 5 {
		a, err = send()
		if !errors.Is(err, syscall.ECONNRESET) && !errors.Is(err, syscall.EPIPE) && !errors.Is(err, io.EOF) {
			break
		}
	}
	return a, err
}

// send sends a request that must be answered.
func (s *server) send(method, path string, fields ...string) answer {
	s.t.Helper()
	a, err := insist(func() (answer, error) { return s.try(method, path, fields...) })
	if err != nil {
		s.t.Fatal(err)
	}
	return a
}

func (s *server) get(path string, fields ...string) answer {
	s.t.Helper()
	return s.send(http.MethodGet, path, fields...)
}

// passed counts how many of n requests, one after another, are not refused.
func (s *server) passed(n int, path string, fields ...string) (passed int) {
	s.t.Helper()
	for range n {
		if s.get(path, fields...).isAllowed(s.t) {
			passed++
		}
	}
	return passed
}

// isAllowed reports whether a request was allowed or refused, one of which it must
// have been.
func (a answer) isAllowed(t *testing.T) bool {
	t.Helper()
	if a.status != http.StatusOK && a.status != http.StatusTooManyRequests {
		t.Errorf("status is %d, want 200 or 429: %s", a.status, a.body)
	}
	return a.status == http.StatusOK
}

// passedOfBurst counts how many of n requests at once are not refused. It may be
// called from any goroutine.
func (s *server) passedOfBurst(n int, path string, fields ...string) (passed int) {
	s.t.Helper()
	answers, errs := make([]answer, n), make([]error, n)
	begin := make(chan struct{})
	var done sync.WaitGroup
	for i := range n {
		done.Go(func() {
			<-begin
			answers[i], errs[i] = insist(func() (answer, error) { return s.try(http.MethodGet, path, fields...) })
		})
	}
	close(begin)
	done.Wait()
	if err := errors.Join(errs...); err != nil {
		s.t.Error(err)
	}
	for i, a := range answers {
		if errs[i] == nil && a.isAllowed(s.t) {
			passed++
		}
	}
	return passed
}

// wantPassed checks that of n requests, one after another, as many pass.
func (s *server) wantPassed(want, n int, path string, fields ...string) {
	s.t.Helper()
	if passed := s.passed(n, path, fields...); passed != want {
		s.t.Errorf("of %d requests for %s %.80q, %d passed, want %d", n, path, fields, passed, want)
	}
}

// newClient returns a client that keeps as many connections as it can use, asks
// no proxy, follows no redirect and speaks HTTP/1.1.
func newClient() *http.Client {
	return &http.Client{
		Timeout:       patience,
		Transport:     &http.Transport{MaxIdleConnsPerHost: 1000, DisableCompression: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// freePort returns a port of 127.0.0.1 that nobody uses, for TCP.
func freePort(t *testing.T) string {
	t.Helper()
	port, err := child.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// options are the global options of a test's Caddyfile, with more of them. The
// store may take its time: a machine that runs tests may be slow, and what holds
// without a store is tested elsewhere.
func options(more string) string {
	return `{
	admin {$ADMIN}
	default_bind 127.0.0.1
	persist_config off
	skip_install_trust
	storage_check off
	storage_clean_interval off
	` + more + `
}
`
}

// patient has the counts kept in the default place, by a store with time.
const patient = `
	rate_limit {
		store_timeout 1m
	}
	`

// trusting trusts what tests say in X-Forwarded-For.
const trusting = `
	servers {
		trusted_proxies static 127.0.0.1/8
	}
	`

// site is a site on {$PORT}.
func site(body string) string {
	return "http://:{$PORT} {\n" + body + "\n}\n"
}

// config is a Caddyfile of one site that says hello within limits.
func config(handler string) string {
	return options(patient+trusting) + site("rate_limit {\n"+handler+"\n}\nrespond hello")
}

// waitFor waits until something is so.
func waitFor(t *testing.T, what string, isSo func() bool) {
	t.Helper()
	waitUpTo(t, patience, what, isSo)
}

// waitUpTo is waitFor with a time of its own.
func waitUpTo(t *testing.T, most time.Duration, what string, isSo func() bool) {
	t.Helper()
	pause := time.Millisecond
	for deadline := time.Now().Add(most); !isSo(); time.Sleep(pause) {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain for %s", what)
		}
		pause = min(2*pause, 50*time.Millisecond) // what takes long is looked at less often
	}
}

// logLines returns the lines of the log that have a message.
func (s *server) logLines(message string) (lines []map[string]any) {
	s.t.Helper()
	for line := range strings.Lines(s.logs()) {
		var fields map[string]any
		if json.Unmarshal([]byte(line), &fields) == nil && fields["msg"] == message {
			lines = append(lines, fields)
		}
	}
	return lines
}
