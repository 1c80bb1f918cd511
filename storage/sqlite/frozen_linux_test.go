package sqlite

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/engine"
	"github.com/caddy-tally/caddy-tally/internal/testing/child"
	"github.com/caddy-tally/caddy-tally/internal/testing/proof"
	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/storage"
	"github.com/caddy-tally/caddy-tally/storage/storagetest"
)

// frozenTimeout is the time that decisions of the child wait for the store.
const frozenTimeout = 500 * time.Millisecond

// frozenKeys is how many clients come again and again.
const frozenKeys = 8

// frozenReport is what the child measured since its last report.
type frozenReport struct {
	Still    time.Duration // the longest time that a goroutine without a limit stood still
	Decision time.Duration // the longest decision
	Degraded bool
	New      int64             // admitted requests of keys that came once
	Admitted [frozenKeys]int64 // of each key
}

// A file system that is frozen, as for a snapshot of the machine, hangs nobody: requests are decided within the time
// that they wait for the store, and whoever has no limit notices nothing. Afterwards nothing is counted twice, and
// nothing is forgotten.
func TestFrozenDiskStopsNobody(t *testing.T) {
	if path := os.Getenv("FROZEN_CHILD"); path != "" {
		decideOnFrozenDisk(t, path)
		return
	}
	disk := newLoopDisk(t)
	for _, processors := range []int{2, 16}[:proof.Sample(1, 2)] {
		t.Run(fmt.Sprint(processors, " processors"), func(t *testing.T) {
			path := filepath.Join(disk, fmt.Sprint(processors), "tally.db")
			c := startFrozenChild(t, path, processors)
			c.report(t)
			var sum [frozenKeys]int64
			for range proof.Times(1, 3) {
				freeze(t, disk, "-f")
				time.AfterFunc(4*time.Second, func() { freeze(t, disk, "-u") })
				for range 3 {
					c.checkStill(t, &sum)
				}
				freeze(t, disk, "-u")
				for before := time.Now(); ; {
					if r := c.checkStill(t, &sum); !r.Degraded {
						break
					} else if time.Since(before) > time.Minute {
						t.Fatal("the database isn't used again")
					}
				}
			}
			c.close(t, &sum)
			s := opened(t, Options{Path: path})
			for key, admitted := range sum {
				claims, grants := []storage.Claim{{ID: 1, Key: hashOf(1, frozenKey(key)), Limit: frozenLimit(t).Rate, Claim: limiter.Claim{Now: time.Now().UnixNano()}}}, make([]limiter.Grant, 1)
				if err := s.Claim(t.Context(), storagetest.At(time.Now().UnixNano()), claims, grants); err != nil {
					t.Fatal(err)
				}
				if used := grants[0].InUse(); used != admitted {
					t.Errorf("key %d: %d are charged, want the %d that were admitted", key, used, admitted)
				}
			}
		})
	}
}

// A reader that finds new commits stores a mark into the index, which SQLite maps into memory. On a frozen file system
// that reader hangs alone.
func TestReaderOfFrozenDiskStopsNobody(t *testing.T) {
	if path := os.Getenv("FROZEN_CHILD"); path != "" {
		readFrozenDisk(t, path)
		return
	}
	disk := newLoopDisk(t)
	c := startFrozenChild(t, filepath.Join(disk, "tally.db"), 2)
	if !c.lines.Scan() {
		t.Fatal("the child has ended")
	}
	freeze(t, disk, "-f")
	time.AfterFunc(5*time.Second, func() { freeze(t, disk, "-u") })
	if r := c.report(t); r.Still > time.Second {
		t.Errorf("others stood still for %v", r.Still)
	}
	freeze(t, disk, "-u")
	if !c.lines.Scan() || c.lines.Text() != "read" {
		t.Errorf("after the thaw the reader says %q", c.lines.Text())
	}
}

// readFrozenDisk is the child: after a commit it reads when it is told to.
func readFrozenDisk(t *testing.T, path string) {
	s, err := Open(t.Context(), Options{Path: path, NoJournal: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Audit(t.Context(), storage.Audit, &storage.Act{At: 1}); err != nil {
		t.Fatal(err)
	}
	fmt.Println("committed")
	if _, err := bufio.NewReader(os.Stdin).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	read, before, still := make(chan error), time.Now(), time.Duration(0)
	go func() { _, err := s.Acts(context.Background(), storage.Audit, 2, 1); read <- err }()
	for begin := before; time.Since(begin) < time.Second; {
		runtime.GC()
		time.Sleep(5 * time.Millisecond)
		still, before = max(still, time.Since(before)), time.Now()
	}
	if err := json.NewEncoder(os.Stdout).Encode(frozenReport{Still: still}); err != nil {
		t.Error(err)
	}
	if err := <-read; err != nil {
		t.Error(err)
	}
	fmt.Println("read")
	_ = s.Close()
}

func frozenKey(n int) string { return "client " + strconv.Itoa(n) }

func frozenLimit(t testing.TB) *engine.Limit {
	return &engine.Limit{ID: 1, Rate: newLimit(t, limiter.Params{Algorithm: limiter.Fixed, Amount: 1 << 30, Window: 24 * time.Hour})}
}

// newLoopDisk returns a folder on a file system of its own.
func newLoopDisk(t *testing.T) string {
	t.Helper()
	folder := t.TempDir()
	image, disk := filepath.Join(folder, "image"), filepath.Join(folder, "disk")
	write(t, image, "")
	if err := os.Truncate(image, 160<<20); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(disk, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, command := range [][]string{{"mkfs.ext4", "-q", image}, {"mount", "-o", "loop", image, disk}} {
		if out, err := exec.Command(command[0], command[1:]...).CombinedOutput(); err != nil {
			t.Skipf("a disk to freeze needs root, loop devices and mkfs.ext4, so a frozen one is not tested: %v: %v: %s", command, err, out)
		}
	}
	t.Cleanup(func() {
		freeze(t, disk, "-u")
		if out, err := exec.Command("umount", disk).CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
	})
	return disk
}

// freeze freezes or thaws a file system. Thawing one that isn't frozen does nothing.
func freeze(t *testing.T, disk, how string) {
	if out, err := exec.Command("fsfreeze", how, disk).CombinedOutput(); err != nil && how == "-f" {
		t.Fatalf("%v: %s", err, out)
	}
}

type frozenChild struct {
	in    io.Writer
	lines *bufio.Scanner
	cmd   *exec.Cmd
}

func startFrozenChild(t *testing.T, path string, processors int) *frozenChild {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^"+strings.Split(t.Name(), "/")[0]+"$")
	cmd.Env = append(os.Environ(), "FROZEN_CHILD="+path, "GOGC=20", "GOMAXPROCS="+strconv.Itoa(processors))
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(cmd); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	return &frozenChild{in: in, lines: bufio.NewScanner(out), cmd: cmd}
}

// report asks for a report after about a second.
func (c *frozenChild) report(t *testing.T) (r frozenReport) {
	t.Helper()
	if _, err := fmt.Fprintln(c.in); err != nil {
		t.Fatal(err)
	}
	if !c.lines.Scan() {
		t.Fatal("the child has ended")
	}
	if err := json.Unmarshal(c.lines.Bytes(), &r); err != nil {
		t.Fatalf("%v: %s", err, c.lines.Text())
	}
	return r
}

// checkStill asks for a report, and checks that nobody stood still.
func (c *frozenChild) checkStill(t *testing.T, sum *[frozenKeys]int64) frozenReport {
	t.Helper()
	r := c.report(t)
	const slack = time.Second // of a busy machine
	if r.Still > slack || r.Decision > frozenTimeout+slack {
		t.Errorf("others stood still for %v, and decisions took up to %v", r.Still, r.Decision)
	}
	*sum = r.Admitted
	return r
}

// close ends the child, which gives back what it holds.
func (c *frozenChild) close(t *testing.T, sum *[frozenKeys]int64) {
	t.Helper()
	if _, err := fmt.Fprintln(c.in, "close"); err != nil {
		t.Fatal(err)
	}
	if !c.lines.Scan() {
		t.Fatal("the child has ended")
	}
	var r frozenReport
	if err := json.Unmarshal(c.lines.Bytes(), &r); err != nil {
		t.Fatalf("%v: %s", err, c.lines.Text())
	}
	*sum = r.Admitted
	if err := c.cmd.Wait(); err != nil {
		t.Error(err)
	}
}

// decideOnFrozenDisk is the child.
func decideOnFrozenDisk(t *testing.T, path string) {
	ctx, limit := context.Background(), frozenLimit(t)
	var store atomic.Pointer[Store]
	e := engine.New(engine.Options{
		Open: func(ctx context.Context) (storage.Store, error) {
			s, err := Open(ctx, Options{Path: path})
			store.Store(s)
			return s, err
		},
		StoreTimeout: frozenTimeout,
		Name: func(id storage.LimitID, key string, _ time.Duration, _ int64) (engine.Name, error) {
			return engine.Name{Key: hashOf(id, key)}, nil
		},
		NameAtOnce: func(id storage.LimitID, key string, _ time.Duration, _ int64) (engine.Name, bool) {
			return engine.Name{Key: hashOf(id, key)}, true
		},
	})
	<-e.Ready()
	var still, decision, others atomic.Int64
	var admitted [frozenKeys]atomic.Int64
	longest := func(of *atomic.Int64, since time.Time) {
		for took := int64(time.Since(since)); ; {
			if was := of.Load(); took <= was || of.CompareAndSwap(was, took) {
				return
			}
		}
	}
	stop := make(chan struct{})
	var wg sync.WaitGroup
	forever := func(f func(n int)) {
		wg.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
					f(n)
				}
			}
		})
	}
	ask := func(key string) bool {
		defer longest(&decision, time.Now())
		d := e.Decide(ctx, nil, []engine.Debit{{Limit: limit, Key: []byte(key), Cost: 1}})
		return d.Allowed
	}
	forever(func(int) { before := time.Now(); time.Sleep(5 * time.Millisecond); longest(&still, before) })
	forever(func(int) { runtime.GC(); time.Sleep(20 * time.Millisecond) })
	forever(func(int) {
		_ = store.Load().Audit(ctx, storage.Audit, &storage.Act{At: time.Now().UnixNano()})
		time.Sleep(5 * time.Millisecond)
	})
	forever(func(int) { _, _ = store.Load().Acts(ctx, storage.Audit, 1<<62, 1); time.Sleep(time.Millisecond) })
	for i := range frozenKeys {
		forever(func(int) {
			if ask(frozenKey(i)) {
				admitted[i].Add(1)
			}
			time.Sleep(time.Millisecond)
		})
		forever(func(n int) {
			if ask(fmt.Sprint("new ", i, " ", n)) {
				others.Add(1)
			}
			time.Sleep(time.Millisecond)
		})
	}
	say := func() {
		r := frozenReport{Still: time.Duration(still.Swap(0)), Decision: time.Duration(decision.Swap(0)), Degraded: e.Degraded(), New: others.Load()}
		for i := range admitted {
			r.Admitted[i] = admitted[i].Load()
		}
		if err := json.NewEncoder(os.Stdout).Encode(r); err != nil {
			t.Error(err)
		}
	}
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		if lines.Text() == "close" {
			close(stop)
			wg.Wait()
			if err := e.Close(ctx); err != nil {
				t.Error(err)
			}
			say()
			return
		}
		time.Sleep(time.Second)
		say()
	}
}
