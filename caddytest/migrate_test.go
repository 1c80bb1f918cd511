package caddytest

import (
	"context"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

// migration is a config of another program and the Caddyfile that limits alike, both in
// examples/migrate, with bursts for both.
type migration struct {
	name   string // of the Caddyfile
	config string // of the other program
	start  func(t *testing.T, config, backend string) (address string)
	bursts []burst
}

// burst is n requests from an address, one after the other. Those that pass are between
// pass, and what is refilled meanwhile in addition.
type burst struct {
	from    string
	n, pass int
	line    string
	refill  float64 // a second
}

var migrations = []migration{
	{"nginx", "nginx.conf", startNginx, []burst{
		{"127.0.1.1", 60, 60, "GET /", 10},
		{"127.0.1.2", 200, 101, "GET /", 10},
		{"127.0.1.3", 30, 5, "POST /login", 5. / 60},
		{"127.0.1.3", 30, 30, "GET /", 10},
		{"127.0.1.1", 3, 3, "POST /login", 5. / 60},
	}},
	{"haproxy", "haproxy.cfg", startHAProxy, []burst{
		{"127.0.1.1", 60, 60, "GET /", 0},
		{"127.0.1.2", 200, 100, "GET /", 0},
		{"127.0.1.3", 30, 5, "POST /login", 0},
		{"127.0.1.3", 30, 30, "GET /login", 0},
		{"127.0.1.1", 3, 3, "POST /login", 0},
	}},
	{"traefik", "traefik.yaml", startTraefik, []burst{
		{"127.0.1.1", 60, 60, "GET /", 10},
		{"127.0.1.2", 200, 100, "GET /", 10},
		{"127.0.1.3", 30, 5, "POST /login", 5. / 60},
		{"127.0.1.1", 3, 3, "POST /login", 5. / 60},
	}},
	{"mholt", "mholt-before.Caddyfile", startMholt, []burst{
		{"127.0.1.1", 60, 60, "GET /", 0},
		{"127.0.1.2", 200, 100, "GET /", 0},
		{"127.0.1.3", 30, 5, "POST /login", 0},
		{"127.0.1.1", 3, 3, "POST /login", 0},
	}},
}

// A Caddyfile on a page about migration lets through what the config beside it does, in
// the program that it is of.
func TestMigrations(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("builds a Caddy")
	}
	if runtime.GOOS != "linux" {
		t.Skip("clients have addresses that only Linux has without being told")
	}
	site := standIn{"/": always(http.StatusOK)}
	for _, m := range migrations {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			ours := startRecipe(t, recipe{file: "migrate/" + m.name, backends: map[string]standIn{"127.0.0.1:3000": site}})
			for _, b := range m.bursts {
				b.send(t, "Caddy", ours.port, ours.client(b.from))
			}
			theirs := m.start(t, readSample(t, "../examples/migrate/"+m.config), site.start(t))
			for _, b := range m.bursts {
				b.send(t, m.name, theirs, clientAt(t, b.from))
			}
		})
	}
}

// send sends a burst to a port, and checks how many pass.
func (b burst) send(t *testing.T, program, port string, client *http.Client) {
	t.Helper()
	method, path, _ := strings.Cut(b.line, " ")
	passed, begin := 0, time.Now()
	for range b.n {
		r, err := http.NewRequest(method, "http://127.0.0.1:"+port+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		a, err := do(client, r)
		if err != nil {
			t.Fatalf("%s: %v", program, err)
		}
		if a.isAllowed(t) {
			passed++
		}
	}
	if most := float64(b.pass) + b.refill*time.Since(begin).Seconds() + 1; passed < b.pass || float64(passed) > most {
		t.Errorf("%s: of %d × %s from %s, %d passed, want %d to %.0f", program, b.n, b.line, b.from, passed, b.pass, most)
	}
}

// clientAt returns a client with an address of this machine.
func clientAt(t *testing.T, from string) *http.Client {
	client := newClient()
	client.Transport.(*http.Transport).DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
		return dialer.DialContext(ctx, network, address)
	}
	t.Cleanup(client.CloseIdleConnections)
	return client
}

func startNginx(t *testing.T, config, backend string) string {
	const own = "http {\naccess_log off; client_body_temp_path body; fastcgi_temp_path fastcgi; proxy_temp_path proxy; scgi_temp_path scgi; uwsgi_temp_path uwsgi;\n"
	port := freePort(t)
	config = replaceInExample(t, config, "listen 8080;", "listen 127.0.0.1:"+port+";")
	config = replaceInExample(t, config, "127.0.0.1:3000", backend)
	config = "daemon off; master_process off; pid nginx.pid;\n" + replaceInExample(t, config, "http {\n", own)
	return startRival(t, "/usr/sbin/nginx", port, "nginx.conf", config, "-p", ".", "-e", "stderr", "-c", "nginx.conf")
}

func startHAProxy(t *testing.T, config, backend string) string {
	port := freePort(t)
	config = replaceInExample(t, config, "bind :8080", "bind 127.0.0.1:"+port)
	config = replaceInExample(t, config, "127.0.0.1:3000", backend)
	return startRival(t, "haproxy", port, "haproxy.cfg", config, "-db", "-f", "haproxy.cfg")
}

func startTraefik(t *testing.T, config, backend string) string {
	port := freePort(t)
	return startRival(t, "traefik", port, "dynamic.yaml", replaceInExample(t, config, "127.0.0.1:3000", backend),
		"--entrypoints.web.address=127.0.0.1:"+port, "--providers.file.filename=dynamic.yaml")
}

// startMholt starts this module, which loads the configs of mholt/caddy-ratelimit.
func startMholt(t *testing.T, _, _ string) string {
	site := standIn{"/": always(http.StatusOK)}
	return startRecipe(t, recipe{file: "migrate/mholt-before", backends: map[string]standIn{"127.0.0.1:3000": site}}).port
}

// startRival starts a program with a config until the test ends, and returns its port when
// it listens.
func startRival(t *testing.T, program, port, file, config string, args ...string) string {
	t.Helper()
	if _, err := exec.LookPath(program); err != nil {
		t.Skipf("%s is missing, so only ours is tested", program)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, file), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	u := &upstream{name: program}
	u.run(t, dir, port, nil, program, args...)
	if u.missing != "" {
		t.Fatal(u.missing)
	}
	u.await(t)
	return port
}

// Pages about migration show the configs of their pair as they are, and link to them.
func TestMigrationPagesShowTheConfigs(t *testing.T) {
	t.Parallel()
	shown := map[string][]string{"fail2ban": {"fail2ban.Caddyfile", "fail2ban/filter.d/login.conf", "fail2ban/jail.d/login.conf"}}
	for _, m := range migrations {
		shown[m.name] = []string{m.name + ".Caddyfile", m.config}
	}
	index := readSample(t, "../docs/migrate/README.md")
	for name, files := range shown {
		page := readSample(t, "../docs/migrate/"+name+".md")
		for _, file := range files {
			if text := withoutHead(readSample(t, "../examples/migrate/"+file)); !strings.Contains(page, "\n"+text) {
				t.Errorf("docs/migrate/%s.md doesn't show examples/migrate/%s:\n%s", name, file, text)
			}
			if !strings.Contains(page, "](../../examples/migrate/"+file+")") {
				t.Errorf("docs/migrate/%s.md doesn't link to examples/migrate/%s", name, file)
			}
		}
		if !strings.Contains(index, "]("+name+".md)") {
			t.Errorf("docs/migrate/README.md doesn't list %s.md", name)
		}
	}
	for _, path := range glob(t, "../examples/migrate/*") {
		name, _, _ := strings.Cut(strings.TrimSuffix(filepath.Base(path), filepath.Ext(path)), "-")
		if shown[name] == nil {
			t.Errorf("%s is on no page", path)
		}
	}
}
