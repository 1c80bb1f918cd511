package sqlite

import (
	"database/sql/driver"
	"errors"
	"fmt"

	"github.com/caddy-tally/caddy-tally/storage"
)

const (
	// checkpointRows is after how many written rows the log is copied into the
	// main file. Under random keys each row is a page of its own.
	checkpointRows = 4000
	// maxWAL is the size from which on the log is cut off instead of being left
	// to grow, in bytes. Until somebody looks, checkpointRows may add a quarter of
	// it: two pages for each.
	maxWAL = 48 << 20
)

// wroteLocked asks for a checkpoint when enough rows have been written since
// the last one was asked for.
func (s *Store) wroteLocked(rows int64) {
	s.unsynced += rows
	if s.unsynced < checkpointRows {
		return
	}
	s.unsynced = 0
	select {
	case s.due <- struct{}{}:
	default: // one is due already
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
// keep coming can keep the log from ever being used from its start again, so a
// log that has grown too long is cut off while they wait: little is left to
// copy by then.
func (s *Store) checkpoint() error {
	s.sideMu.Lock()
	defer s.sideMu.Unlock()
	frames, err := checkpointWith(s.side, `PRAGMA wal_checkpoint(PASSIVE)`)
	if err == nil {
		var size int64
		if size, err = s.side.int(`PRAGMA page_size`); err == nil && frames*(size+frameHeader) <= s.options.maxWAL {
			return nil
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return storage.ErrClosed
	}
	if err == nil {
		err = s.cutLogLocked()
	}
	return s.failedLocked(wrap("checkpoint", err))
}

// cutLogLocked copies the log into the main file and empties it, unless somebody
// is reading the database: claims must not wait for that.
func (s *Store) cutLogLocked() error {
	if err := s.writer.exec(`PRAGMA busy_timeout = 0`); err != nil {
		return err
	}
	_, err := checkpointWith(s.writer, `PRAGMA wal_checkpoint(TRUNCATE)`)
	wait := fmt.Sprintf(`PRAGMA busy_timeout = %d`, s.options.BusyTimeout.Milliseconds())
	return errors.Join(err, s.writer.exec(wait))
}

// checkpointWith returns how many frames the log has.
func checkpointWith(c *conn, pragma string) (frames int64, err error) {
	err = c.each(pragma, func(row []driver.Value) error {
		return integers(row[1:], &frames)
	})
	return frames, err
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
	s.sideMu.Lock()
	defer s.sideMu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = s.rollbackLocked() // closing ends it as well
	if s.inPlace() == nil {
		// What can't be copied now stays in the log, which belongs to the database.
		_, _ = checkpointWith(s.writer, `PRAGMA wal_checkpoint(TRUNCATE)`)
	} else {
		s.removeBeside()
	}
	return wrap("close", errors.Join(s.side.close(), s.writer.close()))
}
