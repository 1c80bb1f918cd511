//go:build unix

package sqlite

import (
	"context"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/engine"
	"github.com/caddy-tally/caddy-tally/storage"
)

// damages are the times at which the file of pending charges was damaged. Its content is lost then,
// and so may be later writes of processes that had it open.
type damages struct {
	at    []int64 // in nanoseconds since the Unix epoch
	since []int   // by time: processes from this number on were started afterwards

	older, other []byte // what the file held before, and what that of another database holds
}

// begin begins a round without damages.
func (d *damages) begin() { d.at, d.since = nil, nil }

// kept returns, for each time without damage, a condition for admissions that were certainly
// charged in an undamaged file.
func (d *damages) kept() (conditions []func(entry) bool) {
	from := 0
	for i, at := range d.at {
		conditions = append(conditions, func(e entry) bool { return e.process >= from && e.Answered < at })
		from = d.since[i]
	}
	return append(conditions, d.keptLast())
}

// keptLast returns the condition for the time since the last damage.
func (d *damages) keptLast() func(entry) bool {
	if len(d.since) == 0 {
		return isAnyEntry
	}
	from := d.since[len(d.since)-1]
	return func(e entry) bool { return e.process >= from }
}

// damage damages the file of pending charges while processes may use it. Only the charges of
// processes that start afterwards are certain again.
func (c *comings) damage() {
	path := c.path + chargesSuffix
	content, err := os.ReadFile(path)
	if err != nil && !os.IsNotExist(err) {
		c.t.Fatal(err)
	}
	if c.damages.other == nil {
		c.damages.other = c.anotherFile()
	}
	way := fileDamages[c.rng.IntN(len(fileDamages))]
	c.lose(func() error { return way.do(c, path, content) })
	for _, p := range c.processes {
		c.ledger.lose(p.engines) // one that finds the damage charges again what it was charging at that moment
	}
	c.noteEvent(way.name, "file of pending charges")
	if c.rng.IntN(2) == 0 {
		c.damages.older = content
	}
}

// lose damages files. Earlier charges may be lost.
func (c *comings) lose(damage func() error) {
	c.t.Helper()
	c.damages.at = append(c.damages.at, time.Now().UnixNano())
	if err := damage(); err != nil {
		c.t.Fatal(err)
	}
	c.damages.since = append(c.damages.since, c.started+1)
}

// anotherFile returns the pending charges of another database.
func (c *comings) anotherFile() []byte {
	path := filepath.Join(c.t.TempDir(), "tally.db")
	limits, err := engineLimits()
	if err != nil {
		c.t.Fatal(err)
	}
	e := engine.New(engine.Options{
		Open:         func(ctx context.Context) (storage.Store, error) { return Open(ctx, Options{Path: path}) },
		Name:         hashedName,
		NameAtOnce:   hashedNameAtOnce,
		StoreTimeout: time.Minute,
	})
	for n := range int64(1000) {
		kind := errands[anErrand(c.rng)]
		e.Decide(context.Background(), nil, debitsOf(limits, kind, kind.key(c.rng, "1", n), 1))
	}
	content, err := os.ReadFile(path + chargesSuffix)
	if err != nil && !os.IsNotExist(err) {
		c.t.Fatal(err)
	}
	if err := e.Close(context.Background()); err != nil {
		c.t.Fatal(err)
	}
	return content
}

// fileDamages are the ways in which a file with some content is damaged.
var fileDamages = []struct {
	name string
	do   func(c *comings, path string, content []byte) error
}{
	{"remove", func(_ *comings, path string, _ []byte) error {
		if err := os.Remove(path); !os.IsNotExist(err) {
			return err
		}
		return nil
	}},
	{"truncate", func(c *comings, path string, content []byte) error {
		return inPlace(path, func(f *os.File) error { return f.Truncate(c.rng.Int64N(int64(len(content)) + 1)) })
	}},
	{"empty", func(_ *comings, path string, _ []byte) error {
		return inPlace(path, func(f *os.File) error { return f.Truncate(0) })
	}},
	{"extend", func(c *comings, path string, content []byte) error {
		return inPlace(path, func(f *os.File) error { return f.Truncate(int64(len(content)) + c.rng.Int64N(100_000)) })
	}},
	{"zero all", func(_ *comings, path string, content []byte) error {
		return writeAt(path, 0, make([]byte, len(content)))
	}},
	{"zero some", func(c *comings, path string, content []byte) error {
		from, to := someOf(c.rng, content)
		return writeAt(path, from, make([]byte, to-from))
	}},
	{"noise in some", func(c *comings, path string, content []byte) error {
		from, to := someOf(c.rng, content)
		return writeAt(path, from, noise(c.rng, to-from))
	}},
	{"noise at the beginning", func(c *comings, path string, content []byte) error {
		return writeAt(path, 0, noise(c.rng, min(c.rng.Int64N(10_000), int64(len(content)))))
	}},
	{"turned bits", func(c *comings, path string, content []byte) error {
		for range min(len(content), 20) {
			at := c.rng.IntN(min(len(content), []int{300, 20_000, 1 << 30}[c.rng.IntN(3)]))
			if err := writeAt(path, int64(at), []byte{content[at] ^ 1<<c.rng.IntN(8)}); err != nil {
				return err
			}
		}
		return nil
	}},
	{"replace by noise", func(c *comings, path string, content []byte) error {
		return replace(path, noise(c.rng, min(int64(len(content)), 1<<20)))
	}},
	{"replace by another database's", func(c *comings, path string, _ []byte) error { return replace(path, c.damages.other) }},
	{"overwrite with another database's", func(c *comings, path string, _ []byte) error { return writeAt(path, 0, c.damages.other) }},
	{"replace by an older one", func(c *comings, path string, _ []byte) error { return replace(path, c.damages.older) }},
	{"overwrite with an older one", func(c *comings, path string, _ []byte) error { return writeAt(path, 0, c.damages.older) }},
}

// someOf returns a part of the content, preferably near its beginning.
func someOf(rng *rand.Rand, content []byte) (from, to int64) {
	size := int64(len(content))
	if rng.IntN(2) == 0 {
		size = min(size, 20_000)
	}
	from = rng.Int64N(size + 1)
	return from, min(from+rng.Int64N(10_000), int64(len(content)))
}

func noise(rng *rand.Rand, n int64) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	return b
}

// inPlace changes an existing file.
func inPlace(path string, change func(*os.File) error) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	return change(f)
}

func writeAt(path string, at int64, b []byte) error {
	return inPlace(path, func(f *os.File) error {
		_, err := f.WriteAt(b, at)
		return err
	})
}

// replace replaces a file by another one.
func replace(path string, content []byte) error {
	if err := os.WriteFile(path+".new", content, 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}
