package caddytest

import (
	"archive/zip"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/testing/child"
	"github.com/caddy-tally/caddy-tally/internal/testing/proof"
)

// upstream is a real server with two actions, POST /login and /search?mode=heavy, and
// where it runs files a third, POST /signin.php. An action says its name in the field
// X-Action of its answer.
type upstream struct {
	name    string
	files   bool
	ask     []string // a command that fails if it isn't there, and may say its version
	missing string   // why it can't be started
	version string
	route   string // what Caddy hands requests on with
}

// upstreams starts all whose programs are there.
func upstreams(t *testing.T) []*upstream {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("testdata/backends")); err != nil {
		t.Fatal(err)
	}
	const python = "/usr/bin/python3" // which Debian's packages are for
	node := &upstream{name: "node", ask: []string{"node", "--version"}}
	express := &upstream{name: "express", ask: []string{"npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--prefer-offline", "--loglevel=error"}}
	rack := &upstream{name: "rack", ask: []string{"ruby", "-e", `require "rack"; require "webrick"; puts Rack.release`}}
	sinatra := &upstream{name: "sinatra", ask: []string{"ruby", "-e", `require "sinatra/base"; require "puma"; puts Sinatra::VERSION`}}
	flask := &upstream{name: "flask", ask: []string{python, "-c", "import flask; print(flask.__version__)"}}
	django := &upstream{name: "django", ask: []string{python, "-c", "import django; print(django.__version__)"}}
	php := &upstream{name: "php", files: true, ask: []string{"php", "-r", "echo PHP_VERSION;"}}
	tomcat := &upstream{name: "tomcat", ask: []string{"java", "-version"}}
	nginx := &upstream{name: "nginx", files: true, ask: []string{"/usr/sbin/nginx", "-v"}}
	nginxInfo := &upstream{name: "nginx+info", files: true, ask: nginx.ask}
	fastcgi := &upstream{name: "php_fastcgi", files: true, ask: php.ask}
	all := []*upstream{goMux(t), node, express, php, rack, sinatra, flask, django, tomcat, nginx, nginxInfo, fastcgi}
	var asked sync.WaitGroup
	for _, b := range all {
		if !proof.IsOn() && b.name != "go" && b != fastcgi {
			b.missing = "is tried with PROOF"
		}
		asked.Go(func() { b.askVersion(dir) })
	}
	asked.Wait()
	node.start(t, dir, "node", "node.mjs")
	express.start(t, dir, "node", "express/express.cjs")
	rack.start(t, dir, "ruby", "rack.rb")
	sinatra.start(t, dir, "ruby", "sinatra.rb")
	flask.start(t, dir, python, "flask_app.py")
	django.start(t, dir, python, "django_app.py")
	php.start(t, dir, "php", "-S", "127.0.0.1:PORT", "-t", "php")
	tomcat.startTomcat(t, dir)
	startFPM(t, dir, fastcgi, nginx, nginxInfo)
	return all
}

func goMux(t *testing.T) *upstream {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /login", func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("X-Action", "login") })
	mux.HandleFunc("/search", func(w http.ResponseWriter, r *http.Request) {
		for _, mode := range r.URL.Query()["mode"] {
			if mode == "heavy" {
				w.Header().Set("X-Action", "heavy")
			}
		}
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return &upstream{name: "go", version: "std", route: "reverse_proxy " + server.Listener.Addr().String()}
}

// askVersion finds out which version there is, if any.
func (u *upstream) askVersion(dir string) {
	if u.ask == nil || u.missing != "" {
		return
	}
	cmd := exec.Command(u.ask[0], u.ask[1:]...)
	cmd.Dir = dir
	if u.name == "express" {
		cmd.Dir = filepath.Join(dir, "express")
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		u.missing = fmt.Sprintf("%s: %v: %.200s", u.ask[0], err, out)
		return
	}
	u.version, _, _ = strings.Cut(strings.TrimSpace(string(out)), "\n")
	switch u.name {
	case "express":
		u.version = regexp.MustCompile(`"express": "(.+)"`).FindStringSubmatch(u.read(filepath.Join(cmd.Dir, "package.json")))[1]
	case "tomcat":
		u.version = tomcatVersion()
		if u.version == "" {
			u.missing = tomcatHome + " isn't there"
		}
	}
	u.version = u.version[strings.LastIndexAny(u.version, " /")+1:]
}

func (u *upstream) read(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		u.missing = err.Error()
	}
	return string(text)
}

// start starts a process that is told its port by the environment or in its
// arguments.
func (u *upstream) start(t *testing.T, dir, program string, args ...string) {
	t.Helper()
	if u.missing != "" {
		return
	}
	port := freePort(t)
	for i := range args {
		args[i] = strings.ReplaceAll(args[i], "PORT", port)
	}
	u.run(t, dir, port, []string{"PORT=" + port}, program, args...)
	u.route = "reverse_proxy 127.0.0.1:" + port + " {\ntransport http {\nkeepalive off\n}\n}"
}

// run starts a process that ends with the test, and waits for it to listen.
func (u *upstream) run(t *testing.T, dir, port string, env []string, program string, args ...string) {
	t.Helper()
	cmd := exec.Command(program, args...)
	log, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = dir, append(os.Environ(), env...), log, log
	if err := child.Start(cmd); err != nil {
		u.missing = err.Error()
		return
	}
	ended := make(chan struct{})
	go func() {
		child.Wait(cmd)
		close(ended)
	}()
	t.Cleanup(func() { u.end(t, cmd.Process, ended, log) })
	listening.Store(u, func() error {
		select {
		case <-ended:
			return fmt.Errorf("%s has ended", u.name)
		default:
		}
		conn, err := net.Dial("tcp", "127.0.0.1:"+port)
		if err == nil {
			conn.Close()
		}
		return err
	})
}

// end ends a process, which ends its own, and shows what it has said if the test failed.
func (u *upstream) end(t *testing.T, process *os.Process, ended chan struct{}, log *os.File) {
	process.Signal(syscall.SIGTERM)
	select {
	case <-ended:
	case <-time.After(patience / 6):
		process.Kill()
		<-ended
	}
	log.Close()
	if said, _ := os.ReadFile(log.Name()); t.Failed() && len(said) > 0 {
		t.Logf("%s says:\n%.4000s", u.name, said)
	}
}

// listening holds how each backend that is a process is asked whether it listens.
var listening sync.Map

// await waits until the backend listens.
func (u *upstream) await(t *testing.T) {
	t.Helper()
	ask, ok := listening.LoadAndDelete(u)
	if !ok {
		return
	}
	for deadline := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		err := ask.(func() error)()
		if err == nil {
			return
		}
		if time.Now().After(deadline) || strings.Contains(err.Error(), "has ended") {
			t.Fatal(err)
		}
	}
}

// tomcatHome is where Debian has Tomcat.
const tomcatHome = "/usr/share/tomcat10"

// tomcatVersion returns the version of Tomcat, or "" if it isn't there.
func tomcatVersion() string {
	jar, err := zip.OpenReader(tomcatHome + "/lib/catalina.jar")
	if err != nil {
		return ""
	}
	defer jar.Close()
	properties, err := fs.ReadFile(jar, "org/apache/catalina/util/ServerInfo.properties")
	if err != nil {
		return ""
	}
	number := regexp.MustCompile(`server.number=(\S+)`).FindSubmatch(properties)
	if number == nil {
		return ""
	}
	return string(number[1])
}

func (u *upstream) startTomcat(t *testing.T, dir string) {
	t.Helper()
	if u.missing != "" {
		return
	}
	base := filepath.Join(dir, "tomcat")
	for _, folder := range []string{"logs", "temp", "work"} {
		if err := os.Mkdir(filepath.Join(base, folder), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	u.start(t, dir, "java", "-XX:TieredStopAtLevel=1", "-Dport=PORT", "-Dcatalina.home="+tomcatHome, "-Dcatalina.base="+base, "-Djava.io.tmpdir="+filepath.Join(base, "temp"),
		"-cp", tomcatHome+"/bin/bootstrap.jar:"+tomcatHome+"/bin/tomcat-juli.jar", "org.apache.catalina.startup.Bootstrap", "start")
}

// startFPM starts PHP-FPM, for Caddy's php_fastcgi, and nginx before it in two ways.
func startFPM(t *testing.T, dir string, fastcgi, nginx, nginxInfo *upstream) {
	t.Helper()
	programs, _ := filepath.Glob("/usr/sbin/php-fpm*")
	if len(programs) == 0 {
		for _, b := range []*upstream{fastcgi, nginx, nginxInfo} {
			b.missing = "there is no php-fpm"
		}
	}
	if fastcgi.missing != "" {
		return
	}
	me, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	port, plain, info, docroot := freePort(t), freePort(t), freePort(t), filepath.Join(dir, "php")
	fill := strings.NewReplacer("FPMPORT", port, "PLAINPORT", plain, "INFOPORT", info, "DOCROOT", docroot, "USER", me.Username)
	for _, name := range []string{"nginx.conf", "php-fpm.conf"} {
		rewrite(t, filepath.Join(dir, name), fill)
	}
	fastcgi.run(t, dir, port, nil, programs[len(programs)-1], "-F", "-R", "-n", "-y", filepath.Join(dir, "php-fpm.conf"))
	fastcgi.route = "root " + docroot + "\nphp_fastcgi 127.0.0.1:" + port
	if nginx.missing == "" {
		nginx.run(t, dir, plain, nil, nginx.ask[0], "-p", dir, "-e", "stderr", "-c", filepath.Join(dir, "nginx.conf"))
		nginx.route, nginxInfo.route = "reverse_proxy 127.0.0.1:"+plain, "reverse_proxy 127.0.0.1:"+info
	}
}

func rewrite(t *testing.T, path string, fill *strings.Replacer) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err == nil {
		err = os.WriteFile(path, []byte(fill.Replace(string(text))), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}
