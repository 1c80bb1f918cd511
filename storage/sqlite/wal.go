package sqlite

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"time"

	"github.com/caddy-tally/caddy-tally/storage"
	"github.com/caddy-tally/caddy-tally/storage/sqlite/internal/sleeplock"
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

// emptyLogEvery is how often the log is emptied while there are sweeps, in
// nanoseconds. It holds pages as they were before rows in them were deleted, and is
// the only file where such rows are left. Cutting it off takes the file system a
// while, in which claims wait (11 ms for 32 MiB on a shared ext4), so it isn't done
// with every sweep.
const emptyLogEvery = int64(5 * time.Minute)

// wal is the write-ahead log of a database with its copying into the main file.
type wal struct {
	place   *place
	options *Options

	lock     *writerLock // guards the writer and the following fields
	writer   *conn
	unsynced int64 // rows written since the last checkpoint was asked for
	emptied  int64 // the time of the sweep that last had the log emptied; 0 if none did
	emptying int64 // that of the one that wants it emptied; 0 if none does

	// sideLock guards the connection of checkpoints, and of those who look at the past. It is
	// locked before all others.
	sideLock sleeplock.Lock
	side     *conn // nil once the store is closed

	due     chan struct{} // a checkpoint is due; holds one
	stop    chan struct{} // closed to end the goroutine
	stopped chan struct{} // closed when it has ended
}

// wroteLocked asks for a checkpoint when enough rows have been written since
// the last one was asked for. If that one hasn't begun yet, the machine is too busy
// to leave it to another goroutine.
func (w *wal) wroteLocked(rows int64) {
	w.unsynced += rows
	if w.unsynced < checkpointRows {
		return
	}
	w.unsynced = 0
	select {
	case w.due <- struct{}{}:
	default:
		_ = w.reuseLocked() // if it fails, the one that is due tries again
	}
}

// checkpoints is the store's goroutine. It ends when stop is closed.
func (w *wal) checkpoints() {
	defer close(w.stopped)
	for {
		select {
		case <-w.stop:
			return
		case <-w.due:
			// A checkpoint that fails leaves the log as it is, and the next one
			// tries again; a disk that fails makes claims fail as well.
			_ = w.checkpoint()
		}
	}
}

// checkpoint copies the log into the main file while claims go on. Claims that
// keep coming can keep the log from ever being used from its start again, so one
// that has grown too long, or is to be emptied, is copied to its end while they
// wait. Before that, what was written during the first, long copy is copied as well,
// and all of it brought to the disk, so that little is left to do.
func (w *wal) checkpoint() error {
	w.sideLock.Lock()
	defer w.sideLock.Unlock()
	if err := w.place.check(); err != nil {
		return err
	}
	long, err := w.copy(true)
	if err == nil && !long && !w.wantsEmpty() {
		return nil
	}
	if err == nil {
		_, err = w.copy(false) // so that less is written meanwhile
	}
	if err == nil {
		err = w.side.exec(`PRAGMA ` + vfs.SyncPragma)
	}
	w.lock.lockPatiently()
	defer w.lock.Unlock()
	if isDone(w.stop) {
		return storage.ErrClosed
	}
	if err == nil {
		err = w.reuseLocked()
	}
	return w.place.failed(wrap("checkpoint", err))
}

// copy copies what is in the log at the moment, and reports whether that has
// grown too long. If rests is set, it rests now and then.
func (w *wal) copy(rests bool) (long bool, err error) {
	if err := w.side.exec(fmt.Sprintf(`PRAGMA %s = %d`, vfs.RestPragma, boolean(rests))); err != nil {
		return false, err
	}
	_, frames, err := checkpointWith(w.side, `PRAGMA wal_checkpoint(PASSIVE)`)
	if err != nil {
		return false, err
	}
	size, err := w.side.int(`PRAGMA page_size`)
	return frames*(size+vfs.FrameHeader) > w.options.maxWAL, err
}

// reuseLocked copies the log into the main file and has the next commit begin
// at its start, unless somebody is reading the database: claims must not wait for
// that. The log keeps its size, but when it is to be emptied: cutting off what is to
// be written again takes the file system longer than all the rest.
func (w *wal) reuseLocked() error {
	if err := w.writer.exec(`PRAGMA busy_timeout = 0`); err != nil {
		return err
	}
	busy, _, err := checkpointWith(w.writer, `PRAGMA wal_checkpoint(`+w.modeLocked()+`)`)
	if err == nil && !busy {
		w.reusedLocked()
	}
	wait := fmt.Sprintf(`PRAGMA busy_timeout = %d`, w.options.BusyTimeout.Milliseconds())
	return errors.Join(err, w.writer.exec(wait))
}

// finishLocked copies all of the log into the main file, unless others have
// begun to use the database with another log or index. What can't be copied now
// stays in the log, which belongs to the database if it is in its place.
func (w *wal) finishLocked() (lost bool) {
	if w.place.isAlone() {
		_, left, err := checkpointWith(w.writer, `PRAGMA wal_checkpoint(TRUNCATE)`)
		if err == nil && left == 0 {
			return false
		}
	}
	return w.place.check() != nil
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

// askToEmptyLocked has the log emptied with the next checkpoint, which is due at
// once, if that wasn't done for long. now is the time of a sweep. While others keep
// it from being emptied, each sweep asks again.
func (w *wal) askToEmptyLocked(now int64) {
	if since := now - w.emptied; w.emptied != 0 && since >= 0 && since < emptyLogEvery {
		return
	}
	w.emptying = now
	select {
	case w.due <- struct{}{}:
	default: // one is due already
	}
}

// wantsEmpty reports whether the log is to be emptied.
func (w *wal) wantsEmpty() bool {
	w.lock.Lock()
	defer w.lock.Unlock()
	return w.emptying != 0
}

// modeLocked returns how a checkpoint has the log used again: from its start, or
// emptied.
func (w *wal) modeLocked() string {
	if w.emptying != 0 {
		return `TRUNCATE`
	}
	return `RESTART`
}

// reusedLocked notes that the log was used again in the mode of modeLocked.
func (w *wal) reusedLocked() {
	if w.emptying != 0 {
		w.emptied, w.emptying = w.emptying, 0
	}
}

// look runs f on the connection beside the writer's, so that no claim waits for it.
func (w *wal) look(ctx context.Context, doing string, f func(c *conn) error) error {
	w.sideLock.Lock()
	defer w.sideLock.Unlock()
	if w.side == nil {
		return wrap(doing, storage.ErrClosed)
	}
	err := ctx.Err()
	if err == nil {
		err = w.place.check()
	}
	if err == nil {
		err = f(w.side)
	}
	return w.place.failed(wrap(doing, err))
}
