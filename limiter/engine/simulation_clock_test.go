package engine

import (
	"sync/atomic"
	"time"

	"github.com/caddy-tally/caddy-tally/limiter"
)

// Clocks in the simulation are set forward and back by up to hours: that of one
// process, or that of the machine, which those that start later have as well.
// What is checked then:
//
//   - A process goes on at its own pace when its clock is set back, and follows
//     it when it is set forward. So the time of a process is the time that
//     passed, but for what its clock was set forward by.
//   - Sliding and fixed limits keep promise P1 in the time of the processes: the
//     units admitted in any window of it are at most the amount, whatever the
//     clocks of the others say, and also if a process that starts with a clock
//     that was set back goes through a time that there was already. Counted by
//     a clock that was set forward by a window, more can be admitted than that
//     in the time that passed, as if it had passed.
//   - Token buckets keep it while no time of those who use a bucket, and of the
//     bucket on disk, is ahead of another by more than limiter.MaxSkew, the window
//     or the time it takes to refill, whichever is longest. Beyond that a bucket
//     is taken as damaged, and those who are ahead and those who are behind take
//     turns in beginning it afresh: what is admitted then can't be bounded, and
//     it is not counted until what may be left of it in leases has drained.
//   - Promise P4, unless something lies so far in the future that it will count
//     only later, or a bucket is not counted.
//   - The disk knows at the end of every unit that counts by the time of any of
//     the last processes.
//
// What a store sweeps is not simulated: a process whose clock is ahead by more
// than a window deletes what those behind it still count.

// simClock is the system's clock as a process reads it.
type simClock struct {
	set   atomic.Int64
	pause func() // called before it is read, if there is one
}

func (c *simClock) Read() (wall, elapsed int64) {
	elapsed = time.Now().UnixNano()
	return elapsed + c.set.Load(), elapsed
}

func (c *simClock) Elapsed() int64 {
	if c.pause != nil {
		c.pause()
	}
	return time.Now().UnixNano()
}

// pace is when a process was last seen to tell the time, and which time.
type pace struct{ elapsed, now int64 }

// setClock sets the clock of a process, or of all.
func (w *world) setClock(p *process) {
	scale := []time.Duration{time.Millisecond, time.Second, time.Minute, time.Hour}[w.rng.IntN(4)]
	by := w.rng.Int64N(6*int64(scale)) - 3*int64(scale)
	if w.rng.IntN(2) == 0 {
		w.note("the clock of %p is set by %v", p, time.Duration(by))
		p.setClock(by)
		return
	}
	w.note("the clock is set by %v", time.Duration(by))
	w.set += by
	for _, p := range w.procs {
		p.setClock(by)
	}
}

// setClock sets the clock of a process, which notices it at once, and not at some
// moment within the next millisecond.
func (p *process) setClock(by int64) {
	p.wall.set.Add(by)
	p.clock.looked.Add(-slack)
}

// watchClocks checks that the time of every process goes on as it should, and
// notes which buckets can't be counted.
func (w *world) watchClocks() {
	for _, p := range w.procs {
		wall, elapsed := p.wall.Read()
		now, least := p.clock.now(), p.pace.now+elapsed-p.pace.elapsed
		if now < max(least, wall-slack) || now > max(least, wall) {
			w.t.Errorf("the time of %p is %d, want %d, or its clock's %d if that is later", p, now, least, wall)
		}
		p.pace = pace{elapsed, now}
	}
	for _, l := range w.limits {
		if l.now.Algorithm() == limiter.TokenBucket {
			for _, key := range simKeys {
				w.watchBucket(l, key)
			}
		}
	}
}

// watchBucket begins the log of a bucket afresh while it can't be counted.
func (w *world) watchBucket(l *simLimit, key string) {
	first, last := w.times()
	if at := w.disk.bucket(l.now, key).At; at > last {
		last = at
	}
	refill := l.now.Limit.Window() * time.Duration(l.now.Capacity()) / time.Duration(l.now.Amount())
	reach := max(limiter.MaxSkew, l.now.Window(), refill) - time.Second // what passes in a step
	if last-first > int64(reach) {
		delete(l.admitted, key)
		l.uncounted[key] = time.Now().Add(refill)
	}
}

// times returns the first and the last of the times of all processes, and of
// the batches that wait.
func (w *world) times() (first, last int64) {
	first, last = w.procs[0].pace.now, w.procs[0].pace.now
	for _, p := range w.procs {
		first, last = min(first, p.pace.now), max(last, p.pace.now)
		if c := p.commit.Load(); c != nil {
			first = min(first, c.now)
		}
	}
	return first, last
}

// bucket returns what a disk has of a token bucket.
func (d *disk) bucket(l *Limit, key string) limiter.Bucket {
	d.mu.Lock()
	defer d.mu.Unlock()
	if s := d.states[diskKey{l.ID, testName(l.ID, key)}]; s != nil {
		return s.Bucket
	}
	return limiter.Bucket{}
}

// hasAhead tells whether a disk has something of a key that counts only later
// than now.
func (d *disk) hasAhead(l *Limit, key string, now int64) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := d.states[diskKey{l.ID, testName(l.ID, key)}]
	return s != nil && len(s.Slots) > 0 && s.Slots[len(s.Slots)-1].Index > l.Newest(now)
}
