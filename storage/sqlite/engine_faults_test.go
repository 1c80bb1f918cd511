package sqlite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/engine"
	"github.com/caddy-tally/caddy-tally/internal/testing/bubble"
	"github.com/caddy-tally/caddy-tally/internal/testing/proof"
)

// inTrouble runs f for an engine on a database, in virtual time.
func inTrouble(t *testing.T, o Options, amount int64, f func(t *testing.T, s *site), change ...func(*engine.Options)) {
	t.Helper()
	if o.Path == "" {
		o.Path = filepath.Join(t.TempDir(), "tally.db")
	}
	o.NoJournal = true // whose faults have tests of their own
	bubble.Test(t, func(t *testing.T) {
		s := newSite(t, o, amount, change...)
		f(t, s)
		s.end()
	})
}

// use makes n requests for one key.
func (s *site) use(n int, key string) (allowed int64) {
	for range n {
		if s.ask(key).Allowed {
			allowed++
		}
	}
	return allowed
}

// The next commit notices that the database of an engine was removed, renamed or replaced. No limit
// known to memory is forgotten.
func TestReplacedUnderAnEngine(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(path string) error{
		"removed": os.Remove,
		"renamed": func(path string) error { return os.Rename(path, path+".old") },
		"removed with its log": func(path string) error {
			return errors.Join(os.Remove(path), os.Remove(path+walSuffix), os.Remove(path+shmSuffix))
		},
		"log removed":             func(path string) error { return os.Remove(path + walSuffix) },
		"index removed":           func(path string) error { return os.Remove(path + shmSuffix) },
		"removed with its folder": func(path string) error { return os.RemoveAll(filepath.Dir(path)) },
		"replaced by an empty file": func(path string) error {
			return errors.Join(os.Rename(path, path+".old"), os.WriteFile(path, nil, 0o600))
		},
		"replaced by an old copy": func(path string) error {
			content, err := os.ReadFile(path)
			return errors.Join(err, os.Rename(path, path+".old"), os.WriteFile(path, content, 0o600))
		},
	} {
		t.Run(name, func(t *testing.T) {
			o := Options{Path: filepath.Join(t.TempDir(), "x", "tally.db")}
			inTrouble(t, o, 300, func(t *testing.T, s *site) {
				s.use(100, "a")
				s.use(200, "b")
				s.use(301, "c") // blocked
				if err := spoil(o.Path); err != nil {
					t.Fatal(err)
				}
				s.use(1, "new")
				s.use(1, "newer")
				if n := s.count("was removed or replaced"); n != 1 || s.count(o.Path) != 1 {
					t.Fatalf("after two commits told %d times: %q", n, s.told)
				}
				s.recovered()
				for key, left := range map[string]int64{"a": 200, "b": 100, "c": 0} {
					if got := s.use(301, key); got != left {
						t.Errorf("%d more of key %s admitted, want %d", got, key, left)
					}
				}
			})
		})
	}
}

// It is noticed as well while the only client is blocked, so that nothing is claimed, and memory's counts are in the
// database again when the engine stops.
func TestRemovedWhileNothingIsClaimed(t *testing.T) {
	t.Parallel()
	o := Options{Path: filepath.Join(t.TempDir(), "tally.db")}
	inTrouble(t, o, 50, func(t *testing.T, s *site) {
		s.use(51, "a")
		if err := os.Rename(o.Path, o.Path+".old"); err != nil {
			t.Fatal(err)
		}
		if got := s.use(1, "a"); got != 0 {
			t.Errorf("%d more admitted at once", got)
		}
		time.Sleep(time.Second)
		s.recovered()
		if got := s.use(1, "a"); got != 0 {
			t.Errorf("%d more admitted", got)
		}
	})
	inTrouble(t, o, 50, func(t *testing.T, s *site) {
		if got := s.use(50, "a"); got != 0 {
			t.Errorf("%d more admitted after a restart", got)
		}
	})
}

// A foreign file in the place of the database stays unchanged and unused. When it is gone, the
// store is used again.
func TestReplacedByWhatIsNotOurs(t *testing.T) {
	t.Parallel()
	for name, put := range map[string]func(path, victim string) error{
		"symlink":   func(path, victim string) error { return os.Symlink(victim, path) },
		"directory": func(path, _ string) error { return os.Mkdir(path, 0o700) },
		"text":      func(path, _ string) error { return os.WriteFile(path, []byte("not a database"), 0o600) },
	} {
		t.Run(name, func(t *testing.T) {
			o := Options{Path: filepath.Join(t.TempDir(), "tally.db")}
			victim := filepath.Join(t.TempDir(), "victim")
			write(t, victim, "")
			inTrouble(t, o, 30, func(t *testing.T, s *site) {
				s.use(10, "a")
				if err := errors.Join(os.Remove(o.Path), put(o.Path, victim)); err != nil {
					t.Fatal(err)
				}
				for range 300 {
					s.use(1, "a")
					time.Sleep(time.Second)
				}
				if n := s.count("not a database of this version"); n < 4 || n > 5 || s.count("recovered") != 0 {
					t.Errorf("in five minutes told %d times: %q", n, s.told)
				}
				if got := read(t, victim); got != "" {
					t.Errorf("the victim was written: %d bytes", len(got))
				}
				if err := os.Remove(o.Path); err != nil {
					t.Fatal(err)
				}
				s.recovered()
				s.use(40, "a")
			})
		})
	}
}

// chill makes the store read from the file, not from its cache.
func (s *Store) chill(t *testing.T) {
	t.Helper()
	s.tx.mu.Lock()
	defer s.tx.mu.Unlock()
	if err := s.log.reuseLocked(); err != nil {
		t.Fatal(err)
	}
	mustExec(t, s.tx.conn, `PRAGMA shrink_memory`)
}

// Damage found at run time is reported once. The database is set aside, and the known usage is
// charged to a new one.
func TestDamagedUnderAnEngine(t *testing.T) {
	t.Parallel()
	for name, find := range map[string]func(s *site){
		"by a claim": func(s *site) { s.use(1, "new") },
		"by a sweep": func(*site) { time.Sleep(2 * time.Minute) },
	} {
		t.Run(name, func(t *testing.T) {
			var notices []Notice
			o := Options{Path: filepath.Join(t.TempDir(), "tally.db"), Notice: func(n Notice) { notices = append(notices, n) }}
			inTrouble(t, o, 300, func(t *testing.T, s *site) {
				s.use(100, "a")
				s.use(301, "c")
				s.stores.Load().chill(t)
				spoil(t, o.Path, pageSize, int(sizeOf(o.Path))-pageSize)
				find(s)
				if n := s.count("database is damaged"); n < 1 || n > 2 { // by a sweep and by the engine
					t.Errorf("told %d times: %q", n, s.told)
				}
				s.recovered()
				if len(notices) != 1 || notices[0].Path != o.Path {
					t.Errorf("got notices %+v", notices)
				}
				if a, c := s.use(301, "a"), s.use(1, "c"); a != 200 || c != 0 {
					t.Errorf("%d and %d more admitted, want 200 and 0", a, c)
				}
			})
		})
	}
}

// A database that can be opened but not written is unused until it can be written.
func TestReadOnlyUnderAnEngine(t *testing.T) {
	t.Parallel()
	minutes := proof.Times(4, 10)
	prefixes := []string{"INSERT", "COMMIT", "BEGIN IMMEDIATE"}
	if testing.Short() {
		prefixes = prefixes[:1]
	}
	for _, prefix := range prefixes {
		t.Run(prefix, func(t *testing.T) {
			f := new(faults)
			inTrouble(t, Options{connect: f.connect}, 300, func(t *testing.T, s *site) {
				s.use(200, "a")
				f.set(func(query string) error {
					if strings.HasPrefix(query, prefix) {
						return coded(8)
					}
					return nil
				})
				s.use(100, "a") // has had more than memory admits, so nothing must be charged later
				time.Sleep(time.Duration(minutes) * time.Minute)
				if n := s.count("recovered"); n != 0 {
					t.Errorf("in use again %d times: %q", n, s.told)
				}
				if n := s.count("degraded"); n < minutes || n > minutes+2 { // one more where the cause turned out to be another one
					t.Errorf("told %d times in %d minutes, want once a minute, and once more for its cause", n, minutes)
				}
				f.set(nil)
				s.recovered()
			})
		})
	}
}

// While a commit hangs, no request waits for longer than the timeout, nor do the statistics.
func TestCommitHangsUnderAnEngine(t *testing.T) {
	t.Parallel()
	f := new(faults)
	inTrouble(t, Options{connect: f.connect}, 300, func(t *testing.T, s *site) {
		s.use(10, "a")
		f.set(func(query string) error {
			if strings.HasPrefix(query, "COMMIT") {
				time.Sleep(5 * time.Minute)
			}
			return nil
		})
		for i := range 240 {
			s.use(1, fmt.Sprint("key", i%3)) // fails if it takes long
			start := time.Now()
			if stats := s.Stats(context.Background()); time.Since(start) != 0 || stats.Store.Bytes == 0 {
				t.Fatalf("measured %+v in %v", stats, time.Since(start))
			}
			time.Sleep(time.Second)
		}
		if n := s.count("degraded"); n < 4 || n > 5 {
			t.Errorf("told %d times in four minutes, want once a minute: %q", n, s.told)
		}
		f.set(nil)
		time.Sleep(5 * time.Minute)
		s.recovered()
		s.use(10, "a")
	}, func(o *engine.Options) { o.CleanupInterval = time.Hour }) // a sweep would wait for the store's lock, and time with it
}

// A flood of keys fills the database up to its maximum. Memory keeps the limits, and there is room
// again after the keys have expired.
func TestFullUnderAnEngine(t *testing.T) {
	t.Parallel()
	o := Options{Path: filepath.Join(t.TempDir(), "tally.db"), MaxSize: MinMaxSize, maxWAL: 1 << 20}
	inTrouble(t, o, 30, func(t *testing.T, s *site) {
		s.setLimits(30, time.Minute)
		s.use(10, "a")
		behind := 0 // rounds in a row after which the log was too long: a checkpoint takes its time
		for round := uint32(0); s.degraded == 0; round++ {
			if s.flood(round); round > 1000 {
				t.Fatal("all of a flood fits into 1 MiB")
			}
			if size := sizeOf(o.Path); size > MinMaxSize {
				t.Fatalf("the file has %d bytes", size)
			}
			switch size := sizeOf(o.Path + walSuffix); {
			case size <= o.maxWAL+maxWAL:
				behind = 0
			case behind == 3:
				t.Fatalf("its log has %d bytes", size)
			default:
				behind++
				time.Sleep(time.Second) // which passes when nothing is at work any more
			}
		}
		if n := s.count("the disk is full or the database has reached its maximum size"); n != 1 {
			t.Errorf("told %d times that it is full: %q", n, s.told)
		}
		if s.use(31, "a") > 20 {
			t.Error("more than the limit passed")
		}
		time.Sleep(3 * time.Minute) // the keys expire
		s.recovered()
		if d := s.ask("fresh"); !d.Allowed || d.Degraded {
			t.Errorf("a new key afterwards: %+v", d)
		}
		s.admitted = nil // it is all over
	})
}

// flood makes requests for many keys at once.
func (s *site) flood(round uint32) {
	var group sync.WaitGroup
	for i := range uint32(100) {
		group.Go(func() { s.ask(fmt.Sprintf("%08x", (100*round+i)*0x9E3779B9)) })
	}
	group.Wait()
}
