package sqlite

import "time"

// emptyLogEvery is how often the log is emptied while there are sweeps, in
// nanoseconds. It holds pages as they were before rows in them were deleted, and is
// the only file where such rows are left. Cutting it off takes the file system a
// while, in which claims wait (11 ms for 32 MiB on a shared ext4), so it isn't done
// with every sweep.
const emptyLogEvery = int64(5 * time.Minute)

// askToEmptyLogLocked has the log emptied with the next checkpoint, which is due at
// once, if that wasn't done for long. now is the time of a sweep. While others keep
// it from being emptied, each sweep asks again.
func (s *Store) askToEmptyLogLocked(now int64) {
	if since := now - s.emptied; s.emptied != 0 && since >= 0 && since < emptyLogEvery {
		return
	}
	s.emptying = now
	select {
	case s.due <- struct{}{}:
	default: // one is due already
	}
}

// wantsEmptyLog reports whether the log is to be emptied.
func (s *Store) wantsEmptyLog() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.emptying != 0
}

// logModeLocked returns how a checkpoint has the log used again: from its start, or
// emptied.
func (s *Store) logModeLocked() string {
	if s.emptying != 0 {
		return `TRUNCATE`
	}
	return `RESTART`
}

// logReusedLocked notes that the log was used again in the mode of logModeLocked.
func (s *Store) logReusedLocked() {
	if s.emptying != 0 {
		s.emptied, s.emptying = s.emptying, 0
	}
}
