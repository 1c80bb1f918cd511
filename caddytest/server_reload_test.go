package caddytest

import (
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/caddy-tally/caddy-tally/internal/testing/proof"
)

func TestReloadKeepsCounts(t *testing.T) {
	t.Parallel()
	reloads := proof.Times(20, 100)
	limit := 5 * reloads
	proxy := limitedProxy(fmt.Sprintf("%d/1h", limit))
	for name, conf := range map[string]func(int) string{
		"same": func(int) string { return proxy },
		"changed": func(i int) string {
			return proxy + fmt.Sprintf("http://:{$OTHER} {\nrespond %d\n}\n", i)
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBackend(t)
			s := startCaddy(t, conf(0), b.env())
			s.sendWhileReloading(reloads, 10, conf)
			s.passedOfBurst(limit/2, "/")
			if hits := int(b.hits.Load()); hits > limit || hits < limit-10 { // some may have been charged and cut off
				t.Errorf("of %d requests during %d reloads %d passed, want %d", 10*reloads+limit/2, reloads, hits, limit)
			}
			s.wantPassed(0, 5, "/")
		})
	}
}

// Each of these reloads ends one engine and starts another on the same database,
// while requests of the old configuration are under way.
func TestReloadToOtherSettingsKeepsCounts(t *testing.T) {
	t.Parallel()
	b := newBackend(t)
	conf := func(i int) string {
		return strings.Replace(limitedProxy("300/1h"), "store_timeout 1m", fmt.Sprintf("store_timeout %dm", 1+i%2), 1)
	}
	s := startCaddy(t, conf(0), b.env())
	reloads := proof.Times(12, 40)
	s.sendWhileReloading(reloads, 15, conf)
	s.passedOfBurst(300, "/")
	if hits := b.hits.Load(); hits > 300 || hits < 200 {
		t.Errorf("of %d requests during %d reloads %d passed, the limit is 300", 15*reloads+300, reloads, hits)
	}
	s.wantPassed(0, 5, "/")
}

// sendWhileReloading sends requests during each of a number of reloads. Caddy cuts some of them off:
// they fail when it closes the old listener, and are answered 502 when it closes the connections of
// the old proxy to the backend.
func (s *server) sendWhileReloading(reloads, requests int, conf func(int) string) {
	s.t.Helper()
	for i := range reloads {
		var load sync.WaitGroup
		for range requests {
			load.Go(func() {
				if a, err := s.try(http.MethodGet, "/"); err == nil && a.status != http.StatusBadGateway {
					a.isAllowed(s.t)
				}
			})
		}
		if err := s.load(conf(i + 1)); err != nil {
			s.t.Fatalf("reload: %v", err)
		}
		load.Wait()
	}
}

func TestReloadToHigherLimitPassesTheDifferenceAtOnce(t *testing.T) {
	t.Parallel()
	conf := func(n int) string { return byAlgorithm(fmt.Sprint(n, "/366d")) }
	s := startCaddy(t, conf(10))
	s.wantPassedByEach(10, 12)
	s.mustReload(conf(12))
	s.wantPassedByEach(2, 4)
	s.mustReload(conf(5))
	s.wantPassedByEach(0, 2)
	s.mustReload(conf(13))
	s.wantPassedByEach(1, 3)
}

func TestReloadToLowerLimitCountsWhatWasUsed(t *testing.T) {
	t.Parallel()
	conf := func(n int) string { return config(fmt.Sprintf("zone z {\nlimit %d/1h\n}", n)) }
	s := startCaddy(t, conf(100))
	s.wantPassed(10, 10, "/")
	s.mustReload(conf(12))
	s.wantPassed(2, 4, "/")
}

// busyPort returns a port that somebody listens on who shares it with nobody.
func busyPort(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	_, port, err := net.SplitHostPort(listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// onBusyPort adds to a config a site that can't start.
func onBusyPort(t *testing.T, config string) string {
	return config + "http://:" + busyPort(t) + " {\nrespond never\n}\n"
}

func TestRejectedReloadChangesNothing(t *testing.T) {
	t.Parallel()
	conf := func(n int) string { return config(fmt.Sprintf("zone z {\nlimit %d/1h\n}", n)) }
	s := startCaddy(t, conf(10))
	s.wantPassed(4, 4, "/")
	for _, limit := range []int{2, 1000} {
		if err := s.reload(onBusyPort(t, conf(limit))); err == nil {
			t.Fatal("a config that can't start is accepted")
		}
		s.wantPassed(2, 2, "/")
	}
	if err := s.reload(strings.Replace(conf(1), "hello", "{", 1)); err == nil {
		t.Fatal("a config that can't be parsed is accepted")
	}
	s.wantPassed(2, 3, "/")
}

// withStore keeps the counts of a config in another place.
func withStore(config, path string) string {
	return strings.Replace(config, "store_timeout 1m", "store_timeout 1m\nstore sqlite "+path, 1)
}

func TestRejectedReloadCreatesNothing(t *testing.T) {
	t.Parallel()
	conf := config("zone z {\nlimit 10/1h\n}")
	s := startCaddy(t, conf)
	s.wantPassed(4, 4, "/")
	elsewhere := filepath.Join(s.dir, "elsewhere")
	if err := s.reload(onBusyPort(t, withStore(conf, filepath.Join(elsewhere, "other.db")))); err == nil {
		t.Fatal("a config that can't start is accepted")
	}
	s.wantPassed(6, 8, "/")
	s.stop()
	wantNoFile(t, elsewhere)
}

// Some of the requests reach a config before Caddy finds that it can't start.
func TestRejectedReloadUnderLoadCreatesNothing(t *testing.T) {
	t.Parallel()
	b := newBackend(t)
	conf := limitedProxy("200/1h")
	s := startCaddy(t, conf, b.env())
	for i := range proof.Times(5, 20) {
		elsewhere := filepath.Join(s.dir, fmt.Sprint("elsewhere", i))
		rejected := onBusyPort(t, withStore(conf, filepath.Join(elsewhere, "other.db")))
		stop := s.keepSending()
		err := s.load(rejected)
		stop()
		if err == nil {
			t.Fatal("a config that can't start is accepted")
		}
		wantNoFile(t, elsewhere)
	}
	s.passedOfBurst(300, "/")
	s.wantPassed(0, 5, "/")
}

// senders is how many requests are under way at a time while they are kept coming.
const senders = 4

// keepSending sends requests, each on a connection of its own, until it is
// stopped.
func (s *server) keepSending() (stop func()) {
	return repeat(senders, func(int) {
		s.try(http.MethodGet, "/", "Connection: close") // may be cut off
	})
}

func TestReloadToOtherStore(t *testing.T) {
	t.Parallel()
	conf := config("zone z {\nlimit 10/1h\n}")
	s := startCaddy(t, conf)
	s.wantPassed(10, 11, "/")
	s.mustReload(withStore(conf, filepath.Join(s.dir, "elsewhere", "other.db")))
	s.wantPassed(10, 11, "/") // that database knows of nothing
	s.mustReload(conf)
	s.wantPassed(0, 2, "/")
}

// ourFiles returns the files below a folder that this module made.
func ourFiles(t *testing.T, folder string) (ours []string) {
	t.Helper()
	err := filepath.WalkDir(folder, func(path string, _ fs.DirEntry, err error) error {
		if below := strings.TrimPrefix(path, folder); strings.Contains(below, "tally") || strings.Contains(below, "rate_limit") {
			ours = append(ours, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return ours
}

func wantNoFile(t *testing.T, path string) {
	t.Helper()
	found, err := filepath.Glob(path + "*")
	if err != nil {
		t.Fatal(err)
	}
	if len(found) > 0 {
		t.Errorf("there is %q", found)
	}
}

func TestLookingTouchesNothing(t *testing.T) {
	t.Parallel()
	good := config("zone z {\nlimit 10/1h\n}")
	for _, c := range []struct {
		name, command, config string
		fails                 bool
	}{
		{"validate", "validate", good, false},
		{"validate another store", "validate", withStore(good, "{$DIR}/tally-elsewhere/x.db"), false},
		{"adapt", "adapt", good, false},
		{"validate what is wrong elsewhere", "validate", good + "http://:{$OTHER} {\nroot * a b c\n}\n", true},
		{"validate a wrong zone", "validate", config("zone z {\nper key {http.request.headr.X}\nlimit 1/1s\n}"), true},
		{"start that fails", "run", onBusyPort(t, good), true},
		{"start of another store that fails", "run", onBusyPort(t, withStore(good, "{$DIR}/tally-elsewhere/x.db")), true},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newServer(t, c.config)
			out, err := s.run(c.command, "--config", s.config)
			if fails := err != nil; fails != c.fails {
				t.Errorf("error is %v: %s", err, out)
			}
			if files := ourFiles(t, s.dir); len(files) > 0 {
				t.Errorf("it leaves %q", files)
			}
		})
	}
}

func TestConfigWithoutZoneTouchesNothing(t *testing.T) {
	t.Parallel()
	for name, conf := range map[string]string{
		"no handler":   options(patient) + site("respond hello"),
		"no zone":      options(patient) + site("rate_limit\nrespond hello"),
		"other's site": options("") + site("respond hello"),
	} {
		t.Run(name, func(t *testing.T) {
			s := startCaddy(t, conf)
			if a := s.get("/"); a.status != http.StatusOK {
				t.Errorf("status is %d", a.status)
			}
			s.mustReload(conf)
			s.stop()
			if files := ourFiles(t, s.dir); len(files) > 0 {
				t.Errorf("it leaves %q", files)
			}
		})
	}
}

// Warnings about a config are logged once, however often it is loaded again, and `status` has them all the time. One that
// is new is logged, and one that comes back after it was gone.
func TestReloadsRepeatNoWarnings(t *testing.T) {
	t.Parallel()
	conf := func(more string) string { return config("zone z {\nlimit 5/1m\nlimit 100/1m\n" + more + "}") }
	s := startCaddy(t, conf(""))
	warnings := func() (n int) {
		for line := range strings.Lines(s.logs()) {
			if strings.Contains(line, `"level":"warn"`) && strings.Contains(line, `"write":`) {
				n++
			}
		}
		return n
	}
	s.mustReload(conf("")) // the start has read a file, with another name of its lines
	first := warnings()
	if first == 0 {
		t.Fatal("a limit that is never reached gives no warning")
	}
	for range 3 {
		s.mustReload(conf(""))
	}
	if n := warnings(); n != first {
		t.Errorf("%d warnings after three reloads, want %d", n, first)
	}
	if a, err := s.askAdmin(http.MethodGet, "/rate_limit/status"); err != nil || !strings.Contains(a.body, `"advice":[{`) {
		t.Errorf("status has no advice: %s, %v", a.body, err)
	}
	s.mustReload(conf("}\nzone y {\nlimit 5/1m\nlimit 100/1m\n"))
	if n := warnings(); n <= first {
		t.Errorf("%d warnings with another limit that is never reached, want more than %d", n, first)
	}
	s.mustReload(config("zone z {\nlimit 5/1m\n}"))
	before := warnings()
	s.mustReload(conf(""))
	if n := warnings(); n != before+1 {
		t.Errorf("%d warnings after the mistake is made again, want %d", n, before+1)
	}
}
