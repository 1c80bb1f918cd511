package journal

import (
	"context"
	"fmt"
	"os"
	"slices"
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
			return j.revoke()
		}
	}
	return fmt.Errorf("%d processes have it open already", presenceBytes)
}

// Whoever revokes an owner lets it finish what it is writing: for revokeWait. So the owner knows that a write which
// ended within promptly is found, although it was revoked meanwhile.
const (
	revokeWait = 20 * time.Millisecond
	promptly   = revokeWait / 2
)

// revoked is the owner word during that wait. If it is cut off, the next one to open the file waits.
const revoked = 1

// revoke revokes the owner, if there is one. The caller holds the election lock, so that nobody else reads meanwhile.
func (j *Journal) revoke() error {
	owner, err := j.readWords(ownerAt, 1)
	if err != nil || owner[0] == 0 {
		return err
	}
	if err := j.writeWords(ownerAt, revoked); err != nil {
		return err
	}
	others, err := j.othersHaveIt()
	if err != nil {
		return err
	}
	if others { // otherwise the owner is dead, and its writes have ended
		time.Sleep(revokeWait)
	}
	return j.writeWords(ownerAt, 0)
}

// Own tries to make this Journal the owner, and reports whether it is. It returns false if another Journal has the file
// open or is opening it, if the file was removed or replaced, or after an error. It replaces foreign contents, with
// another ID.
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
	if others, err := j.othersHaveIt(); others || err != nil || j.InPlace() != nil {
		return false
	}
	return j.beginPeriodLocked(after, used) == nil && j.Err() == nil
}

// othersHaveIt reports whether another Journal has the file open.
func (j *Journal) othersHaveIt() (bool, error) {
	return lockedByOthers(j.file, presenceByte, presenceBytes)
}

// beginPeriodLocked makes this Journal, which is alone, the owner.
func (j *Journal) beginPeriodLocked(after, used uint32) error {
	h, valid, err := readHeader(j.file)
	if err != nil {
		return j.tried("read", err)
	}
	if !valid || h.origin != j.origin || h.segments != j.shape.segments || h.records != j.shape.records {
		if h, err = j.remake(); err != nil {
			return err
		}
	}
	j.header, j.foreign = h, false
	p := &period{token: random(), slots: make([]*Segment, h.segments), freed: after}
	table, err := j.readTable()
	if err != nil {
		return err
	}
	p.next = max(after, used, slices.Max(table)) + 1
	for _, s := range j.pendingLocked(table, after) {
		p.slots[s.slot] = s
		p.next = max(p.next, s.generation+1)
		if s.id == h.id && table[s.slot] != s.generation {
			if err := j.writeEntry(s); err != nil { // it was damaged
				return err
			}
		}
	}
	if err := j.eraseUnusedLocked(p.slots); err != nil {
		return err
	}
	if err := j.writeWords(ownerAt, p.token); err != nil {
		return err
	}
	j.period = p
	j.token.Store(p.token)
	j.startLocked()
	return nil
}

// Owned reports whether this Journal is the owner.
func (j *Journal) Owned() bool {
	token := j.token.Load()
	return token != 0 && j.broken.Load() == nil && j.hasOwner(token)
}

// hasOwner reports whether a token is that of the owner.
func (j *Journal) hasOwner(token uint64) bool {
	owner, err := j.readWords(ownerAt, 1)
	return err == nil && owner[0] == token
}

// isOwner is hasOwner after the caller's earlier writes: its first system call orders these before the reading of the
// owner word, see the package comment.
func (j *Journal) isOwner(token uint64) bool {
	others, err := j.othersHaveIt()
	return err == nil && !others && j.hasOwner(token)
}

// Disown ends the ownership, if this Journal has it.
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
	j.writing = nil
	for _, s := range p.slots {
		if s != nil {
			s.sealed.Store(true)
		}
	}
	j.token.Store(0)
	if j.broken.Load() == nil && j.hasOwner(p.token) {
		_ = j.writeWords(ownerAt, 0) // otherwise nobody can use the token any more
	}
	j.period, j.past = nil, p.slots
}
