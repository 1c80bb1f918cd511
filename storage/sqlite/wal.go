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
	// checkpointRows is the number of written rows after which the log is copied into the main file. With
	// random keys each row is on another page.
	checkpointRows = 4000
	// maxWAL is the size, in bytes, from which on the log is reused from its start instead of growing.
	// checkpointRows, at two pages each, may add half of it before a checkpoint is due, and as much again
	// before a claim reuses the log itself.
	maxWAL = 32 << 20
)

// emptyLogEvery is how often the log is emptied while there are sweeps, in nanoseconds. The log has earlier
// versions of pages, and so is the only file with deleted rows. Claims wait while the file system
// truncates it (11 ms for 32 MiB on a shared ext4), so that isn't done with every sweep.
const emptyLogEvery = int64(5 * time.Minute)

// wal copies the write-ahead log of a database into the main file.
type wal struct {
	place   *place
	options *Options

	lock     sleeplock.Lock // guards the writer and the following fields
	writer   *conn
	unsynced int64 // rows written since the last request for a checkpoint
	emptied  int64 // the time of the sweep that last emptied the log; 0 if none did
	emptying int64 // the time of the sweep that wants the log emptied; 0 if none does

	// sideLock guards the connection of checkpoints and of reads of the past. It is locked before all
	// others.
	sideLock sleeplock.Lock
	side     *conn // nil once the store is closed

	due     chan struct{} // a checkpoint is due; holds one
	stop    chan struct{} // closed to end the goroutine
	stopped chan struct{} // closed when it has ended
}

// wroteLocked requests a checkpoint when enough rows have been written since the last request. If that
// checkpoint hasn't begun yet, the machine is too busy for another goroutine, and wroteLocked makes the
// checkpoint itself.
func (w *wal) wroteLocked(rows int64) {
	w.unsynced += rows
	if w.unsynced < checkpointRows {
		return
	}
	w.unsynced = 0
	select {
	case w.due <- struct{}{}:
	default:
		_ = w.reuseLocked() // if it fails, the requested checkpoint retries
	}
}

// checkpoints is the goroutine of checkpoints. It ends when stop is closed.
func (w *wal) checkpoints() {
	defer close(w.stopped)
	for {
		select {
		case <-w.stop:
			return
		case <-w.due:
			// If a checkpoint fails, the log stays as it is, and the next one retries. If the disk fails,
			// claims return the error.
			_ = w.checkpoint()
		}
	}
}

// checkpoint copies the log into the main file while claims continue. A steady stream of claims would keep
// the log from ever being reused from its start. So if the log is too long, or must be emptied, it is copied
// to its end while claims wait. Before that, the pages written during the first, long copy are copied too
// and synced to the disk, so that little is left to do.
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
		_, err = w.copy(false) // without rests, so that less is written meanwhile
	}
	if err == nil {
		err = w.side.exec(`PRAGMA ` + vfs.SyncPragma)
	}
	w.lock.Lock()
	defer w.lock.Unlock()
	if isDone(w.stop) {
		return storage.ErrClosed
	}
	if err == nil {
		err = w.reuseLocked()
	}
	return w.place.failed(wrap("checkpoint", err))
}

// copy copies the present content of the log, and reports whether the log is too long. If rests is set, it
// rests now and then.
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

// reuseLocked copies the log into the main file and makes the next commit begin at its start, unless a
// process is reading the database: claims must not wait for that. The log keeps its size unless it must be
// emptied, because truncating it takes the file system longer than everything else.
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

// finishLocked copies all of the log into the main file, unless other processes may use the database with
// another log or index. The rest stays in the log. It is lost unless the files are in place.
func (w *wal) finishLocked() (lost bool) {
	if w.place.isAlone() {
		_, left, err := checkpointWith(w.writer, `PRAGMA wal_checkpoint(TRUNCATE)`)
		if err == nil && left == 0 {
			return false
		}
	}
	return w.place.check() != nil
}

// checkpointWith runs a checkpoint. busy reports whether other processes prevented it; frames is the length
// of the log.
func checkpointWith(c *conn, pragma string) (busy bool, frames int64, err error) {
	err = c.each(pragma, func(row []driver.Value) error {
		var kept int64
		err := integers(row, &kept, &frames)
		busy = kept != 0
		return err
	})
	return busy, frames, err
}

// askToEmptyLocked requests that a checkpoint empties the log, if that wasn't done for emptyLogEvery. now is
// the time of a sweep. If other processes prevent it, each sweep requests it again.
func (w *wal) askToEmptyLocked(now int64) {
	if since := now - w.emptied; w.emptied != 0 && since >= 0 && since < emptyLogEvery {
		return
	}
	w.emptying = now
	select {
	case w.due <- struct{}{}:
	default: // one is requested already
	}
}

// wantsEmpty reports whether the log must be emptied.
func (w *wal) wantsEmpty() bool {
	w.lock.Lock()
	defer w.lock.Unlock()
	return w.emptying != 0
}

// modeLocked returns the mode of a checkpoint: the log is reused from its start, or emptied.
func (w *wal) modeLocked() string {
	if w.emptying != 0 {
		return `TRUNCATE`
	}
	return `RESTART`
}

// reusedLocked notes a successful checkpoint in the mode of modeLocked.
func (w *wal) reusedLocked() {
	if w.emptying != 0 {
		w.emptied, w.emptying = w.emptying, 0
	}
}

// look runs f with the side connection, so that no claim waits for it.
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
