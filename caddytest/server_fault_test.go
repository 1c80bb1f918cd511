package caddytest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/testing/proof"
)

// isWhole reports whether faults last as long as in the whole depth, which takes minutes.
func isWhole() bool { return proof.Times(0, 1) > 0 }

// failing has a store that is to fail. It may take its time with that: only a lock
// makes anybody wait, and for a second at most. The slots of its limit are days: with
// the end of one that the store doesn't hear of, what was held in it is lost.
func failing(store string) string {
	return options("rate_limit {\nstore_timeout 1m\nstore sqlite "+store+"\n}\nlog {\nexclude admin.api\n}\n"+trusting) +
		site("rate_limit {\nzone z {\nlimit 10/366d\n}\n}\nrespond hello")
}

// noJournal has each claim be a transaction, so that faults of these show at once.
const noJournal = " {\njournal off\n}"

// checkFault has the store of a Caddy that runs fail, and checks what must hold
// whatever the fault is: all requests are answered, with reduced limits, and when
// the fault is gone all that passed is charged, and the store in use again. The
// fault is mended only after requests have been answered in spite of it, and the
// admin endpoint has told the reason.
func (s *server) checkFault(reason string, inject func() (mend func())) {
	s.t.Helper()
	before, during, gone := from(1), from(2), from(3)
	s.awaitRecovery() // a machine that is slow may have begun with an outage
	s.wantPassed(2, 2, "/", before)
	mend := inject()
	s.awaitDegraded()
	passed := 2 + s.passed(20, "/", before)
	if passed < 4 || passed > 6 {
		s.t.Errorf("%d passed before the fault and in it, want 4, and what was held", passed)
	}
	s.wantPassed(4, 20, "/", during)
	s.wantPassed(4, 20, "/", gone)
	for deadline := time.Now().Add(s.faultTime()); time.Now().Before(deadline); {
		s.passed(1, "/", during)
	}
	waitFor(s.t, "the reason "+reason, func() bool { return strings.Contains(s.health().Reason, reason) })
	mend()
	s.awaitRecovery()
	left := 10 - passed
	if again := s.passed(20, "/", before); again > left || again < left-s.lost(6-passed) {
		s.t.Errorf("%d passed until the fault was mended, and %d of the limit's 10 afterwards", passed, again)
	}
	s.wantPassed(6, 20, "/", during)
	s.kill()
	s.start()
	s.awaitRecovery()
	s.wantPassed(0, 2, "/", before)
	s.wantPassed(0, 2, "/", during)
	s.wantPassed(6, 20, "/", gone) // it was charged though it never came again
}

// lost returns how many of the units that were held may be lost: none, unless a commit had no outcome. Units
// that it gave back may be free already, so they are given up.
func (s *server) lost(held int) int {
	s.t.Helper()
	if strings.Contains(s.logs(), "outcome unknown") {
		return held
	}
	return 0
}

// faultTime is how long a fault lasts beyond what it takes to see it.
func (s *server) faultTime() time.Duration {
	if isWhole() {
		return 30 * time.Second
	}
	return 0
}

// The lock is given up only after requests have been answered: one that waited
// for it would wait forever.
func TestDatabaseLockedByAnotherProcess(t *testing.T) {
	t.Parallel()
	s := startCaddy(t, strings.Replace(failing("{$DIR}/tally.db"+noJournal), "store_timeout 1m", "store_timeout 1s", 1))
	s.checkFault("database is locked", func() func() { return lockDatabase(t, filepath.Join(s.dir, "tally.db")) })
}

// inFolder is a config whose database lies in a folder of its own, with a zone by
// address and one by key. Another timeout, in seconds, makes it another store.
func inFolder(timeout int) string {
	return options(fmt.Sprintf("rate_limit {\nstore_timeout %ds\nstore sqlite {$DIR}/folder/tally.db\n}\n", timeout)+trusting) + site(`rate_limit {
		zone address {
			match /address
			limit 10/30d
		}
		zone key {
			match /key
			per key {http.request.header.X-Key}
			limit 10/30d
		}
	}
	respond hello`)
}

// Clients that come after the folder of a running Caddy was removed find their counts:
// the keys that they are hashed under are in the new folder as well.
func TestFolderRemoved(t *testing.T) {
	t.Parallel()
	s := startCaddy(t, inFolder(60))
	folder, key := filepath.Join(s.dir, "folder"), "X-Key: secret"
	s.wantPassed(6, 6, "/address")
	s.wantPassed(6, 6, "/key", key)
	if err := os.RemoveAll(folder); err != nil {
		t.Skip("a file in use can't be removed here:", err)
	}
	waitFor(t, "another database", func() bool {
		s.passed(1, "/address", from(1))
		_, err := os.Stat(filepath.Join(folder, "tally.db"))
		return err == nil && !s.health().Degraded
	})
	s.kill()
	s.start()
	s.wantPassed(4, 6, "/address")
	s.wantPassed(4, 6, "/key", key)
}

// While the journal has room, a locked database neither holds up requests nor lowers limits.
func TestLockedDatabaseHoldsNobodyUp(t *testing.T) {
	t.Parallel()
	s := startCaddy(t, failing("{$DIR}/tally.db"))
	s.wantPassed(1, 1, "/", from(1)) // so that the database knows the limit
	unlock := lockDatabase(t, filepath.Join(s.dir, "tally.db"))
	s.wantPassed(9, 9, "/", from(1))
	s.wantPassed(10, 10, "/", from(2))
	if health := s.health(); health.Degraded {
		t.Errorf("health is %+v", health)
	}
	unlock()
	s.kill() // what was charged is in the journal
	s.start()
	s.wantPassed(0, 1, "/", from(1))
	s.wantPassed(0, 1, "/", from(2))
}

// A lock that is held for longer than a second holds up requests, and is no
// outage, if they are to wait for longer than that.
func TestLockIsWaitedForAsLongAsStoreTimeoutSays(t *testing.T) {
	t.Parallel()
	s := startCaddy(t, failing("{$DIR}/tally.db"+noJournal))
	s.passed(1, "/", from(1)) // so that the database is there
	unlock := lockDatabase(t, filepath.Join(s.dir, "tally.db"))
	answered := make(chan int)
	go func() { answered <- s.passed(1, "/", from(2)) }()
	select {
	case <-answered:
		t.Error("a request was answered while the database was locked")
		unlock()
		return
	case <-time.After(3 * time.Second): // three times as long as an error used to take
	}
	unlock()
	if passed := <-answered; passed != 1 || s.health().Degraded || len(s.logLines("the store can't be used; reduced limits are kept in memory until it can")) > 0 {
		t.Errorf("%d passed, degraded %v", passed, s.health().Degraded)
	}
}

// Keys that somebody removed from under a Caddy are written again before another
// engine looks for them: under others everything would be counted from 0.
func TestRemovedKeysAreWrittenAgain(t *testing.T) {
	t.Parallel()
	s, key := startCaddy(t, inFolder(60)), "X-Key: secret"
	for i := range 3 {
		s.wantPassed(2, 2, "/address")
		s.wantPassed(2, 2, "/key", key)
		for _, name := range []string{"tally.key", "tally.epochs", "tally.db-names"} {
			if err := os.RemoveAll(filepath.Join(s.dir, "folder", name)); err != nil {
				t.Fatal(err)
			}
		}
		s.mustReload(inFolder(61 + i))
	}
	s.wantPassed(4, 6, "/address")
	s.wantPassed(4, 6, "/key", key)
	if lines := s.logLines("keys were removed while they are in use; they are written again, because without them everything would be counted from 0"); len(lines) == 0 {
		t.Error("the log doesn't say that keys were removed")
	}
	s.kill()
	s.start()
	s.wantPassed(0, 2, "/address")
	s.wantPassed(0, 2, "/key", key)
}

// lockDatabase locks a database for everybody else.
func lockDatabase(t *testing.T, path string) (unlock func()) {
	t.Helper()
	return useDatabase(t, path, "BEGIN EXCLUSIVE")
}

// readDatabase reads a database until it is told to stop. Meanwhile its log only grows.
func readDatabase(t *testing.T, path string) (stop func()) {
	t.Helper()
	return useDatabase(t, path, "BEGIN", "SELECT count(*) FROM counters")
}

// useDatabase begins a transaction and leaves it open.
func useDatabase(t *testing.T, path string, queries ...string) (end func()) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := db.Conn(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	exec := func(query string) {
		t.Helper()
		if _, err := conn.ExecContext(context.Background(), query); err != nil {
			t.Fatal(err)
		}
	}
	exec("PRAGMA busy_timeout = 60000")
	for _, query := range queries {
		exec(query)
	}
	return func() {
		exec("ROLLBACK")
		if err := errors.Join(conn.Close(), db.Close()); err != nil {
			t.Fatal(err)
		}
	}
}
