package engine

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/caddy-tally/caddy-tally/storage"
)

// Wall clocks in the simulation are set forward and back by up to hours: the clock of one process,
// or the clock of the machine, which later processes also have. Processes are stopped, for any
// time, when they call the store: before they name keys, before the transaction, and after it. The
// store is swept in between. Names of keys change every few minutes. The test checks:
//
//   - There is one time, the disk's. It runs at the rate of the steady clock, apart from slewing,
//     and is set only according to storage.TimeRecord.
//   - The time of a process is that time, apart from slewing since the process last learned it, and
//     never runs backwards unless the disk's was set back.
//   - "Never more than the limit" (docs/promises.md) holds in that time, to the nanosecond, until
//     it is set. Then counting starts again.
//   - Units admitted as of a time are admitted within spendWithin of it.
//   - "Retry-After is true" (docs/promises.md), in the elapsed time.
//   - In the end the disk knows every unit that counts.

// simClock is the system's clock as read by a process.
type simClock struct {
	set    atomic.Int64
	source storage.Source
	pause  func() // called before each reading; may be nil
}

func (c *simClock) Read() (r storage.Reading, elapsed int64) {
	elapsed = time.Now().UnixNano()
	return storage.Reading{Wall: elapsed + c.set.Load(), Steady: elapsed, Source: c.source, Shared: c.source == storage.Source{1}}, elapsed
}

func (c *simClock) Elapsed() int64 {
	if c.pause != nil {
		c.pause()
	}
	return time.Now().UnixNano()
}

// pace is the last observed time, on the disk or in a process.
type pace struct {
	elapsed int64
	storage.Time
}

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

// setClock sets the wall clock of a process.
func (p *process) setClock(by int64) { p.wall.set.Add(by) }

// time returns the time that the disk would tell a process.
func (w *world) time() pace {
	elapsed := time.Now().UnixNano()
	return pace{elapsed, w.disk.time(elapsed)}
}

// watchClocks checks that the time of the disk and of every process advances correctly.
func (w *world) watchClocks() {
	now, was := w.time(), w.pace
	w.pace = now
	passed := now.elapsed - was.elapsed
	gained := now.Now - was.Now - passed - (now.Shift - was.Shift)
	if gained < -passed/storage.Slew-1 || gained > passed/storage.Slew+1 {
		w.t.Errorf("in %v the time of the disk gains %v, from %+v to %+v", time.Duration(passed), time.Duration(gained), was, now)
	}
	if now.Shift != was.Shift {
		w.note("the time is set by %v", time.Duration(now.Shift-was.Shift))
		w.forget()
	}
	for _, p := range w.procs {
		w.watchClock(p, now)
	}
}

func (w *world) watchClock(p *process, disk pace) {
	line := p.clock.Line()
	now := pace{time.Now().UnixNano(), storage.Time{Now: p.clock.Now(), Shift: line.Shift, Era: line.Era}}
	if now.Era == p.pace.Era && now.Now < p.pace.Now {
		w.t.Errorf("the time of %p goes back by %v", p, time.Duration(p.pace.Now-now.Now))
	}
	p.pace = now
	if now.Era != disk.Era || now.Shift != disk.Shift {
		return // it doesn't know yet
	}
	off, most := now.Now-disk.Now, (now.elapsed-line.Elapsed)/(storage.Slew/2)+2
	if off > most+max(line.Floor-disk.Now, 0) || off < -most {
		w.t.Errorf("the time of %p is off by %v, %v after it was told it", p, time.Duration(off), time.Duration(now.elapsed-line.Elapsed))
	}
}

// forget starts counting again.
func (w *world) forget() {
	for _, l := range w.limits {
		clear(l.admitted)
	}
}

// renamedEvery is how often keys get new names.
const renamedEvery = 5 * time.Minute

// names returns the names of keys in the simulation: new ones in every epoch.
func simNames(id storage.LimitID, key string, remembered time.Duration, now int64) (n Name, err error) {
	epoch := now / int64(renamedEvery)
	length := renamedEvery
	for length < remembered {
		length *= 2
		epoch /= 2
	}
	begun := epoch * int64(length)
	n = Name{From: begun, Until: begun + int64(length)}
	n.Key = testName(id, fmt.Sprint(key, " ", epoch))
	if now-begun < int64(remembered) {
		n.Former = testName(id, fmt.Sprint(key, " ", epoch-1))
	}
	return n, nil
}
