package caddytest

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/caddy-tally/caddy-tally/internal/testing/proof"
)

// The clients here don't wait when they are told to: a request that is refused ends what they do. The
// bursts that the pages of the recipes give for them are those of these tests.

// front is a plain way to a site of a recipe, for programs that know neither its name nor its
// certificate. It counts what passes by.
type front struct {
	address           string
	requests, refused atomic.Int64
}

func (s *recipeServer) front(site, from string) *front {
	f := new(front)
	proxy := &httputil.ReverseProxy{
		Transport: s.client(from).Transport,
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(&url.URL{Scheme: "https", Host: site})
		},
		ModifyResponse: func(r *http.Response) error {
			f.requests.Add(1)
			if r.StatusCode == http.StatusTooManyRequests {
				f.refused.Add(1)
			}
			return nil
		},
	}
	server := httptest.NewServer(proxy)
	s.t.Cleanup(server.Close)
	f.address = server.Listener.Addr().String()
	return f
}

// within checks that what a client did was not refused, and took some requests, but no more than the
// page says.
func (f *front) within(t *testing.T, what string, most int64) {
	t.Helper()
	requests, refused := f.requests.Swap(0), f.refused.Swap(0)
	t.Logf("%s: %d requests", what, requests)
	if requests == 0 || requests > most || refused > 0 {
		t.Errorf("%s takes %d requests, of which %d are refused, want at most %d and none", what, requests, refused, most)
	}
}

// needs skips a test if a program is missing.
func needs(t *testing.T, programs ...string) {
	t.Helper()
	if testing.Short() {
		t.Skip("builds a Caddy")
	}
	for _, program := range programs {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("%s is missing", program)
		}
	}
}

// workshop is a folder in which programs run that must know nothing of who runs them.
type workshop struct {
	t   *testing.T
	dir string
}

func newWorkshop(t *testing.T) workshop { return workshop{t, t.TempDir()} }

// run runs a script, and returns what it says.
func (w workshop) run(script string) string {
	w.t.Helper()
	out, err := w.try(script)
	if err != nil {
		w.t.Fatalf("%s\n%v: %s", script, err, out)
	}
	return out
}

func (w workshop) try(script string) (string, error) {
	cmd := exec.CommandContext(w.t.Context(), "sh", "-ec", script)
	cmd.Dir = w.dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + w.dir, "XDG_CONFIG_HOME=" + w.dir, "LC_ALL=C.UTF-8",
		"GIT_CONFIG_NOSYSTEM=1", "GIT_TERMINAL_PROMPT=0", "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.com", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.com"}
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// write writes a file into the workshop.
func (w workshop) write(name, text string) {
	w.t.Helper()
	path := filepath.Join(w.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		w.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		w.t.Fatal(err)
	}
}

// No recipe had limits above the bursts of git, which gives up when it is refused.
func TestGitRecipeLetsGitThrough(t *testing.T) {
	needs(t, "git")
	t.Parallel()
	w := newWorkshop(t)
	backend := strings.TrimSpace(w.run("git --exec-path")) + "/git-http-backend"
	if _, err := os.Stat(backend); err != nil {
		t.Skip(err)
	}
	commits, modules := proof.Times(15, 60), proof.Times(4, 20)
	w.run(fmt.Sprintf(`
git config --global init.defaultBranch main
git config --global protocol.file.allow always
git init -q --bare repos/tool.git
git init -q tool
cd tool
for i in $(seq %d); do
  printf 'commit refs/heads/main\ncommitter a <a@example.com> 1790000000 +0000\ndata 1\na\nM 644 inline file\ndata 3\n%%03d\n' $i
done | git fast-import --quiet
git reset -q --hard
git push -q ../repos/tool.git main
cd ..
git init -q all
for i in $(seq %d); do
  cp -r repos/tool.git repos/part$i.git
  printf '[submodule "part%%d"]\n\tpath = part%%d\n\turl = ../part%%d.git\n' $i $i $i >> all/.gitmodules
  echo 160000 $(git -C tool rev-parse HEAD) part$i
done | sed 's/ part/\tpart/' | git -C all update-index --index-info
git -C all add .gitmodules
git -C all commit -qm all
git clone -q --bare all repos/all.git
git clone -q --bare repos/tool.git repos/own.git
for repo in repos/*; do
  git -C $repo config http.receivepack true
  git -C $repo config uploadpack.allowFilter true
  git -C $repo config uploadpack.allowAnySHA1InWant true
done`, commits, modules))
	handler := &cgi.Handler{Path: backend, Env: []string{"GIT_PROJECT_ROOT=" + filepath.Join(w.dir, "repos"), "GIT_HTTP_EXPORT_ALL=1", "HOME=" + w.dir}}
	repos := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		secret := strings.Contains(r.RequestURI, "git-receive-pack") || strings.HasPrefix(r.URL.Path, "/own.git/")
		if _, password, _ := r.BasicAuth(); secret && password != rightPassword {
			rw.Header().Set("WWW-Authenticate", `Basic realm="git"`)
			rw.WriteHeader(http.StatusUnauthorized)
			return
		}
		handler.ServeHTTP(rw, r)
	}))
	t.Cleanup(repos.Close)
	s := startRecipe(t, recipe{name: "git", running: map[string]string{"127.0.0.1:3000": repos.Listener.Addr().String()}})
	f := s.front("code.example.com", person)
	for _, step := range []struct {
		what   string
		most   int64
		script string
	}{
		{"clone", 4, "git clone -q http://FRONT/tool.git clone"},
		{"clone with a password", 4, "git clone -q http://alice:" + rightPassword + "@FRONT/own.git own"},
		{"fetch of nothing new", 3, "git -C clone fetch -q"},
		{"push", 6, "cd clone; echo new > file; git commit -qam new; git push -q http://alice:" + rightPassword + "@FRONT/tool.git main"},
		{"clone with submodules, 8 at once", int64(4 * (modules + 1)), fmt.Sprintf("git clone -q --recurse-submodules -j8 http://FRONT/all.git everything; test -e everything/part%d/file", modules)},
		{"clone without blobs, and a log with all changes", int64(6 * commits), "git clone -q --filter=blob:none --no-checkout http://FRONT/tool.git lazy; git -C lazy log -p > lazy.log; test $(grep -c ^commit lazy.log) -ge " + fmt.Sprint(commits)},
	} {
		w.run(strings.ReplaceAll(step.script, "FRONT", f.address))
		f.within(t, step.what, step.most)
	}
}

// No recipe had limits above the bursts of programs that keep calendars, which send a request for
// each entry, and give up when they are refused.
func TestCalDAVRecipeLetsASyncThrough(t *testing.T) {
	t.Parallel()
	proof.Only(t)
	needs(t, "radicale", "vdirsyncer")
	const entries = 300
	w := newWorkshop(t)
	port := freePort(t)
	w.write("radicale.conf", "[server]\nhosts = 127.0.0.1:"+port+"\n[auth]\ntype = htpasswd\nhtpasswd_encryption = plain\ndelay = 0\nhtpasswd_filename = "+
		filepath.Join(w.dir, "users")+"\n[storage]\nfilesystem_folder = "+filepath.Join(w.dir, "collections")+"\n")
	w.write("users", "alice:"+rightPassword+"\n")
	server := &upstream{name: "radicale"}
	server.run(t, w.dir, port, nil, "radicale", "--config", filepath.Join(w.dir, "radicale.conf"))
	server.await(t)
	s := startRecipe(t, recipe{name: "caldav", running: map[string]string{"127.0.0.1:5232": "127.0.0.1:" + port}})
	f := s.front("dav.example.com", person)
	for n := range entries {
		w.write(fmt.Sprintf("one/work/%d.ics", n), fmt.Sprintf("BEGIN:VCALENDAR\r\nVERSION:2.0\r\nPRODID:-//a//b//EN\r\nBEGIN:VEVENT\r\nUID:%d\r\nDTSTAMP:20261122T100000Z\r\nDTSTART:20261122T100000Z\r\nSUMMARY:%[1]d\r\nEND:VEVENT\r\nEND:VCALENDAR\r\n", n))
	}
	for _, device := range []string{"one", "two"} {
		w.write(device+".conf", `[general]
status_path = "`+w.dir+"/status-"+device+`"
[pair p]
a = "here"
b = "there"
collections = ["work"]
[storage here]
type = "filesystem"
path = "`+filepath.Join(w.dir, device)+`"
fileext = ".ics"
[storage there]
type = "caldav"
url = "http://`+f.address+`/"
username = "alice"
password = "`+rightPassword+`"
`)
	}
	for _, step := range []struct {
		what   string
		most   int64
		script string
	}{
		{"finding the calendars", 40, "yes | vdirsyncer -c one.conf discover >&2"},
		{"first sync of 300 entries to the server", entries + 100, "vdirsyncer -c one.conf sync"},
		{"sync of nothing new", 20, "vdirsyncer -c one.conf sync"},
		{"first sync of 300 entries from the server", 100, "yes | vdirsyncer -c two.conf discover >&2; vdirsyncer -c two.conf sync; test $(ls two/work | grep -c ics) = 300"},
	} {
		w.run(step.script)
		f.within(t, step.what, step.most)
	}
}

// No recipe had limits above the bursts of apt, which gives up on a file when it is refused.
func TestMirrorRecipeLetsAptThrough(t *testing.T) {
	needs(t, "apt-get")
	t.Parallel()
	packages := proof.Times(50, 400)
	w := newWorkshop(t)
	var index, names strings.Builder
	for n := range packages {
		content := fmt.Sprintf("package %d", n)
		w.write(fmt.Sprintf("mirror/pool/p%d.deb", n), content)
		fmt.Fprintf(&index, "Package: p%d\nVersion: 1\nArchitecture: all\nFilename: pool/p%[1]d.deb\nSize: %d\nSHA256: %x\nDescription: d\n\n", n, len(content), sha256.Sum256([]byte(content)))
		fmt.Fprintf(&names, " p%d", n)
	}
	w.write("mirror/Packages", index.String())
	w.write("mirror/Release", fmt.Sprintf("Origin: a\nDate: Sun, 22 Nov 2026 10:00:00 UTC\nSHA256:\n %x %d Packages\n", sha256.Sum256([]byte(index.String())), index.Len()))
	mirror := httptest.NewServer(http.FileServer(http.Dir(filepath.Join(w.dir, "mirror"))))
	t.Cleanup(mirror.Close)
	s := startRecipe(t, recipe{name: "mirror", running: map[string]string{"127.0.0.1:8080": mirror.Listener.Addr().String()}})
	f := s.front("mirror.example.com", person)
	w.write("etc/sources.list", "deb [trusted=yes] http://"+f.address+"/ ./\n")
	w.write("status", "")
	w.write("apt.conf", `Dir::Etc "`+w.dir+`/etc"; Dir::State "`+w.dir+`/state"; Dir::State::status "`+w.dir+`/status"; Dir::Cache "`+w.dir+`/cache"; Dir::Log "`+w.dir+`/log"; APT::Sandbox::User ""; Acquire::Languages "none"; Acquire::Check-Date "false";`)
	w.run("mkdir -p state/lists/partial cache/archives/partial etc/apt.conf.d etc/preferences.d etc/trusted.gpg.d etc/sources.list.d log")
	for _, step := range []struct {
		what   string
		most   int64
		script string
	}{
		{"update", 10, "APT_CONFIG=$PWD/apt.conf apt-get -q update"},
		{"update with nothing new", 10, "APT_CONFIG=$PWD/apt.conf apt-get -q update"},
		{"download of all packages", int64(packages + 20), "APT_CONFIG=$PWD/apt.conf apt-get -q -y -d install" + names.String() + "; test $(ls cache/archives | grep -c deb) = " + fmt.Sprint(packages)},
	} {
		w.run(step.script)
		f.within(t, step.what, step.most)
	}
}
