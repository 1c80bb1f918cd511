//go:build unix

package sqlite

import (
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/caddy-tally/caddy-tally/internal/testing/proof"
)

// A database is copied, restored or removed, with or without the file of pending charges beside it.
// Only the content of a missing file is forgotten: later processes keep the limits, and after a
// clean stop the database alone is complete.
func TestDatabasesAreMoved(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes")
	}
	all := []string{"", walSuffix, chargesSuffix}
	for _, move := range []struct {
		name string
		kill bool // the process before; else it ends in good order
		lost bool // what was charged before
		do   func(c *comings) error
	}{
		{"copied after a clean stop", false, false, func(c *comings) error { return c.moveTo("", chargesSuffix) }},
		{"copied alone after a clean stop", false, false, func(c *comings) error { return c.moveTo("") }},
		{"copied after a kill", true, false, func(c *comings) error { return c.moveTo(all...) }},
		{"copied without pending charges", true, true, func(c *comings) error { return c.moveTo("", walSuffix) }},
		{"copied without its log", true, true, func(c *comings) error { return c.moveTo("", chargesSuffix) }},
		{"pending charges without a database", true, true, func(c *comings) error { return c.moveTo(chargesSuffix) }},
		{"removed, but for pending charges", true, true, func(c *comings) error { return removeAll(c.path, "", walSuffix, shmSuffix) }},
		{"removed after a clean stop, but for pending charges", false, true, func(c *comings) error { return removeAll(c.path, "", walSuffix, shmSuffix) }},
		{"pending charges removed", true, true, func(c *comings) error { return removeAll(c.path, chargesSuffix) }},
		{"pending charges removed after a clean stop", false, false, func(c *comings) error { return removeAll(c.path, chargesSuffix) }},
		{"removed", true, true, func(c *comings) error { return removeAll(c.path, append(all, shmSuffix)...) }},
		{"restored from a copy, but for pending charges", true, true, func(c *comings) error {
			copied := c.path
			if err := c.moveTo(all...); err != nil {
				return err
			}
			c.live()
			c.kill(c.any(isThere))
			for _, suffix := range []string{"", walSuffix, shmSuffix} {
				if err := copyFile(copied+suffix, c.path+suffix); err != nil {
					return err
				}
			}
			return nil
		}},
		{"restored from a copy of all", true, true, func(c *comings) error {
			copied := c.path
			if err := c.moveTo(all...); err != nil {
				return err
			}
			c.live()
			c.kill(c.any(isThere))
			c.path = copied
			return nil
		}},
	} {
		t.Run(move.name, func(t *testing.T) {
			t.Parallel()
			seed := rand.Uint64()
			t.Logf("seed %d", seed)
			c := newComings(t, mayHappen{kill: true, damage: move.lost}, seed)
			c.small = !proof.IsOn() // else the files that are copied have 32 MiB
			c.beginRound()
			c.live()
			if move.kill {
				c.kill(c.any(isThere))
			} else {
				c.leave(c.any(isThere))
				c.settle()
			}
			if move.lost {
				c.lose(func() error { return move.do(c) })
			} else if err := move.do(c); err != nil {
				t.Fatal(err)
			}
			c.live()
			c.leave(c.any(isThere))
			c.endRound()
		})
	}
}

// live runs a process for some time.
func (c *comings) live() {
	c.start()
	c.any(isThere).tell("alive")
	c.settle()
	c.pause()
}

// moveTo copies files of the database, by suffix, and continues with the copy.
func (c *comings) moveTo(suffixes ...string) error {
	from := c.path
	c.path = filepath.Join(c.t.TempDir(), "copy.db")
	for _, suffix := range suffixes {
		if err := copyFile(from+suffix, c.path+suffix); err != nil {
			return err
		}
	}
	return nil
}

// copyFile copies a file over another. If there is none, it removes the other.
func copyFile(from, to string) error {
	content, err := os.ReadFile(from)
	if errors.Is(err, fs.ErrNotExist) {
		return removeAll(to, "")
	}
	if err != nil {
		return err
	}
	return os.WriteFile(to, content, 0o600)
}

func removeAll(path string, suffixes ...string) error {
	for _, suffix := range suffixes {
		if err := os.Remove(path + suffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}
