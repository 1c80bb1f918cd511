package sqlite

import (
	"database/sql/driver"
	"fmt"

	"github.com/caddy-tally/caddy-tally/storage"
)

// applicationID marks a database as ours, at offset 68 of the file: "taly".
const applicationID = 0x74616c79

// migrations lead from an empty database to the present version. The first one makes a database of firstVersion,
// each of the others one of the next version. They are only appended to.
var migrations = []string{
	// Counters are ordered by window first. With random keys every upsert changes another page, so the
	// rows of the present window lie together, expired rows lie apart, and expiry is a range delete that
	// needs no second index.
	`CREATE TABLE limits (
		id        INTEGER PRIMARY KEY,  -- storage.LimitID, as a signed integer
		algorithm INTEGER NOT NULL,     -- limiter.Algorithm
		window    INTEGER NOT NULL,     -- nanoseconds
		slots     INTEGER NOT NULL,     -- of a window; 0 for a token bucket
		seen      INTEGER NOT NULL,     -- nanoseconds since the epoch, about an hour exact
		era       INTEGER NOT NULL
	) STRICT;
	CREATE TABLE counters (
		limit_id INTEGER NOT NULL,
		window   INTEGER NOT NULL,      -- slot / slots of a window, rounded down
		key      BLOB    NOT NULL,
		slot     INTEGER NOT NULL,
		used     INTEGER NOT NULL,      -- units
		PRIMARY KEY (limit_id, window, key, slot)
	) STRICT, WITHOUT ROWID;
	CREATE TABLE buckets (
		limit_id INTEGER NOT NULL,
		key      BLOB    NOT NULL,
		at       INTEGER NOT NULL,      -- limiter.Bucket
		units    INTEGER NOT NULL,
		part     INTEGER NOT NULL,
		full     INTEGER NOT NULL,      -- the time from which on the row says nothing
		PRIMARY KEY (limit_id, key)
	) STRICT, WITHOUT ROWID;
	CREATE TABLE standings (
		key     BLOB    NOT NULL PRIMARY KEY,
		at      INTEGER NOT NULL,       -- reputation.Record, like all up to past
		lost    INTEGER NOT NULL,
		level   INTEGER NOT NULL,
		until   INTEGER NOT NULL,
		bans    INTEGER NOT NULL,
		past    BLOB    NOT NULL,
		expires INTEGER NOT NULL        -- the time from which on the row says nothing
	) STRICT, WITHOUT ROWID;
	CREATE INDEX standings_expires ON standings (expires);
	-- File systems give the number of a removed file to the next one, so a
	-- database that has taken the place of another is known by what is in it.
	CREATE TABLE origin (
		id INTEGER NOT NULL             -- by chance
	) STRICT;
	INSERT INTO origin VALUES (random());
	-- One time for all processes, see storage.TimeRecord. Every claim reads it, so the number of the
	-- newest reset is there.
	CREATE TABLE clock (
		now    INTEGER NOT NULL,
		apart  INTEGER NOT NULL,
		shift  INTEGER NOT NULL,        -- of which the times in standings know nothing
		era    INTEGER NOT NULL,
		steady INTEGER NOT NULL,
		source BLOB    NOT NULL,
		astray INTEGER NOT NULL,
		resets INTEGER NOT NULL
	) STRICT;
	INSERT INTO clock VALUES (0, 0, 0, 0, 0, zeroblob(16), 0, 0);
	-- The processes that use the database. They divide limits among themselves while it can't be used.
	CREATE TABLE processes (
		id      INTEGER PRIMARY KEY,    -- by chance
		until   INTEGER NOT NULL,       -- the time from which on the row says nothing
		journal INTEGER NOT NULL        -- 0 for programs without a journal
	) STRICT;
	CREATE TABLE resets (
		number   INTEGER PRIMARY KEY,   -- storage.Reset, like all that follow
		id       INTEGER NOT NULL UNIQUE,
		at       INTEGER NOT NULL,
		client   INTEGER NOT NULL,      -- 1 or 0
		limit_id INTEGER NOT NULL,
		key      BLOB    NOT NULL,
		former   BLOB    NOT NULL,
		found    INTEGER NOT NULL       -- 1 or 0
	) STRICT;
	-- The journal of the database, the generation up to which it is folded, and the progress of a fold, see
	-- progress.
	CREATE TABLE journal (
		id     INTEGER NOT NULL,        -- of the journal's contents, 0 if there is none
		folded INTEGER NOT NULL,
		upto   INTEGER NOT NULL,
		below  INTEGER NOT NULL
	) STRICT;
	INSERT INTO journal VALUES (0, 0, 0, 0);
	-- The oldest version whose programs can still use the database: see storage.Readable.
	CREATE TABLE reader (
		oldest INTEGER NOT NULL
	) STRICT;
	INSERT INTO reader VALUES (10);` + sideTable + `
	-- The mark of the secret that names are made with: see storage.Local. 0 is none.
	CREATE TABLE secret (
		mark INTEGER NOT NULL
	) STRICT;
	INSERT INTO secret VALUES (0);`,
}

// sideTable makes the table of the history and the lists of acts. Rows of one time lie together.
const sideTable = `
	CREATE TABLE side (                 -- see package rows
		name  BLOB NOT NULL PRIMARY KEY,
		value BLOB NOT NULL
	) STRICT, WITHOUT ROWID;`

// firstVersion is the oldest version that is upgraded. user_version is the version of a database.
const firstVersion = 10

// schemaVersion is the version of databases that this package creates and migrates to.
var schemaVersion = int64(firstVersion + len(migrations) - 1)

// migrate brings the database to the present version, in one transaction. If two processes do so at once,
// the second waits for the first and finds nothing to do. On a fresh file it must run before the switch to
// WAL, so that the main file is never without its application_id.
func migrate(c *conn) error {
	done, err := current(c)
	if err != nil || done {
		return err
	}
	begin := `BEGIN IMMEDIATE`
	if n, err := c.int(`PRAGMA page_count`); err != nil {
		return err
	} else if n == 0 {
		// The first page fixes both settings. Outside a transaction, auto_vacuum would write that page at
		// once, without our application_id. Inside, it begins the write.
		begin = `PRAGMA page_size = 2048; BEGIN; PRAGMA auto_vacuum = INCREMENTAL`
	}
	// A first commit must reach the disk before the log takes over.
	err = c.exec(`PRAGMA synchronous = FULL; ` + begin)
	if err == nil {
		err = migrateLocked(c)
	}
	if err == nil {
		err = c.exec(`COMMIT`)
	}
	if err != nil {
		_ = c.exec(`ROLLBACK`) // the first error says more
		return err
	}
	// An older file is in WAL mode already. Its new version must be in the main file, where an older program
	// looks for it.
	return c.exec(`PRAGMA wal_checkpoint(TRUNCATE)`)
}

// migrateLocked is the body of migrate's transaction.
func migrateLocked(c *conn) error {
	done, err := current(c)
	if err != nil || done {
		return err
	}
	version, err := c.int(`PRAGMA user_version`)
	if err != nil {
		return err
	}
	for _, m := range migrations[max(version-firstVersion+1, 0):] {
		if err := c.exec(m); err != nil {
			return err
		}
	}
	return c.exec(fmt.Sprintf(`PRAGMA application_id = %d; PRAGMA user_version = %d`, applicationID, schemaVersion))
}

// SchemaVersion returns the version of databases that this package creates and migrates to.
func SchemaVersion() int { return int(schemaVersion) }

// current reports whether the database needs no migration. It refuses a database of another program with
// [storage.ErrForeign].
func current(c *conn) (bool, error) {
	var id, version, tables int64
	// One statement, so that all values are of one moment.
	err := c.each(`SELECT application_id, user_version, (SELECT count(*) FROM sqlite_schema)
		FROM pragma_application_id, pragma_user_version`, func(row []driver.Value) error {
		return integers(row, &id, &version, &tables)
	})
	if err != nil {
		return false, err
	}
	if id == 0 && version == 0 && tables == 0 {
		return false, nil
	}
	return version >= schemaVersion, recognize(id, version, oldestReader(c, version))
}

// oldestReader returns the oldest version whose programs can use a database of a version. Without the table
// it is the version itself.
func oldestReader(c *conn, version int64) int64 {
	if oldest, err := c.int(`SELECT oldest FROM reader`); err == nil {
		return oldest
	}
	return version
}

// recognize returns an error if the marks of a database are another program's or too new.
func recognize(id, version, oldest int64) error {
	switch {
	case id != applicationID:
		return fmt.Errorf("%w: it is another program's SQLite database (application_id %#x); name another file, or move this one away", storage.ErrForeign, id)
	case version < 0:
		return fmt.Errorf("%w: it has version %d; name another file, or move this one away",
			storage.ErrForeign, version)
	case version < firstVersion:
		return fmt.Errorf("%w: it has version %d, of a build before the first release, which this one doesn't upgrade; delete it with the files beside it (counts begin at 0), or name another file", storage.ErrForeign, version)
	case !storage.Readable(schemaVersion, version, oldest):
		return fmt.Errorf("%w: it has version %d, for programs that know version %d, and this one knows versions up to %d; update the program, name another file, or move this one away", storage.ErrForeign, version, oldest, schemaVersion)
	}
	return nil
}
