package clock

import (
	"crypto/rand"
	"time"

	"github.com/caddy-tally/caddy-tally/storage"
)

// system reads the clocks of the machine.
type system struct {
	start  time.Time
	source storage.Source
	shared bool
}

// System returns the clocks of the machine.
func System() Source {
	c := system{start: time.Now()}
	c.source, c.shared = bootSource()
	return c
}

// at returns the wall clock's time and the elapsed time.
func (c system) at() (wall, elapsed int64) {
	now := time.Now()
	return now.UnixNano(), int64(now.Sub(c.start))
}

// Elapsed implements [Source].
func (c system) Elapsed() int64 { return int64(time.Since(c.start)) }

// Read implements [Source]. The readings are of one moment: Read repeats them if the process was
// interrupted in between.
func (c system) Read() (r storage.Reading, elapsed int64) {
	const soon, tries = int64(20 * time.Microsecond), 5
	for range tries {
		r.Wall, elapsed = c.at()
		r.Steady, r.Source, r.Shared = elapsed, c.source, c.shared
		if c.shared {
			r.Steady = bootTime()
		}
		if c.Elapsed()-elapsed < soon {
			break
		}
	}
	return r, elapsed
}

// privateSource names a clock that no other process reads.
func privateSource() (source storage.Source) {
	rand.Read(source[:]) // never fails: see crypto/rand
	return source
}
