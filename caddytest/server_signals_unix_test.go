//go:build unix

package caddytest

import (
	"sync"
	"syscall"
	"testing"
)

func TestSIGTERMGivesBackWhatIsUnspent(t *testing.T) {
	t.Parallel()
	s := startCaddy(t, config("zone z {\nlimit 100/366d\n}"))
	s.wantPassed(10, 10, "/")
	s.terminate()
	s.start()
	s.wantPassed(90, 92, "/")
}

func TestSIGTERMUnderLoadNeverPassesMoreThanTheLimit(t *testing.T) {
	t.Parallel()
	b := newBackend(t)
	s := startCaddy(t, limitedProxy("300/1h"), b.env())
	for range 3 {
		stop := s.keepSending()
		before := b.hits.Load()
		waitFor(t, "requests to pass", func() bool { return b.hits.Load() >= min(before+20, 250) })
		s.terminate()
		stop()
		s.start()
	}
	var load sync.WaitGroup
	for range 3 {
		load.Go(func() { s.passedOfBurst(100, "/") })
	}
	load.Wait()
	s.wantPassed(0, 5, "/")
	if hits := b.hits.Load(); hits > 300 || hits < 290 { // some may have been charged and cut off
		t.Errorf("%d requests passed, want 300", hits)
	}
}

// terminate has Caddy end as an init system does.
func (s *server) terminate() {
	s.t.Helper()
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		s.t.Fatal(err)
	}
	s.awaitEnd()
}
