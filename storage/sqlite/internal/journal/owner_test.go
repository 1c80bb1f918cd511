//go:build linux

package journal

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// What the owner was told is durable before another has opened the journal, that one finds.
// Writers write all the time; the other comes at any moment.
func TestNewcomerFindsWhatWasAdded(t *testing.T) {
	t.Parallel()
	const writers = 4
	for round := range 200 {
		o := Options{Path: newPath(t), Segments: 8, Records: 64}
		a := mustOpen(t, o)
		mustOwn(t, a, 0)
		var tried atomic.Int64
		added := make([][]int, writers)
		var wg sync.WaitGroup
		for w := range writers {
			wg.Go(func() {
				for n := w; ; n += writers {
					tried.Add(1)
					if r := numbered(n); !a.Add(r) {
						return
					}
					added[w] = append(added[w], n)
				}
			})
		}
		for moment := rand.Int64N(8 * 64); tried.Load() < moment; {
			runtime.Gosched()
		}
		b := mustOpen(t, o)
		there := make(map[int]int)
		for _, r := range found(t, b, 0) {
			if r != numbered(int(r.Limit)) {
				t.Fatalf("%+v was not added", r)
			}
			there[int(r.Limit)]++
		}
		wg.Wait()
		total := 0
		for _, numbers := range added {
			for _, n := range numbers {
				if total++; there[n] != 1 {
					t.Fatalf("round %d: record %d, which was added, is found %d times", round, n, there[n])
				}
			}
		}
		if extra := len(there) - total; extra < 0 || extra > writers {
			t.Fatalf("round %d: %d records more than were added", round, extra)
		}
		a.Close()
		b.Close()
	}
}

// Several Journals open, own, add and close at random; there is never more than one owner,
// and what was added is found by all who come later.
func TestManyComeAndGo(t *testing.T) {
	o := Options{Path: newPath(t), Segments: 400, Records: 32}
	mustOpen(t, o).Close()
	var mu sync.Mutex // guards added, and comes after the journal's own
	added := make(map[int]bool)
	var next atomic.Int64
	var wg sync.WaitGroup
	visit := func(seed uint64) {
		random := rand.New(rand.NewPCG(seed, 0))
		mu.Lock()
		before := make([]int, 0, len(added))
		for n := range added {
			before = append(before, n)
		}
		mu.Unlock()
		j := mustOpen(t, o)
		defer j.Close()
		there := make(map[int]bool)
		for _, r := range found(t, j, 0) {
			if there[int(r.Limit)] {
				t.Errorf("record %d is there twice", r.Limit)
			}
			there[int(r.Limit)] = true
		}
		for _, n := range before {
			if !there[n] {
				t.Errorf("record %d, which was added, is not found", n)
			}
		}
		if !j.Own(0, 0) {
			return
		}
		for range random.IntN(100) {
			n := int(next.Add(1))
			if r := numbered(n); !j.Add(r) {
				return
			}
			mu.Lock()
			added[n] = true
			mu.Unlock()
		}
	}
	for i := range uint64(3) {
		wg.Go(func() {
			for n := range uint64(60) {
				visit(i<<32 | n)
			}
		})
	}
	wg.Wait()
	if len(added) == 0 {
		t.Error("nobody ever added anything")
	}
}

// addLate writes a record and doesn't look whether it counts, as a process that is stopped or hangs in between.
func addLate(j *Journal, n int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.writeLocked(j.writing, []Record{numbered(n)})
}

// A record that a revoked owner writes late counts for nobody who has read its segment, and harms nobody later: all of
// its writes have ended before another one can become the owner.
func TestLateRecords(t *testing.T) {
	path := newPath(t)
	a := mustOpen(t, small(path))
	mustOwn(t, a, 0)
	mustAdd(t, a, 1)
	b := mustOpen(t, small(path))
	holds(t, b, 0, 1)
	addLate(a, 2)
	if a.Owned() || b.Own(1, 0) {
		t.Error("a revoked owner goes on, or another follows while it may write")
	}
	a.Close()
	mustOwn(t, b, 1)
	holds(t, b, 1)
	mustAdd(t, b, 3, 4, 5, 6)
	holds(t, b, 1, 3, 4, 5, 6)
}

// A record that was written before the owner was revoked, and not looked at since, is found by the newcomer, and its
// Add fails if the newcomer has gone again, too.
func TestRevokedOwnerIsNoOwnerWhenTheOtherHasGone(t *testing.T) {
	path := newPath(t)
	a := mustOpen(t, small(path))
	mustOwn(t, a, 0)
	addLate(a, 1)
	b := mustOpen(t, small(path))
	holds(t, b, 0, 1)
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	refuses(t, a)
}

// If a newcomer is killed while it lets the owner finish a write, the next one waits for that: until it is over, the
// file says so.
func TestACutWaitIsRepeated(t *testing.T) {
	o := Options{Path: newPath(t)}
	a := mustOpen(t, o)
	mustOwn(t, a, 0)
	owned, opened := time.Now(), make(chan struct{})
	go func() {
		defer close(opened)
		mustOpen(t, o)
	}()
	for {
		before := time.Now()
		word, err := a.readWords(ownerAt, 1)
		if err != nil {
			t.Fatal(err)
		}
		if word[0] == 0 {
			if took := time.Since(owned); took < revokeWait {
				t.Errorf("%v after it had an owner the file had none; want a wait of %v", took, revokeWait)
			}
			break
		}
		if word[0] == a.token.Load() {
			owned = before
		}
	}
	<-opened
	if err := a.writeWords(ownerAt, revoked); err != nil { // as the killed one left it
		t.Fatal(err)
	}
	began := time.Now()
	mustOpen(t, o)
	if took := time.Since(began); took < revokeWait {
		t.Errorf("opened after %v, want a wait of %v", took, revokeWait)
	}
	refuses(t, a)
}

func TestGenerationsEnd(t *testing.T) {
	j := mustOpen(t, small(newPath(t)))
	if j.Own(maxGeneration+1, 0) {
		t.Error("a generation that can't be is accepted")
	}
	mustOwn(t, j, maxGeneration-1)
	mustAdd(t, j, 1, 2, 3, 4)
	refuses(t, j)
	holds(t, j, maxGeneration-1, 1, 2, 3, 4)
	j.Free(maxGeneration)
	refuses(t, j)
}

// Closing while Adds run touches no memory that isn't the journal's any more.
func TestCloseWhileAdding(t *testing.T) {
	for range 30 {
		j := mustOpen(t, Options{Path: newPath(t), Segments: 4, Records: 50})
		mustOwn(t, j, 0)
		var began, wg sync.WaitGroup
		began.Add(4)
		for w := range 4 {
			wg.Go(func() {
				mustAdd(t, j, w)
				began.Done()
				for n := 0; j.Owned(); n++ {
					r := numbered(n)
					j.Add(r)
					if n%20 == 0 {
						j.Seal()
						j.Free(j.Newest() - 1)
					}
					for _, s := range j.Segments(0) {
						_, _ = readOne(s, 0, &r)
					}
				}
			})
		}
		began.Wait()
		if err := j.Close(); err != nil {
			t.Error(err)
		}
		wg.Wait()
	}
}

// A child process adds records and says so through a pipe, until it is killed. All that it said
// are found.
func TestRecordsSurviveSIGKILL(t *testing.T) {
	if path := os.Getenv("JOURNAL_OF_CHILD"); path != "" {
		addForever(t, path)
		return
	}
	for round := range 10 {
		o := Options{Path: newPath(t)}
		child := exec.Command(os.Args[0], "-test.run=^TestRecordsSurviveSIGKILL$")
		child.Env = append(os.Environ(), "JOURNAL_OF_CHILD="+o.Path)
		out, err := child.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := child.Start(); err != nil {
			t.Fatal(err)
		}
		added := make(map[int]bool)
		for lines, enough := bufio.NewScanner(out), 100+rand.IntN(1000); lines.Scan(); {
			var n int
			if _, err := fmt.Sscanf(lines.Text(), "added %d.", &n); err != nil {
				continue // the end of a line is missing
			}
			if added[n] = true; len(added) == enough {
				if err := child.Process.Kill(); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := child.Wait(); err == nil || len(added) < 100 {
			t.Fatalf("the child ended by itself after %d records", len(added))
		}
		j := mustOpen(t, o)
		for _, r := range found(t, j, 0) {
			if r != numbered(int(r.Limit)) {
				t.Fatalf("%+v was not added", r)
			}
			delete(added, int(r.Limit))
		}
		if len(added) != 0 {
			t.Fatalf("round %d: %d records that were added are not found: %v", round, len(added), added)
		}
		mustOwn(t, j, j.Newest())
	}
}

// addForever is the child. It writes to the pipe after each Add; several goroutines do.
func addForever(t *testing.T, path string) {
	j := mustOpen(t, Options{Path: path})
	mustOwn(t, j, 0)
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			for n := w; n < 1<<20; n += 4 {
				if r := numbered(n); !j.Add(r) {
					j.Free(j.Newest() - 1)
					continue
				}
				if _, err := fmt.Printf("added %d.\n", n); err != nil {
					return
				}
			}
		})
	}
	wg.Wait()
}

// An owner that is stopped keeps nobody waiting, and finds out when it goes on.
func TestStoppedOwner(t *testing.T) {
	if path := os.Getenv("JOURNAL_OF_CHILD"); path != "" {
		addUntilRevoked(t, path)
		return
	}
	o := Options{Path: newPath(t)}
	child := exec.Command(os.Args[0], "-test.run=^TestStoppedOwner$")
	child.Env = append(os.Environ(), "JOURNAL_OF_CHILD="+o.Path)
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	if !lines.Scan() || lines.Text() != "began" {
		t.Fatalf("the child said %q", lines.Text())
	}
	stop(t, child.Process)
	j := mustOpen(t, o)
	there := make(map[int]bool)
	for _, r := range found(t, j, 0) {
		there[int(r.Limit)] = true
	}
	if j.Own(0, 0) {
		t.Error("it became the owner while the child has the file open")
	}
	if err := child.Process.Signal(cont); err != nil {
		t.Fatal(err)
	}
	added := 0
	if !lines.Scan() {
		t.Fatal("the child says nothing")
	}
	if _, err := fmt.Sscanf(lines.Text(), "revoked after %d", &added); err != nil {
		t.Fatalf("the child said %q", lines.Text())
	}
	if err := child.Wait(); err != nil {
		t.Fatal(err)
	}
	for n := range added {
		if !there[n] {
			t.Fatalf("record %d of %d that were added was not found while the owner was stopped", n, added)
		}
	}
	mustOwn(t, j, j.Newest())
}

func addUntilRevoked(t *testing.T, path string) {
	j := mustOpen(t, Options{Path: path, Segments: 16, Records: 1 << 16})
	mustOwn(t, j, 0)
	fmt.Println("began")
	for n := 0; ; n++ {
		if r := numbered(n); !j.Add(r) {
			if j.Owned() {
				time.Sleep(time.Millisecond) // it is full; the other comes
				n--
				continue
			}
			fmt.Println("revoked after", n)
			return
		}
	}
}
