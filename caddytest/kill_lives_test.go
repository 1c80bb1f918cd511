package caddytest

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// killer starts Caddys, has clients load them, and kills them.
type killer struct {
	t         *testing.T
	rng       *rand.Rand
	log       *ledger
	first     *server // these two share a database
	second    *server
	servers   []*server // all there were
	running   []*killProcess
	fresh     atomic.Int64
	processes int
	databases int
	kills     map[string]int // by what they fell into
	rows      int            // left by the last life
}

func newKiller(t *testing.T, seed uint64) *killer {
	if _, err := caddyBinary(); err != nil {
		t.Fatal(err)
	}
	k := &killer{t: t, rng: rand.New(rand.NewPCG(seed, 0)), kills: make(map[string]int), log: newLedger()}
	k.first = k.server()
	k.second = k.server("XDG_DATA_HOME=" + k.first.data())
	return k
}

// server prepares a server.
func (k *killer) server(env ...string) *server {
	s := newServer(k.t, killConfig(), env...)
	k.servers = append(k.servers, s)
	return s
}

// round lets each kind of life happen.
func (k *killer) round() {
	k.young()
	k.ordinary()
	k.together()
	k.handOver()
	k.early()
	k.write()
	k.checkpoint()
	k.sweep()
}

// begin starts a life, with clients that ask from the first moment on.
func (k *killer) begin(s *server, clients int, heavy bool) *killProcess {
	k.processes++
	p := &killProcess{server: s, number: k.processes, fresh: &k.fresh}
	if s != k.first && s != k.second {
		p.prefix = fmt.Sprintf("database %d ", k.databases)
	}
	k.running = append(k.running, p)
	for _, r := range k.running {
		r.shared.Store(len(k.running) > 1)
	}
	p.launch()
	p.load(k.log, k.rng, clients, heavy)
	return p
}

// end kills a process, which must not have ended by itself.
func (k *killer) end(p *killProcess, kind string) {
	k.t.Helper()
	select {
	case <-p.ended:
		k.t.Errorf("Caddy ended by itself: %v", p.err)
	default:
		p.kill()
	}
	k.dismiss(p)
	k.kills[kind]++
}

// dismiss has the clients of a process end.
func (k *killer) dismiss(p *killProcess) {
	p.endLoad()
	k.running = slices.DeleteFunc(k.running, func(r *killProcess) bool { return r == p })
}

// moment lets some time pass, up to most.
func (k *killer) moment(most time.Duration) { time.Sleep(time.Duration(k.rng.Int64N(int64(most)))) }

// awaitChange waits until one of some files has changed since it had a stamp.
// It returns false if that takes longer than most.
func (k *killer) awaitChange(since string, most time.Duration, paths ...string) bool {
	for deadline := time.Now().Add(most); stamp(paths...) == since; time.Sleep(50 * time.Microsecond) {
		if time.Now().After(deadline) {
			return false
		}
	}
	return true
}

// ordinary is a life under load.
func (k *killer) ordinary() {
	p := k.begin(k.first, 6, false)
	p.awaitReady()
	k.moment(1500 * time.Millisecond)
	k.end(p, "under load")
	k.rows = checkLeft(k.t, k.first.database())
}

// early is a life that ends while it starts, or soon after.
func (k *killer) early() {
	p := k.begin(k.first, 6, false)
	k.moment(600 * time.Millisecond)
	k.end(p, "starting, or soon after")
	k.rows = checkLeft(k.t, k.first.database())
}

// together is the life of two processes that have one database, one of which
// lives longer.
func (k *killer) together() {
	p, q := k.begin(k.first, 4, false), k.begin(k.second, 4, false)
	p.awaitReady()
	q.awaitReady()
	k.moment(time.Second)
	if k.rng.IntN(2) == 0 {
		p, q = q, p
	}
	k.end(p, "beside another process")
	k.moment(500 * time.Millisecond)
	k.end(q, "after another process")
	k.rows = checkLeft(k.t, k.first.database())
}

// handOver is the life of a process that has the database to itself until another comes,
// one of which ends about then.
func (k *killer) handOver() {
	p := k.begin(k.first, 4, false)
	p.awaitReady()
	k.moment(time.Second)
	q := k.begin(k.second, 4, false)
	k.moment(400 * time.Millisecond)
	if k.rng.IntN(4) == 0 {
		p, q = q, p
	}
	k.end(p, "when another process came")
	q.awaitReady()
	k.moment(500 * time.Millisecond)
	k.end(q, "after another process")
	k.rows = checkLeft(k.t, k.first.database())
}

// write is a life under load that ends when something is written to the database.
func (k *killer) write() {
	p := k.begin(k.first, 6, false)
	p.awaitReady()
	for range 1 + k.rng.IntN(3) {
		log := k.first.database() + "-wal"
		k.awaitChange(stamp(log), patience, log)
	}
	k.moment(3 * time.Millisecond)
	k.end(p, "when it wrote to the database")
	k.rows = checkLeft(k.t, k.first.database())
}

// checkpoint is a life under a flood of new keys that ends when the log is copied
// into the database.
func (k *killer) checkpoint() {
	path := k.first.database()
	was := stamp(path)
	p := k.begin(k.first, 12, true)
	p.awaitReady()
	if !k.awaitChange(was, patience, path) {
		k.t.Error("no checkpoint was made")
	}
	k.moment(3 * time.Millisecond)
	k.end(p, "when a checkpoint began")
	if !isCheckpointed(k.t, path) {
		k.kills["  in the middle of it"]++
	}
	k.rows = checkLeft(k.t, path)
}

// sweep is a life without load, that ends while the rows of the last one are
// deleted. Nothing else writes.
func (k *killer) sweep() {
	path, was := k.first.database(), k.rows
	files := []string{path, path + "-wal"}
	since := stamp(files...) // a start changes neither
	p := k.begin(k.first, 0, false)
	p.awaitReady()
	if !k.awaitChange(since, patience, files...) {
		k.t.Error("nothing was swept")
	}
	k.moment(30 * time.Millisecond)
	k.end(p, "when a sweep began")
	k.rows = checkLeft(k.t, path)
	if 0 < k.rows && k.rows < was {
		k.kills[inSweep]++
	}
}

// young are the first lives of a database, some of which end before it is made,
// or while.
func (k *killer) young() {
	k.databases++
	s := k.server()
	path := s.database()
	files := []string{filepath.Join(filepath.Dir(path), "tally.key"), path, path + "-journal", path + "-wal"}
	for range 1 + k.rng.IntN(3) {
		was := stamp(files...)
		p := k.begin(s, 2, false)
		k.awaitChange(was, time.Second, files...)
		for range k.rng.IntN(5) {
			k.awaitChange(stamp(files...), 10*time.Millisecond, files...)
		}
		k.moment(time.Millisecond)
		k.end(p, "making a database")
		k.removeAuthority(s)
		k.kills[k.made(path)]++
		checkLeft(k.t, path)
	}
	p := k.begin(s, 4, false)
	p.awaitReady()
	k.moment(500 * time.Millisecond)
	k.end(p, "with a database just made")
	checkLeft(k.t, path)
}

// removeAuthority removes the certificate authority of a server: Caddy doesn't start again if it was
// killed while it made that.
func (k *killer) removeAuthority(s *server) {
	if err := os.RemoveAll(filepath.Join(s.data(), "caddy", "pki")); err != nil {
		k.t.Fatal(err)
	}
}

// made tells how far a database has come that was to be made.
func (k *killer) made(path string) string {
	switch file, err := os.Stat(path); {
	case err == nil && len(head(k.t, path+"-journal", 1)) > 0:
		return "  in the middle of its migration"
	case err != nil || file.Size() == 0:
		return tooEarly
	}
	return "  when it was there"
}

// last is a life that ends in good order. It returns after the database was
// looked at, where it is.
func (k *killer) last() {
	p := k.begin(k.first, 6, false)
	p.awaitReady()
	k.moment(time.Second)
	k.exhaust(p)
	k.dismiss(p)
	p.stop()
	if _, err := integrity(k.first.database()); err != nil {
		k.t.Error(err)
	}
	for _, s := range k.servers {
		for line := range strings.Lines(s.logs()) { // tls can't clean its storage if it is stopped meanwhile
			if strings.Contains(line, `"level":"error"`) && !strings.Contains(line, `"logger":"tls"`) {
				k.t.Errorf("an error was logged; while the store can't be used, reduced limits of each process hold, and nothing was proved: %s", line)
			}
		}
	}
}

// exhaust uses up a key of each zone, so that somebody is refused on a slow machine, too.
func (k *killer) exhaust(p *killProcess) {
	for i, z := range killZones {
		if i == flood {
			continue
		}
		acc := account{z.name, p.prefix + "0"}
		for refused := false; !refused && !k.t.Failed(); {
			k.log.ask(p.server, acc, z.most, func(o *observed) { o.process, o.alone = p.number, !p.shared.Load() })
			log := k.log.of(acc)
			refused = len(log) > 0 && !log[len(log)-1].admitted
		}
	}
}
