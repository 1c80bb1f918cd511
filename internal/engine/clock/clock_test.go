package clock

import (
	"testing"
	"time"

	"github.com/caddy-tally/caddy-tally/storage"
)

// fakeSource is a source that tests move.
type fakeSource struct{ wall, elapsed int64 }

func (f *fakeSource) Read() (storage.Reading, int64) {
	return storage.Reading{Wall: f.wall, Steady: f.elapsed}, f.elapsed
}

func (f *fakeSource) Elapsed() int64 { return f.elapsed }

func TestClockNeverRunsBackwards(t *testing.T) {
	fake := new(fakeSource)
	c := New(fake)
	last := c.Now()
	for _, step := range []struct{ wall, elapsed time.Duration }{
		{time.Second, time.Second},
		{-time.Hour, time.Second},
		{-87600 * time.Hour, time.Minute},
		{2 * 87600 * time.Hour, time.Second},
		{-time.Nanosecond, 0},
	} {
		fake.wall += int64(step.wall)
		fake.elapsed += int64(step.elapsed)
		now := c.Now()
		if now < last+int64(step.elapsed) {
			t.Errorf("after a step of %v in %v, time went on by %v", step.wall, step.elapsed, time.Duration(now-last))
		}
		last = now
	}
}
