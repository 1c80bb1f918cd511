package sqlite

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/caddy-tally/caddy-tally/storage"
)

// Suffixes of the files that SQLite and this package create beside a database.
const (
	walSuffix     = "-wal"
	shmSuffix     = "-shm"
	journalSuffix = "-journal"
	chargesSuffix = "-charges"
	damagedSuffix = "-damaged"
	asideInfix    = ".corrupt-" // then a date, and the suffix of a file beside the database
)

// creating is held while this package has its own descriptor of a database file, so that no SQLite
// connection of this process opens the file meanwhile: closing the descriptor would release the
// connection's POSIX locks.
var creating sync.Mutex

// prepareFile makes sure that the path is a regular file that SQLite may open, and returns its identity. It
// creates a missing folder (0700) and a missing file (0600 regardless of the umask, because SQLite gives
// -wal and -shm the mode of the database). It refuses files of others with [storage.ErrForeign], and
// doesn't touch them.
func prepareFile(o Options) (fs.FileInfo, error) {
	creating.Lock()
	defer creating.Unlock()

	if err := makeFolder(filepath.Dir(o.Path)); err != nil {
		return nil, err
	}
	info, err := os.Lstat(o.Path)
	if errors.Is(err, fs.ErrNotExist) {
		if err := createFile(o.Path); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, err
		}
		info, err = os.Lstat(o.Path)
	}
	if err != nil {
		return nil, err
	}
	if err := checkRegular(o.Path, info); err != nil {
		return nil, err
	}
	for _, suffix := range []string{walSuffix, shmSuffix, journalSuffix} {
		if beside, err := os.Lstat(o.Path + suffix); err == nil {
			if err := checkRegular(o.Path+suffix, beside); err != nil {
				return nil, err
			}
		}
	}
	if err := access(o.Path, mayRead); err != nil {
		return nil, err
	}
	if err := checkOurs(o, info); err != nil {
		return nil, err
	}
	return info, checkWritable(o.Path)
}

// checkWritable returns an error with the name of a file that SQLite would have to write and may not.
// SQLite itself would open the database for reading, and create a log that is read-only even for users who
// may write to the database later.
func checkWritable(path string) error {
	for _, file := range []string{filepath.Dir(path), path, path + walSuffix, path + shmSuffix} {
		if err := access(file, mayWrite); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// makeFolder creates a missing folder, and its parents, with mode 0700. It doesn't change existing folders,
// which may be shared.
func makeFolder(folder string) error {
	if info, err := os.Stat(folder); err == nil && info.IsDir() {
		return nil
	}
	if parent := filepath.Dir(folder); parent != folder {
		if err := makeFolder(parent); err != nil {
			return err
		}
	}
	err := os.Mkdir(folder, 0o700)
	if errors.Is(err, fs.ErrExist) {
		return nil // another process was faster; if it is no folder, opening the file fails
	}
	if err != nil {
		return err
	}
	return os.Chmod(folder, 0o700) // regardless of the umask
}

func createFile(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL|noFollow, 0o600)
	if err != nil {
		return err
	}
	err = f.Chmod(0o600)
	return errors.Join(err, f.Close())
}

func checkRegular(path string, info fs.FileInfo) error {
	kind := "not a regular file"
	switch mode := info.Mode(); {
	case mode.IsRegular():
		return nil
	case mode&fs.ModeSymlink != 0:
		kind = "a symbolic link"
	case mode.IsDir():
		kind = "a directory"
	}
	return fmt.Errorf("%w: %q is %s; name the database file itself", storage.ErrForeign, path, kind)
}

// checkOurs refuses an existing file that is not a database of this or an older version. An empty file is
// ours: a crash came between its creation and its first commit. A file with a mark of damage is ours,
// because only we make the mark.
//
// SQLite reads the file, because it knows when it may close it (see creating). "immutable" makes it read
// only the main file, take no lock and create nothing. Only a file that SQLite can't read as a database is
// read here.
func checkOurs(o Options, info fs.FileInfo) error {
	if info.Size() == 0 || isMarked(o.Path) {
		return nil
	}
	id, version, oldest, err := readMarks(o)
	if err == nil {
		return recognize(id, version, oldest)
	}
	if c := code(err); c != codeCorrupt && c != codeNotADB {
		return err
	}
	return checkHeader(o.Path)
}

// readMarks reads a database's application_id, its user_version, and the oldest version whose programs can
// use it. While another process copies its log into the file, the file may be shorter than its header
// says. writable_schema allows that, and writes nothing by itself.
func readMarks(o Options) (id, version, oldest int64, err error) {
	err = o.on(dsn(o.Path, "mode=ro&immutable=1"), func(c *conn) (err error) {
		if err = c.exec(`PRAGMA writable_schema = ON`); err != nil {
			return err
		}
		if id, err = c.int(`PRAGMA application_id`); err != nil {
			return err
		}
		version, err = c.int(`PRAGMA user_version`)
		oldest = oldestReader(c, version)
		return err
	})
	return id, version, oldest, err
}

// on opens a connection, calls f with it and closes it.
func (o *Options) on(dsn string, f func(*conn) error) error {
	connector, err := o.connect(dsn)
	if err != nil {
		return err
	}
	c, err := connect(connector)
	if err != nil {
		return err
	}
	defer c.close()
	return f(c)
}

// checkHeader distinguishes our damaged database from other files by the first bytes
// (https://www.sqlite.org/fileformat2.html#the_database_header).
func checkHeader(path string) error {
	f, err := os.OpenFile(path, os.O_RDONLY|noFollow, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	var header [100]byte
	if _, err := io.ReadFull(f, header[:]); err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
		return err
	}
	if !bytes.HasPrefix(header[:], []byte("SQLite format 3\x00")) {
		return fmt.Errorf("%w: it is no SQLite database; name another file, or move this one away", storage.ErrForeign)
	}
	version := int64(binary.BigEndian.Uint32(header[60:]))
	return recognize(int64(binary.BigEndian.Uint32(header[68:])), version, version)
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// sizeOf returns the size of a file, 0 if there is none.
func sizeOf(path string) int64 {
	info, err := os.Lstat(path)
	if err != nil {
		return 0
	}
	return info.Size()
}

// wait returns true after d, or false as soon as done is closed.
func wait(done <-chan struct{}, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-done:
		return false
	}
}
