package caddytest

import (
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
)

// inMemory is a Caddyfile whose counts and keys are in memory.
func inMemory(store, option, zone string) string {
	return perClient("store "+store+"\n"+option+"\nsession {\nchallenge proof_of_work 8\n}", "on_exceeded challenge\n"+zone)
}

// The store without a disk keeps counts, bans and sessions over reloads, also such
// that start another engine, and makes no file anywhere.
func TestMemoryStoreSurvivesReloads(t *testing.T) {
	t.Parallel()
	s := startCaddy(t, inMemory("memory", "", "limit 3/366d"))
	one := []string{from(1), agent(1)}
	s.wantPassed(3, 5, "/", one...)
	session := s.earn(append(one, navigation...)...)
	s.wantPassed(3, 5, "/", append(one, session)...)

	for what, config := range map[string]string{
		"the same":          inMemory("memory", "", "limit 3/366d"),
		"another interval":  inMemory("memory", "cleanup_interval 30s", "limit 3/366d"),
		"another size":      inMemory("memory {\nmax_size 8MiB\n}", "", "limit 3/366d"),
		"another zone, too": inMemory("memory", "", "limit 3/366d\n}\nzone y {\nmatch path /none\nlimit 1/1m"),
	} {
		s.mustReload(config)
		if passed := s.passed(3, "/", one...); passed != 0 {
			t.Errorf("after a reload with %s, %d requests passed of a client that had its share", what, passed)
		}
		if passed := s.passed(3, "/", from(2), agent(2), session); passed != 0 { // not known, it would count for the second client
			t.Errorf("after a reload with %s, %d requests passed of a session that had its share", what, passed)
		}
	}
	if err := s.reload(inMemory("memory", "", "limit 0/nothing")); err == nil {
		t.Error("a config that makes no sense was accepted")
	}
	s.wantPassed(0, 3, "/", one...)

	if h := s.health(); h.Store != "memory" || h.Path != "" || h.Degraded || h.Bytes == 0 {
		t.Errorf("health is %+v", h)
	}
	if files := s.ownFiles(); len(files) > 0 {
		t.Errorf("there are files: %q", files)
	}
	s.stop()
	s.start()
	s.wantPassed(3, 5, "/", one...) // as is documented
	if files := s.ownFiles(); len(files) > 0 {
		t.Errorf("after a restart there are files: %q", files)
	}
}

// A secret that an option names is used, so that sessions survive a restart.
func TestMemoryStoreWithSecretFile(t *testing.T) {
	t.Parallel()
	s := startCaddy(t, inMemory("memory", "secret_file {$DIR}/secret", "limit 3/366d"))
	one := []string{from(1), agent(1)}
	session := s.earn(append(one, navigation...)...)
	s.stop()
	s.start()
	if kind := s.kind(append(one, session)...); kind != "session" {
		t.Errorf("after a restart a session is known as a %s", kind)
	}
	if files := s.ownFiles(); len(files) > 0 {
		t.Errorf("there are files: %q", files)
	}
}

// ownFiles returns the files and folders below the server's folder that only this
// module makes where it isn't told.
func (s *server) ownFiles() (own []string) {
	s.t.Helper()
	err := filepath.WalkDir(s.dir, func(path string, _ fs.DirEntry, err error) error {
		if name := filepath.Base(path); strings.HasPrefix(name, "tally") || strings.HasPrefix(name, ".tally") || name == "rate_limit" {
			own = append(own, path)
		}
		return err
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return own
}
