package sqlite

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync/atomic"

	"github.com/caddy-tally/caddy-tally/storage"
)

// place is the path of a database, and identifies it and its open files.
type place struct {
	path   string
	file   fs.FileInfo            // of the database
	origin int64                  // identifies the database, also if its file was replaced
	beside map[string]fs.FileInfo // its log and its index, by suffix

	damaged atomic.Pointer[error] // how the database was found to be damaged; nil if it wasn't
}

// check returns an error if an open file is no longer the one at its path. SQLite would continue with files
// that no other process sees. With another log or index than processes that open the database now, it
// would overwrite their changes. check also returns the error that said that the database is damaged, which
// may have come up where nobody waited for it.
func (p *place) check() error {
	if damaged := p.damaged.Load(); damaged != nil {
		return *damaged
	}
	if there, err := isAt(p.path, p.file); err != nil {
		return err
	} else if !there {
		return fmt.Errorf("%w: the database %q was removed or replaced while in use; opening it again starts with what is there now", storage.ErrLostWrites, p.path)
	}
	for suffix, file := range p.beside {
		path := p.path + suffix
		if there, err := isAt(path, file); err != nil {
			return err
		} else if !there {
			return fmt.Errorf("%w: %q, which belongs to the database, was removed or replaced while in use; opening the database again makes another", storage.ErrLostWrites, path)
		}
	}
	return nil
}

// failed marks the database as damaged, for the next Open, if an error says so.
func (p *place) failed(err error) error {
	if errors.Is(err, storage.ErrCorrupt) {
		p.damaged.CompareAndSwap(nil, &err)
		return errors.Join(err, markDamaged(p.path, p.file))
	}
	return err
}

// removeBeside removes the log and the index of a database that is no longer at its path. Another database
// there must not be opened with them.
func (p *place) removeBeside() {
	for suffix, ours := range p.beside {
		if there, _ := isAt(p.path+suffix, ours); there {
			_ = os.Remove(p.path + suffix) // after an error nothing more can be done
		}
	}
}

// isAlone reports whether no process can be using the database with another log or index.
func (p *place) isAlone() bool {
	for suffix, ours := range p.beside {
		path := p.path + suffix
		if there, err := isAt(path, ours); !there && (err != nil || exists(path)) {
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

// filesBeside returns the identities of the log and the index of an open database.
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
