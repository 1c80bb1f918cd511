package sqlite

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// isMarked reports whether the database is known to be damaged.
func isMarked(path string) bool { return exists(path + damagedSuffix) }

// markDamaged notes beside the database that it is damaged, so that the next
// Open sets it aside. A database that has taken the place of the damaged one
// meanwhile is left in peace.
func markDamaged(path string, damaged fs.FileInfo) error {
	if now, err := os.Lstat(path); err != nil || !os.SameFile(now, damaged) {
		return err
	}
	err := createFile(path + damagedSuffix)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	return err
}

// setAside renames a damaged database, its log and its index, and returns the
// database's new name; "" if somebody else has replaced it already. The main
// file goes last: a log must never be found beside a database it does not
// belong to, and as long as the main file is there, the next Open tries again.
func setAside(o Options, damaged fs.FileInfo) (aside string, err error) {
	creating.Lock()
	defer creating.Unlock()
	if now, err := os.Lstat(o.Path); err != nil || !os.SameFile(now, damaged) {
		return "", err
	}
	aside = unusedName(o.Path + asideInfix + o.now().UTC().Format("20060102T150405Z"))
	for _, suffix := range []string{walSuffix, shmSuffix, journalSuffix, ""} {
		err := os.Rename(o.Path+suffix, aside+suffix)
		if err != nil && !(suffix != "" && errors.Is(err, fs.ErrNotExist)) {
			return "", fmt.Errorf("setting aside a damaged database: %w", err)
		}
	}
	if err := os.Remove(o.Path + damagedSuffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	forgetAsides(o.Path)
	return aside, nil
}

// keptAsides is how many damaged databases are kept. A disk that goes on to spoil
// them must not be filled with them.
const keptAsides = 4

var asideNames = regexp.MustCompile(`^([0-9]{8}T[0-9]{6}Z(?:-[0-9]+)?)(?:-wal|-shm|-journal)?$`)

// forgetAsides removes the oldest of the damaged databases that were set aside,
// and all that belongs to them, so that keptAsides are left. What can't be removed
// is tried again with the next one.
func forgetAsides(path string) {
	entries, _ := os.ReadDir(filepath.Dir(path))
	files := make(map[string][]string) // by date
	for _, entry := range entries {
		name, ours := strings.CutPrefix(entry.Name(), filepath.Base(path)+asideInfix)
		if found := asideNames.FindStringSubmatch(name); ours && found != nil {
			files[found[1]] = append(files[found[1]], filepath.Join(filepath.Dir(path), entry.Name()))
		}
	}
	dates := slices.Sorted(maps.Keys(files))
	for _, date := range dates[:max(len(dates)-keptAsides, 0)] {
		for _, file := range files[date] {
			_ = os.Remove(file)
		}
	}
}

func unusedName(name string) string {
	unused := name
	for i := 2; exists(unused); i++ {
		unused = fmt.Sprintf("%s-%d", name, i)
	}
	return unused
}
