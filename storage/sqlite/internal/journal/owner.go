package journal

import (
	"context"
	"fmt"
	"os"
	"runtime/debug"
	"sync/atomic"
	"time"
)

// The locked bytes are far beyond the end of any file.
const (
	electionByte  = 1 << 40
	presenceByte  = electionByte + 1 // the first
	presenceBytes = 1024
)

// period is the owner's state since Own.
type period struct {
	token uint64
	slots []*Segment // the latest use of each slot; nil if none of its records count
	next  uint32     // the next generation
	freed uint32     // segments up to this generation may be overwritten
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

// enter takes a presence lock, and revokes the owner. The caller holds the election lock.
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

// Own tries to make this Journal the owner, and reports whether it is. It waits only for Adds of its own earlier
// period. It returns false if another Journal has the file open or is opening it, if the file was removed or
// replaced, or after an error. It replaces foreign contents, with another ID.
//
// Segments after a generation are pending: they can be read, and are not overwritten before Free. New generations come
// after that one, after Newest, and after used, the last generation that the caller knows: the file may have lost it
// with a loss of power.
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

// Owned reports whether this Journal is the owner.
func (j *Journal) Owned() (owned bool) {
	token := j.token.Load()
	if token == 0 || j.broken.Load() != nil {
		return false
	}
	var err error // a fault leaves owned false
	defer j.recovered(debug.SetPanicOnFault(true), &err)
	return atomic.LoadUint64(j.mem.owner()) == token
}

// Disown ends the ownership, if this Journal has it, and waits for all Adds under way.
func (j *Journal) Disown() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.endPeriodLocked()
}

// endPeriodLocked ends the period, whether the Journal was revoked or not.
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
