package journal

import (
	"context"
	"fmt"
	"os"
	"runtime/debug"
	"sync/atomic"
	"time"
)

// The bytes that are locked: far behind the end of any file, where no data is.
const (
	electionByte  = 1 << 40
	presenceByte  = electionByte + 1 // the first
	presenceBytes = 1024
)

// period is the time from one Own on, as the owner knows it.
type period struct {
	token uint64
	slots []*Segment // the latest use of each; nil where nothing counts any more
	next  uint32     // generation
	freed uint32     // segments up to that generation may be written over
}

// elect takes the election lock. It waits until ctx ends.
func elect(ctx context.Context, f *os.File) error {
	for {
		if elected, err := lock(f, electionByte, 1); elected || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Millisecond):
		}
	}
}

// enter announces this Journal to all others, and revokes the owner. It needs the election
// lock.
func (j *Journal) enter() error {
	for i := range int64(presenceBytes) {
		if entered, err := lock(j.file, presenceByte+i, 1); err != nil {
			return err
		} else if entered {
			return j.guard(func() { atomic.SwapUint64(j.mem.owner(), 0) })
		}
	}
	return fmt.Errorf("%d processes have it open already", presenceBytes)
}

// Own tries to become the owner, and reports whether this Journal is. It waits for the Adds of
// an earlier time as the owner, and for nobody else: it reports false if another Journal has
// the file open or is about to, if the file was removed or replaced, or if something fails.
// Foreign contents are made anew, with another id.
//
// Segments after a generation are pending: they can be read, and are not written over before Free. New
// generations come after this one, after Newest, and after the last one that the caller knows to be used: the
// file may have lost it with the power.
func (j *Journal) Own(after, used uint32) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.Err() != nil || max(after, used) > maxGeneration {
		return false
	}
	if j.Owned() {
		return true
	}
	j.endPeriodLocked()
	if elected, err := lock(j.file, electionByte, 1); !elected || err != nil {
		return false
	}
	defer func() { _ = unlock(j.file, electionByte, 1) }()
	if others, err := lockedByOthers(j.file, presenceByte, presenceBytes); others || err != nil || j.InPlace() != nil {
		return false
	}
	return j.guard(func() { j.beginPeriodLocked(after, used) }) == nil && j.Err() == nil
}

// beginPeriodLocked makes this Journal, which is alone, the owner. It touches the mapping.
func (j *Journal) beginPeriodLocked(after, used uint32) {
	h, ok := parseHeader(j.mem.loadHead())
	if !ok || h.origin != j.origin || h.segments != j.mem.segments || h.records != j.mem.records {
		h = j.mem.remake(j.origin)
	}
	j.header, j.foreign = h, false
	p := &period{token: random(), slots: make([]*Segment, h.segments), freed: after, next: max(after, used, j.newestLocked()) + 1}
	for _, s := range j.pendingLocked(after) {
		p.slots[s.slot] = s
		p.next = max(p.next, s.generation+1)
		if s.id == h.id {
			j.mem.storeEntry(s.slot, encodeEntry(s.id, s.slot, s.generation)) // it may be damaged
		}
	}
	j.eraseUnusedLocked(p.slots)
	j.period = p
	atomic.StoreUint64(j.mem.owner(), p.token)
	j.token.Store(p.token)
	j.startLocked()
}

// Owned reports whether this Journal is the owner now.
func (j *Journal) Owned() (owned bool) {
	token := j.token.Load()
	if token == 0 || j.broken.Load() != nil {
		return false
	}
	var err error // a fault leaves owned false
	defer j.recovered(debug.SetPanicOnFault(true), &err)
	return atomic.LoadUint64(j.mem.owner()) == token
}

// Disown gives ownership up if this Journal has it. It returns after every Add that is under
// way has ended.
func (j *Journal) Disown() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.endPeriodLocked()
}

// endPeriodLocked ends the period of Own, whether the Journal was revoked since or not.
func (j *Journal) endPeriodLocked() {
	p := j.period
	if p == nil {
		return
	}
	j.writing.Store(nil)
	for _, s := range p.slots {
		if s != nil {
			s.seal()
			s.wait()
		}
	}
	j.token.Store(0)
	_ = j.guard(func() { atomic.CompareAndSwapUint64(j.mem.owner(), p.token, 0) })
	j.period, j.past = nil, p.slots
}
