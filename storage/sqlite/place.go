package sqlite

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/caddy-tally/caddy-tally/storage"
)

// place is the place of a database, and the identity of its open files.
type place struct {
	path   string
	file   fs.FileInfo            // of the database
	beside map[string]fs.FileInfo // its log and its index, by suffix
}

// check returns an error if a file that is open is not the one at its path any
// more. SQLite would go on with a file that nobody else sees: with another log or
// index than those who open the database now, it would write over what they do.
func (p *place) check() error {
	if at, err := isAt(p.path, p.file); err != nil {
		return err
	} else if !at {
		return fmt.Errorf("the database %q was removed or replaced while in use; opening it again starts with what is there now", p.path)
	}
	for suffix, file := range p.beside {
		path := p.path + suffix
		if at, err := isAt(path, file); err != nil {
			return err
		} else if !at {
			return fmt.Errorf("%q, which belongs to the database, was removed or replaced while in use; opening the database again makes another", path)
		}
	}
	return nil
}

// failed remembers damage for the next Open.
func (p *place) failed(err error) error {
	if errors.Is(err, storage.ErrCorrupt) {
		return errors.Join(err, markDamaged(p.path, p.file))
	}
	return err
}

// removeBeside removes the log and the index of a database that is not in its
// place any more. Whatever is there now must not be opened with them.
func (p *place) removeBeside() {
	for suffix, ours := range p.beside {
		if at, _ := isAt(p.path+suffix, ours); at {
			_ = os.Remove(p.path + suffix) // no process is left that could repair it
		}
	}
}

// isAlone reports whether nobody can have begun to use the database with a log or
// an index of their own.
func (p *place) isAlone() bool {
	for suffix, ours := range p.beside {
		path := p.path + suffix
		if at, err := isAt(path, ours); !at && (err != nil || exists(path)) {
			return false
		}
	}
	return true
}

// isAt reports whether a file is the one at a path.
func isAt(path string, file fs.FileInfo) (bool, error) {
	now, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil && os.SameFile(now, file), err
}

// filesBeside returns the identity of the log and the index of a database that is
// open.
func filesBeside(path string) (map[string]fs.FileInfo, error) {
	beside := make(map[string]fs.FileInfo)
	for _, suffix := range []string{walSuffix, shmSuffix} {
		info, err := os.Lstat(path + suffix)
		if err != nil {
			return nil, err
		}
		beside[suffix] = info
	}
	return beside, nil
}
