package sqlite

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync/atomic"
	"time"

	"github.com/caddy-tally/caddy-tally/storage"
	"github.com/caddy-tally/caddy-tally/storage/internal/rows"
	"github.com/caddy-tally/caddy-tally/storage/sqlite/internal/sleeplock"
	"github.com/caddy-tally/caddy-tally/storage/sqlite/internal/vfs"
)

const (
	// openTimeout bounds the time that Open waits for other processes with the same file.
	openTimeout = 5 * time.Second
	// openTries bounds how often one Open sets a damaged database aside.
	openTries = 3

	writerCache = 4 << 10 // KiB of pages that the write connection may cache; each takes twice its size (decision 186)
	sideCache   = 256     // KiB; the checkpointing connection keeps no pages
)

// Store is a [storage.Local] in an SQLite database. Its methods are safe for concurrent use.
type Store struct {
	*rows.Side
	options Options
	place   place
	astray  atomic.Bool // the content of the log may be lost

	tx transactions
	// The lock of tx guards these, which are only used in its transactions.
	claims   *claimer
	clients  standings
	resets   resets
	side     side
	mark     int64 // of the secret, see Mark; 0 before
	sweeping *sweeper

	periods periods
	folds   folds
	keeper  keeper
	reader  reader

	log  wal
	stop chan struct{} // closed to end the goroutines
}

var _ storage.Store = (*Store)(nil)

// Open opens the database, and creates it if there is none. If our database is damaged, it is set aside,
// and a fresh one is started. The caller must Close the store.
//
// The error wraps [storage.ErrForeign] if the file at the path isn't ours. It is that of the context if
// this ends before a locked database becomes free.
func Open(ctx context.Context, o Options) (*Store, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	for range openTries {
		var s *Store
		s, err = open(ctx, o)
		if err == nil {
			return s, nil
		}
		var d *damage
		if !errors.As(err, &d) {
			return nil, wrap(fmt.Sprintf("open %q", o.Path), err)
		}
		aside, failed := setAside(o, d.file)
		if failed != nil {
			return nil, wrap(fmt.Sprintf("open %q", o.Path), errors.Join(failed, err))
		}
		if aside != "" && o.Notice != nil {
			o.Notice(Notice{Path: o.Path, Aside: aside, Cause: d.error})
		}
	}
	return nil, wrap(fmt.Sprintf("open %q", o.Path), err)
}

// damage is the error of open for a damaged file of ours.
type damage struct {
	error
	file fs.FileInfo
}

func (d *damage) Unwrap() error { return d.error }

func open(ctx context.Context, o Options) (*Store, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	file, err := prepareFile(o)
	if err != nil {
		return nil, err
	}
	if isMarked(o.Path) {
		return nil, &damage{errDamaged("it was found so while in use"), file}
	}
	s := newStore(o, file)
	side := sideRows{&s.side, &s.tx, &s.log}
	s.Side = rows.New(side, side)
	if err := s.connect(ctx); err != nil {
		_ = s.closeConnections()
		if c := code(err); c == codeCorrupt || c == codeNotADB || errors.Is(err, storage.ErrCorrupt) {
			return nil, &damage{err, file}
		}
		return nil, err
	}
	go s.log.checkpoints()
	go s.keeper.keep()
	return s, nil
}

// newStore returns a store whose connections are not open yet.
func newStore(o Options, file fs.FileInfo) *Store {
	s := &Store{options: o, place: place{path: o.Path, file: file}, stop: make(chan struct{})}
	s.tx = transactions{place: &s.place, log: &s.log, mu: sleeplock.New()}
	s.log = wal{place: &s.place, options: &s.options, lock: s.tx.mu, sideLock: sleeplock.New(),
		due: make(chan struct{}, 1), stop: s.stop, stopped: make(chan struct{})}
	s.periods.tx, s.periods.options = &s.tx, &s.options
	s.periods.reading, s.periods.woken = sleeplock.New(), make(chan struct{}, 1)
	s.folds.tx, s.folds.options, s.folds.periods = &s.tx, &s.options, &s.periods
	s.folds.patient.lock = sleeplock.New()
	s.keeper = keeper{options: &s.options, tx: &s.tx, periods: &s.periods, folds: &s.folds, stop: s.stop,
		kept: make(chan struct{})}
	s.reader.periods, s.reader.place = &s.periods, &s.place
	return s
}

// Continues implements [storage.Store]. A copy of a database in another file doesn't continue it, because it
// may be old. Neither does a database that has lost its log with the last charges.
func (s *Store) Continues(earlier storage.Store) bool {
	e, ok := earlier.(*Store)
	return ok && s.place.origin == e.place.origin && os.SameFile(s.place.file, e.place.file) && !e.astray.Load()
}

// connect opens the connections and the journal, and migrates the database.
func (s *Store) connect(ctx context.Context) (err error) {
	err = retryBusy(ctx, func() error { s.tx.conn, err = s.options.dial(writerCache); return err })
	if err != nil {
		return err
	}
	s.log.writer = s.tx.conn
	if err := retryBusy(ctx, func() error { return migrate(s.tx.conn) }); err != nil {
		return err
	}
	if err := retryBusy(ctx, func() error { return setUp(s.tx.conn, s.options) }); err != nil {
		return err
	}
	if err := s.prepare(ctx); code(err) == codeError {
		return errors.Join(errDamaged("its tables are not those of its version"), err)
	} else if err != nil {
		return err
	}
	if err := retryBusy(ctx, func() error { s.log.side, err = s.options.dial(sideCache); return err }); err != nil {
		return err
	}
	if err := s.reader.open(ctx, &s.options); err != nil {
		return err
	}
	if err := s.periods.openJournal(ctx); err != nil || s.periods.journal == nil {
		return err
	}
	return retryBusy(ctx, s.keeper.settleJournal)
}

// prepare inspects the database, and prepares the statements.
func (s *Store) prepare(ctx context.Context) (err error) {
	if err := retryBusy(ctx, func() error { return inspect(s.tx.conn) }); err != nil {
		return err
	}
	if s.place.origin, err = s.tx.conn.int(`SELECT id FROM origin`); err != nil {
		return err
	}
	if err := s.tx.prepare(); err != nil {
		return err
	}
	if s.claims, err = newClaimer(s.tx.conn); err != nil {
		return err
	}
	if err := errors.Join(s.clients.prepare(s.tx.conn), s.resets.prepare(s.tx.conn),
		s.side.prepare(s.tx.conn),
		s.periods.prepare(), s.folds.folding.prepare(s.tx.conn, &s.claims.counters, &s.claims.buckets)); err != nil {
		return err
	}
	if s.place.beside, err = filesBeside(s.place.path); err != nil {
		return err
	}
	s.sweeping, err = newSweeper(s.tx.conn)
	return err
}

// dial opens a connection with the settings that all connections have in common.
func (o Options) dial(cacheKiB int) (*conn, error) {
	if err := vfs.Register(); err != nil {
		return nil, err
	}
	connector, err := o.connect(dsn(o.Path, "mode=rw&vfs="+vfs.Name))
	if err != nil {
		return nil, err
	}
	c, err := connect(connector)
	if err != nil {
		return nil, err
	}
	err = c.exec(fmt.Sprintf(`
		PRAGMA busy_timeout = %d;
		PRAGMA trusted_schema = OFF;
		PRAGMA cell_size_check = ON;
		PRAGMA secure_delete = ON;
		PRAGMA temp_store = MEMORY;
		PRAGMA cache_size = -%d;
		PRAGMA cache_spill = OFF;
		PRAGMA wal_autocheckpoint = 0;
		PRAGMA synchronous = %v`,
		max(o.BusyTimeout.Milliseconds(), 1), cacheKiB, o.Synchronous))
	if err != nil {
		_ = c.close()
		return nil, err
	}
	return c, nil
}

// setUp switches the database to WAL and sets its bounds. migrate must come before.
func setUp(c *conn, o Options) error {
	err := c.each(`PRAGMA journal_mode = WAL`, func(row []driver.Value) error {
		if row[0] != "wal" {
			return fmt.Errorf(
				"the database can't be used with a write-ahead log (journal mode %v); put it on a local disk", row[0])
		}
		return nil
	})
	if err != nil {
		return err
	}
	pageSize, err := c.int(`PRAGMA page_size`)
	if err != nil {
		return err
	}
	return c.exec(fmt.Sprintf(`
		PRAGMA max_page_count = %d;
		PRAGMA journal_size_limit = %d;
		PRAGMA synchronous = %v`,
		o.MaxSize/pageSize, 2*o.maxWAL, o.Synchronous)) // truncating a log that is reused costs more than it saves
}

// inspect reads a little of every part of the database that the first claim needs, so that damage there is
// found on opening.
func inspect(c *conn) error {
	if done, err := current(c); err != nil {
		return err
	} else if !done {
		return errDamaged("its version went back")
	}
	for _, query := range []string{
		`SELECT count(*) FROM pragma_table_list WHERE name IN ('limits', 'counters', 'buckets', 'standings', 'clock', 'resets', 'side', 'journal') AND strict`,
		`SELECT count(*) FROM limits WHERE slots < 0`,
		`SELECT count(*) FROM clock WHERE now < 0`,
		`SELECT count(*) FROM (SELECT used FROM counters ORDER BY limit_id, window, key, slot LIMIT 1)`,
		`SELECT count(*) FROM (SELECT used FROM counters ORDER BY limit_id DESC, window DESC, key DESC, slot DESC LIMIT 1)`,
		`SELECT count(*) FROM (SELECT full FROM buckets ORDER BY limit_id, key LIMIT 1)`,
		`SELECT count(*) FROM (SELECT full FROM buckets ORDER BY limit_id DESC, key DESC LIMIT 1)`,
		`SELECT count(*) FROM (SELECT past FROM standings ORDER BY key LIMIT 1)`,
	} {
		if _, err := c.int(query); err != nil {
			return err
		}
	}
	return nil
}

// retryBusy calls f until the database is no longer locked, the context is done, or openTimeout has
// passed. SQLite doesn't wait for some locks itself, for example those of the switch to WAL.
func retryBusy(ctx context.Context, f func() error) error {
	giveUp := time.Now().Add(openTimeout)
	for {
		err := f()
		if !isBusy(err) || time.Now().After(giveUp) {
			return err
		}
		if !wait(ctx.Done(), time.Millisecond) {
			return ctx.Err()
		}
	}
}

// Close implements [storage.Store]. It waits for the goroutines and for calls under way, and copies the log
// into the main file. A second call returns [storage.ErrClosed].
func (s *Store) Close() error {
	s.tx.mu.Lock()
	if s.tx.closed {
		s.tx.mu.Unlock()
		return wrap("close", storage.ErrClosed)
	}
	s.tx.closed = true
	s.tx.mu.Unlock()

	close(s.stop)
	<-s.log.stopped
	<-s.keeper.kept
	s.log.sideLock.Lock()
	defer s.log.sideLock.Unlock()
	s.tx.mu.Lock()
	defer s.tx.mu.Unlock()
	_ = s.tx.rollbackLocked() // closing rolls back as well
	lost, unfolded := s.keeper.leaveJournalLocked()
	switch inPlace, err := isAt(s.place.path, s.place.file); {
	case err != nil: // it is unknown whose files these are
	case !inPlace:
		s.place.removeBeside()
	default:
		lost = s.log.finishLocked() || lost
	}
	s.astray.Store(lost)
	err := errors.Join(unfolded, s.closeConnections())
	s.log.side = nil // for later calls of wal.look
	return wrap("close", err)
}

func (s *Store) closeConnections() error {
	var errs []error
	if s.periods.journal != nil {
		errs = append(errs, s.periods.journal.Close())
	}
	for _, c := range []*conn{s.reader.conn, s.log.side, s.tx.conn} {
		if c != nil {
			errs = append(errs, c.close())
		}
	}
	return errors.Join(errs...)
}
