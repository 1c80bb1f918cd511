//go:build unix

package caddytest

import (
	"encoding/json"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/testing/proof"
)

// laterVersion is what a later version has instead of some code of this one. It adds to the data of each
// store, so that programs of this version can go on using it.
var laterVersion = []struct{ file, was, now string }{
	{"storage/sqlite/schema.go", "INSERT INTO secret VALUES (0);`,\n}", "INSERT INTO secret VALUES (0);`,\n" +
		"`CREATE TABLE later (id INTEGER PRIMARY KEY) STRICT;\n" +
		"ALTER TABLE clock ADD COLUMN later INTEGER NOT NULL DEFAULT 0;\n" +
		"ALTER TABLE counters ADD COLUMN later INTEGER NOT NULL DEFAULT 0;`,\n}"},
	{"storage/postgres/internal/store/schema.go", "schemaVersion  = 4", "schemaVersion = 5"},
	{"storage/postgres/internal/store/schema.go", `{"processes", true,`, `{"later", false, "id BIGINT PRIMARY KEY"}, {"processes", true,`},
	{"storage/redis/internal/store/open.go", `format, oldestReader = "1", "1"`, `format, oldestReader = "2", "1"`},
}

// buildLater builds a Caddy with a later version of this module.
func buildLater(t *testing.T) (binary string) {
	t.Helper()
	dir, replaced := t.TempDir(), make(map[string]string)
	for _, change := range laterVersion {
		path, err := filepath.Abs(filepath.Join("..", filepath.FromSlash(change.file)))
		if err != nil {
			t.Fatal(err)
		}
		from := path
		if earlier, ok := replaced[path]; ok {
			from = earlier
		}
		code, err := os.ReadFile(from)
		if err != nil || strings.Count(string(code), change.was) != 1 {
			t.Fatalf("%s hasn't %q once (%v)", change.file, change.was, err)
		}
		replaced[path] = filepath.Join(dir, strings.ReplaceAll(change.file, "/", "_"))
		if err := os.WriteFile(replaced[path], []byte(strings.Replace(string(code), change.was, change.now, 1)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	encoded, err := json.Marshal(map[string]any{"Replace": replaced})
	overlay := filepath.Join(dir, "overlay.json")
	if err == nil {
		err = os.WriteFile(overlay, encoded, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	binary = filepath.Join(dir, "caddy")
	if out, err := exec.Command("go", "build", "-overlay", overlay, "-o", binary, "../cmd/caddy").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return binary
}

// Machines of two versions share a store while all are updated, one after the other, and while one goes back:
// nothing passes over a limit, and no machine loses the store. They end by turns as a crash ends them.
func TestMixedVersions(t *testing.T) {
	proof.Deep(t)
	t.Parallel()
	later := buildLater(t)
	for name, make := range fleetServers {
		t.Run(name, func(t *testing.T) {
			server := make(t)
			_, port, _ := strings.Cut(server.address, ":")
			testMixedVersions(t, later, server.store, "STORE="+port)
		})
	}
	t.Run("sqlite", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "tally.db")
		testMixedVersions(t, later, "sqlite {$STORE}", "STORE="+path)
	})
}

func testMixedVersions(t *testing.T, later, store, env string) {
	var machines []*server
	for range 4 {
		s := newServer(t, fleetConfig(store, time.Minute), env)
		if err := os.WriteFile(filepath.Join(s.dir, "secret"), []byte(strings.Repeat("one secret for all ", 3)), 0o600); err != nil {
			t.Fatal(err)
		}
		s.start()
		machines = append(machines, s)
	}
	l, zones := newLedger(), []string{"hammered", "hour", "tenth"}
	stop := repeat(6, func(i int) {
		time.Sleep(time.Millisecond)
		l.ask(machines[rand.IntN(len(machines))], account{zones[i%len(zones)], "mixed"}, 1, func(*observed) {})
	})
	defer stop()
	answers := func() {
		t.Helper()
		admitted, refused, _ := l.total()
		waitFor(t, "requests to be answered", func() bool {
			a, r, _ := l.total()
			return a+r >= admitted+refused+proof.Times(300, 3000)
		})
	}
	for i, step := range []struct {
		machine int
		binary  string
	}{{0, later}, {1, later}, {1, ""}, {0, ""}, {0, later}, {1, later}, {2, later}, {3, later}} {
		answers()
		m := machines[step.machine]
		if i%2 == 0 {
			m.kill()
		} else {
			m.stop()
		}
		m.binary = step.binary
		m.start()
	}
	answers()
	stop()
	l.check(t)
	for _, zone := range zones {
		admitted := l.admittedOf(zone, "mixed")
		limit := fleetZones[zone]
		proof.Figure(t, "%s: %v: %d admitted, %d of them in the fullest window", zone, limit, len(admitted), limit.Fullest(admitted))
		if got := limit.Fullest(admitted); got > limit.Amount || len(admitted) == 0 {
			t.Errorf("%s admitted %d in a window, of %d in all", zone, got, len(admitted))
		}
	}
	proof.Figure(t, "two versions: %v", l)
	for _, m := range machines {
		if lines := m.logLines("the store can't be used; reduced limits are kept in memory until it can"); len(lines) > 0 {
			t.Errorf("a machine lost the store: %v", lines)
		}
	}
}
