package sqlite

import (
	"database/sql/driver"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// Upgrade is what [Open] would do to a database of an older version.
type Upgrade struct {
	Version int64         // of the database
	Known   int64         // the version that it would have
	Oldest  int64         // the oldest version whose programs could use it then: see [storage.Readable]
	Changes []string      // tables and indexes that would be made or changed, sorted
	Bytes   int64         // the size of the copy that was upgraded
	Took    time.Duration // how long the upgrade took, without the copy
}

// TryUpgrade upgrades a copy of a database, in the folder for temporary files. Programs may use the database
// meanwhile. The error wraps [storage.ErrForeign] as that of Open.
func TryUpgrade(path string) (Upgrade, error) {
	u, err := tryUpgrade(path)
	return u, wrap(fmt.Sprintf("try an upgrade of %q", path), err)
}

func tryUpgrade(path string) (u Upgrade, err error) {
	o, err := Options{Path: path}.withDefaults()
	if err != nil {
		return u, err
	}
	info, err := os.Lstat(o.Path)
	if err == nil {
		err = checkRegular(o.Path, info)
	}
	if err == nil {
		err = access(o.Path, mayRead)
	}
	if err == nil {
		err = checkOurs(o, info)
	}
	if err != nil {
		return u, err
	}
	folder, err := os.MkdirTemp("", "tally-")
	if err != nil {
		return u, err
	}
	defer os.RemoveAll(folder)
	copied := filepath.Join(folder, "copy.db")
	err = o.on(dsn(o.Path, "mode=ro"), func(c *conn) error { return c.exec(`VACUUM INTO ?`, copied) })
	if err != nil {
		return u, err
	}
	u.Bytes = sizeOf(copied)
	err = o.on(dsn(copied, "mode=rw"), func(c *conn) error { return u.upgrade(c) })
	return u, err
}

// upgrade upgrades a copy.
func (u *Upgrade) upgrade(c *conn) (err error) {
	if u.Version, err = c.int(`PRAGMA user_version`); err != nil {
		return err
	}
	before, err := schema(c)
	if err != nil {
		return err
	}
	begun := time.Now()
	if err := migrate(c); err != nil {
		return err
	}
	u.Took, u.Known = time.Since(begun), int64(SchemaVersion())
	u.Oldest = oldestReader(c, u.Known)
	after, err := schema(c)
	if err != nil {
		return err
	}
	maps.DeleteFunc(after, func(name, sql string) bool { return before[name] == sql })
	u.Changes = slices.Sorted(maps.Keys(after))
	return nil
}

// schema returns the statements that made the tables and indexes, by what they made.
func schema(c *conn) (made map[string]string, err error) {
	made = make(map[string]string)
	err = c.each(`SELECT type || ' ' || name, coalesce(sql, '') FROM sqlite_schema`, func(row []driver.Value) error {
		made[fmt.Sprint(row[0])] = fmt.Sprint(row[1])
		return nil
	})
	return made, err
}
