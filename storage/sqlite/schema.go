package sqlite

import (
	"database/sql/driver"
	"fmt"

	"github.com/caddy-tally/caddy-tally/storage"
)

// applicationID marks a database as ours, at offset 68 of the file: "taly".
const applicationID = 0x74616c79

// migrations lead from an empty database to the present version. user_version is how many of them a database
// has seen. They are only appended to.
var migrations = []string{
	// Counters are ordered by window first. With random keys every upsert changes another page, so the
	// rows of the present window lie together, expired rows lie apart, and expiry is a range delete that
	// needs no second index.
	`CREATE TABLE limits (
		id        INTEGER PRIMARY KEY,  -- storage.LimitID, as a signed integer
		algorithm INTEGER NOT NULL,     -- limiter.Algorithm
		window    INTEGER NOT NULL,     -- nanoseconds
		slots     INTEGER NOT NULL,     -- of a window; 0 for a token bucket
		seen      INTEGER NOT NULL      -- nanoseconds since the epoch, about an hour exact
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
	INSERT INTO origin VALUES (random());`,

	// One time for all processes, see storage.TimeRecord.
	`CREATE TABLE clock (
		now    INTEGER NOT NULL,
		apart  INTEGER NOT NULL,
		shift  INTEGER NOT NULL,        -- of which the times in standings know nothing
		era    INTEGER NOT NULL,
		steady INTEGER NOT NULL,
		source BLOB    NOT NULL,
		astray INTEGER NOT NULL
	) STRICT;
	INSERT INTO clock VALUES (0, 0, 0, 0, 0, zeroblob(16), 0);
	ALTER TABLE limits ADD COLUMN era INTEGER NOT NULL DEFAULT 0;`,

	// The processes that use the database. They divide limits among themselves while it can't be used.
	`CREATE TABLE processes (
		id    INTEGER PRIMARY KEY,      -- by chance
		until INTEGER NOT NULL          -- the time from which on the row says nothing
	) STRICT;`,

	// Resets, see storage.Reset. Every claim reads the clock, so the number of the newest reset is there.
	`ALTER TABLE clock ADD COLUMN resets INTEGER NOT NULL DEFAULT 0;
	CREATE TABLE resets (
		number   INTEGER PRIMARY KEY,   -- storage.Reset, like all that follow
		id       INTEGER NOT NULL UNIQUE,
		at       INTEGER NOT NULL,
		client   INTEGER NOT NULL,      -- 1 or 0
		limit_id INTEGER NOT NULL,
		key      BLOB    NOT NULL,
		former   BLOB    NOT NULL,
		found    INTEGER NOT NULL       -- 1 or 0
	) STRICT;`,

	// The history, see storage.Historian, and the audit. Times are numbers of minutes,
	// hours or days, so that a row takes some 30 bytes. Rows of one time lie together.
	`CREATE TABLE series (
		id   INTEGER PRIMARY KEY,
		zone TEXT NOT NULL,
		name TEXT NOT NULL,             -- of a limit; '' for the zone
		UNIQUE (zone, name)
	) STRICT;` + rollupTable("minutes") + rollupTable("hours") + rollupTable("days") + `
	CREATE TABLE sketches (             -- of periods that somebody may still add to
		resolution INTEGER NOT NULL,    -- index in storage.Rollups
		at         INTEGER NOT NULL,
		series     INTEGER NOT NULL,
		keys       BLOB    NOT NULL,    -- distinct.Sketch
		PRIMARY KEY (resolution, at, series)
	) STRICT;
	CREATE TABLE heaviest (
		at      INTEGER NOT NULL,       -- in hours
		series  INTEGER NOT NULL,
		key     BLOB    NOT NULL,
		units   INTEGER NOT NULL,
		refused INTEGER NOT NULL,
		PRIMARY KEY (at, series, key)
	) STRICT, WITHOUT ROWID;
	CREATE TABLE writers (              -- what each process has reported
		id     INTEGER PRIMARY KEY,
		number INTEGER NOT NULL,        -- of its last report
		at     INTEGER NOT NULL         -- nanoseconds since the epoch
	) STRICT;
	CREATE TABLE audit (                -- storage.Act
		at     INTEGER PRIMARY KEY,
		who    TEXT NOT NULL,
		action TEXT NOT NULL,
		target TEXT NOT NULL,
		kind   TEXT NOT NULL,
		reason TEXT NOT NULL
	) STRICT;`,

	// The journal of the database, and the generation up to which it is folded. In processes, journal is 0
	// for programs without a journal.
	`CREATE TABLE journal (
		id     INTEGER NOT NULL,        -- of the journal's contents, 0 if there is none
		folded INTEGER NOT NULL
	) STRICT;
	INSERT INTO journal VALUES (0, 0);
	ALTER TABLE processes ADD COLUMN journal INTEGER NOT NULL DEFAULT 0;`,

	// The progress of a fold, see progress.
	`ALTER TABLE journal ADD COLUMN upto INTEGER NOT NULL DEFAULT 0;
	ALTER TABLE journal ADD COLUMN below INTEGER NOT NULL DEFAULT 0;`,

	// The oldest version whose programs can still use the database: see [storage.Readable].
	`CREATE TABLE reader (
		oldest INTEGER NOT NULL
	) STRICT;
	INSERT INTO reader VALUES (8);
	-- The mark of the secret that names are made with: see [storage.Local]. 0 is none.
	CREATE TABLE secret (
		mark INTEGER NOT NULL
	) STRICT;
	INSERT INTO secret VALUES (0);`,

	// Units that applications charged, apart from what operators did: see [storage.Log].
	`CREATE TABLE charges (             -- storage.Act
		at     INTEGER PRIMARY KEY,
		who    TEXT NOT NULL,
		action TEXT NOT NULL,
		target TEXT NOT NULL,
		kind   TEXT NOT NULL,
		reason TEXT NOT NULL
	) STRICT;`,
}

// rollupTable returns the statement that creates a table of counts per period.
func rollupTable(name string) string {
	return fmt.Sprintf(`
	CREATE TABLE %s (
		at           INTEGER NOT NULL,  -- in %[1]s since the epoch
		series       INTEGER NOT NULL,
		allowed      INTEGER NOT NULL,  -- storage.Tally, like all up to units
		refused      INTEGER NOT NULL,
		blocked      INTEGER NOT NULL,
		banned       INTEGER NOT NULL,
		would_refuse INTEGER NOT NULL,
		units        INTEGER NOT NULL,
		keys         INTEGER NOT NULL,  -- different ones, an estimate
		PRIMARY KEY (at, series)
	) STRICT, WITHOUT ROWID;`, name)
}

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
	for _, m := range migrations[version:] {
		if err := c.exec(m); err != nil {
			return err
		}
	}
	return c.exec(fmt.Sprintf(`PRAGMA application_id = %d; PRAGMA user_version = %d`, applicationID, len(migrations)))
}

// SchemaVersion returns the version of databases that this package creates and migrates to.
func SchemaVersion() int { return len(migrations) }

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
	return version >= int64(len(migrations)), recognize(id, version, oldestReader(c, version))
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
	switch known := int64(len(migrations)); {
	case id != applicationID:
		return fmt.Errorf("%w: it is another program's SQLite database (application_id %#x); name another file, or move this one away", storage.ErrForeign, id)
	case version < 0:
		return fmt.Errorf("%w: it has version %d; name another file, or move this one away", storage.ErrForeign, version)
	case !storage.Readable(known, version, oldest):
		return fmt.Errorf("%w: it has version %d, for programs that know version %d, and this one knows versions up to %d; update the program, name another file, or move this one away", storage.ErrForeign, version, oldest, known)
	}
	return nil
}
