package sqlite

import (
	"database/sql/driver"
	"errors"
	"fmt"

	"github.com/caddy-tally/caddy-tally/storage"
	"github.com/caddy-tally/caddy-tally/storage/sqlite/internal/vfs"
)

const (
	// checkpointRows is after how many written rows the log is copied into the
	// main file. Under random keys each row is a page of its own.
	checkpointRows = 4000
	// maxWAL is the size, in bytes, from which on the log is used from its start
	// again instead of being left to grow. Until somebody looks, checkpointRows may
	// add half of it, two pages for each, and as much again until a claim does it.
	maxWAL = 32 << 20
)

// wroteLocked asks for a checkpoint when enough rows have been written since
// the last one was asked for. If that one hasn't begun yet, the machine is too busy
// to leave it to another goroutine.
func (s *Store) wroteLocked(rows int64) {
	s.unsynced += rows
	if s.unsynced < checkpointRows {
		return
	}
	s.unsynced = 0
	select {
	case s.due <- struct{}{}:
	default:
		_ = s.reuseLogLocked() // if it fails, the one that is due tries again
	}
}

// checkpoints is the store's goroutine. It ends when stop is closed.
func (s *Store) checkpoints() {
	defer close(s.stopped)
	for {
		select {
		case <-s.stop:
			return
		case <-s.due:
			// A checkpoint that fails leaves the log as it is, and the next one
			// tries again; a disk that fails makes claims fail as well.
			_ = s.checkpoint()
		}
	}
}

// checkpoint copies the log into the main file while claims go on. Claims that
// keep coming can keep the log from ever being used from its start again, so one
// that has grown too long, or is to be emptied, is copied to its end while they
// wait. Before that, what was written during the first, long copy is copied as well,
// and all of it brought to the disk, so that little is left to do.
func (s *Store) checkpoint() error {
	s.sideMu.Lock()
	defer s.sideMu.Unlock()
	if err := s.inPlace(); err != nil {
		return err
	}
	long, err := s.copyLog()
	if err == nil && !long && !s.wantsEmptyLog() {
		return nil
	}
	if err == nil {
		_, err = s.copyLog()
	}
	if err == nil {
		err = s.side.exec(`PRAGMA ` + vfs.SyncPragma)
	}
	s.mu.lockPatiently()
	defer s.mu.Unlock()
	if s.closed {
		return storage.ErrClosed
	}
	if err == nil {
		err = s.reuseLogLocked()
	}
	return s.failed(wrap("checkpoint", err))
}

// copyLog copies what is in the log at the moment, and reports whether that has
// grown too long.
func (s *Store) copyLog() (long bool, err error) {
	_, frames, err := checkpointWith(s.side, `PRAGMA wal_checkpoint(PASSIVE)`)
	if err != nil {
		return false, err
	}
	size, err := s.side.int(`PRAGMA page_size`)
	return frames*(size+vfs.FrameHeader) > s.options.maxWAL, err
}

// reuseLogLocked copies the log into the main file and has the next commit begin
// at its start, unless somebody is reading the database: claims must not wait for
// that. The log keeps its size, but when it is to be emptied: cutting off what is to
// be written again takes the file system longer than all the rest.
func (s *Store) reuseLogLocked() error {
	if err := s.writer.exec(`PRAGMA busy_timeout = 0`); err != nil {
		return err
	}
	busy, _, err := checkpointWith(s.writer, `PRAGMA wal_checkpoint(`+s.logModeLocked()+`)`)
	if err == nil && !busy {
		s.logReusedLocked()
	}
	wait := fmt.Sprintf(`PRAGMA busy_timeout = %d`, s.options.BusyTimeout.Milliseconds())
	return errors.Join(err, s.writer.exec(wait))
}

// finishLogLocked copies all of the log into the main file, unless others have
// begun to use the database with another log or index. What can't be copied now
// stays in the log, which belongs to the database if it is in its place.
func (s *Store) finishLogLocked() {
	if s.isAlone() {
		_, left, err := checkpointWith(s.writer, `PRAGMA wal_checkpoint(TRUNCATE)`)
		if err == nil && left == 0 {
			return
		}
	}
	s.astray.Store(s.inPlace() != nil)
}

// checkpointWith returns whether others kept the checkpoint from being done, and how
// many frames the log has.
func checkpointWith(c *conn, pragma string) (busy bool, frames int64, err error) {
	err = c.each(pragma, func(row []driver.Value) error {
		var kept int64
		err := integers(row, &kept, &frames)
		busy = kept != 0
		return err
	})
	return busy, frames, err
}

// Close implements [storage.Store]. It waits for the goroutine and for calls
// that are under way, copies the log into the main file and gives everything
// up. A second call returns [storage.ErrClosed].
func (s *Store) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return wrap("close", storage.ErrClosed)
	}
	s.closed = true
	s.mu.Unlock()

	close(s.stop)
	<-s.stopped
	<-s.kept
	s.sideMu.Lock()
	defer s.sideMu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = s.rollbackLocked() // closing ends it as well
	unfolded := s.leaveJournalLocked()
	switch at, err := isAt(s.options.Path, s.file); {
	case err != nil: // so that nothing is known
	case !at:
		s.removeBeside()
	default:
		s.finishLogLocked()
	}
	err := errors.Join(unfolded, s.closeConnections())
	s.side = nil // which tells whoever looks at the past
	return wrap("close", err)
}
