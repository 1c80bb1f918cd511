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

// markDamaged creates a file that says that the database is damaged, so that the next Open sets it aside.
// It does nothing if another database has replaced the damaged one meanwhile.
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

// setAside renames a damaged database, its log and its index, and returns the database's new name, or ""
// if another process has replaced it already. It renames the main file last: a log must never lie beside
// another database, and as long as the main file exists, the next Open retries.
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

// keptAsides is how many damaged databases are kept, so that a bad disk is not filled with them.
const keptAsides = 4

var asideNames = regexp.MustCompile(`^([0-9]{8}T[0-9]{6}Z(?:-[0-9]+)?)(?:-wal|-shm|-journal)?$`)

// forgetAsides removes the oldest damaged databases that were set aside, with their other files, so that
// keptAsides are left. If a file can't be removed, the next call retries.
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
