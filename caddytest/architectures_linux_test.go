package caddytest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/caddy-tally/caddy-tally/internal/testing/proof"
)

// architectures are those of Linux that a Caddy is tried on besides that of the tests: little- and big-endian,
// with 64 and 32 bits. QEMU runs what this machine doesn't; amd64 runs 386 itself.
var architectures = []struct{ name, emulator string }{
	{"arm64", "qemu-aarch64-static"},
	{"s390x", "qemu-s390x-static"},
	{"386", "env"},
}

// A limit holds over kill -9 on each architecture, each reads the database and the journal that another has
// written, and its stores pass their tests.
func TestArchitectures(t *testing.T) {
	proof.Deep(t)
	t.Parallel()
	for _, a := range architectures {
		t.Run(a.name, func(t *testing.T) {
			if a.name == runtime.GOARCH {
				t.Skip("that of the tests")
			}
			emulator, err := exec.LookPath(a.emulator)
			if err != nil || a.name == "386" && runtime.GOARCH != "amd64" {
				t.Skipf("%s is missing: install qemu-user-static", a.emulator)
			}
			env := append(os.Environ(), "GOARCH="+a.name, "CGO_ENABLED=0", "PROOF=", "PROOF_FIGURES=")
			dir := t.TempDir()
			run := func(name string, args ...string) {
				t.Helper()
				cmd := exec.CommandContext(t.Context(), name, args...)
				cmd.Env = append(env, "TMPDIR="+dir)
				if out, err := cmd.CombinedOutput(); err != nil {
					t.Fatalf("%s %q: %v\n%s", name, args, err, out)
				}
			}
			binary, caddy := filepath.Join(dir, "caddy"), filepath.Join(dir, "run")
			run("go", "build", "-o", binary, "../cmd/caddy")
			if err := os.WriteFile(caddy, fmt.Appendf(nil, "#!/bin/sh\nexec %s %s \"$@\"\n", emulator, binary), 0o700); err != nil {
				t.Fatal(err)
			}
			run("../examples/kill.sh", caddy)

			s := newServer(t, config("zone login {\nper ip\nlimit 6/1h\n}"))
			others := newServer(t, config("zone login {\nper ip\nlimit 6/1h\n}"))
			for i, start := range []struct {
				binary     string
				database   *server
				want, sent int
			}{
				{"", s, 2, 2}, {caddy, s, 2, 2}, {"", s, 2, 3},
				{caddy, others, 2, 2}, {"", others, 2, 2}, {caddy, others, 2, 3},
			} {
				start.database.binary = start.binary
				start.database.start()
				if got := start.database.passed(start.sent, "/"); got != start.want {
					t.Errorf("start %d: %d of %d passed, want %d", i+1, got, start.sent, start.want)
				}
				if start.database.health().Degraded {
					t.Errorf("start %d: the database can't be used", i+1)
				}
				start.database.kill()
			}
			run("go", "test", "-count=1", "-exec", emulator, "-run", "TestConformance|TestClaimRandom|TestEveryRun", "../storage/sqlite", "../limiter")
			proof.Figure(t, "6 starts in turn with %s on 2 databases, each after kill -9", runtime.GOARCH)
		})
	}
}
