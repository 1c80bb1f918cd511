package store

import (
	"context"
	"fmt"
	"math/rand/v2"

	"github.com/caddy-tally/caddy-tally/storage"
)

// The version of the tables, the oldest version whose programs can use them (see [storage.Readable]), and
// the oldest version that is upgraded. A later version adds tables, which are made where they are missing.
const (
	schemaVersion  = 4
	oldestReader   = 4
	oldestUpgraded = 4
)

// tables are the tables of a place, with their columns. meta is created first, so tables without meta
// belong to another program.
var tables = []struct {
	name    table
	hot     bool // its rows are written often
	columns string
}{
	// One row, with id 1.
	{"meta", true, "id BIGINT PRIMARY KEY, version BIGINT NOT NULL, oldest BIGINT NOT NULL, epoch BIGINT NOT NULL, resets BIGINT NOT NULL, changes BIGINT NOT NULL, swept BIGINT NOT NULL, ahead BIGINT NOT NULL, since BIGINT NOT NULL"},
	{"machines", true, "id BIGINT PRIMARY KEY, batches BIGINT NOT NULL, time BIGINT NOT NULL, expires BIGINT NOT NULL"},
	// The name is a limit's ID and a key, the state is in the format of package cells.
	{"cells", true, "name BYTEA PRIMARY KEY, state BYTEA NOT NULL, expires BIGINT NOT NULL"},
	{"clients", true, "name BYTEA PRIMARY KEY, state BYTEA NOT NULL, expires BIGINT NOT NULL"},
	{"resets", false, "number BIGINT PRIMARY KEY, id BIGINT NOT NULL, client BIGINT NOT NULL, counter BIGINT NOT NULL, name BYTEA NOT NULL, former BYTEA NOT NULL, at BIGINT NOT NULL, found BIGINT NOT NULL"},
	// The last clients whose records changed.
	{"changes", true, "number BIGINT PRIMARY KEY, name BYTEA NOT NULL, former BYTEA NOT NULL"},
	{"vault", false, "name BYTEA PRIMARY KEY, title BYTEA NOT NULL, value BYTEA NOT NULL"},
	// The history and the lists of acts, see package rows. Nothing expires by its time.
	{"side", true, "name BYTEA PRIMARY KEY, state BYTEA NOT NULL, expires BIGINT NOT NULL"},
	// Notes of machines for one another: see storage.Note.
	{"notes", false, "number BIGINT PRIMARY KEY, name BYTEA NOT NULL UNIQUE, version BIGINT NOT NULL, expires BIGINT NOT NULL, value BYTEA NOT NULL"},
	{"processes", true, "id BIGINT PRIMARY KEY, expires BIGINT NOT NULL"},
}

// openTables creates missing tables, and returns an error if this version can't use them.
func (p *Place) openTables(ctx context.Context, c conn) error {
	there, err := p.whichExist(ctx, c)
	if err != nil {
		return err
	}
	if len(there) > 0 && there[0] != "meta" {
		return fmt.Errorf("%w: there is a table %s%s, but no table %smeta: choose another prefix",
			storage.ErrForeign, p.prefix, there[0], p.prefix)
	}
	if len(there) > 0 {
		made, err := p.checkVersion(ctx, c)
		if err != nil || made && len(there) == len(tables) {
			return err
		}
	}
	return p.make(ctx, c)
}

// whichExist returns the existing tables.
func (p *Place) whichExist(ctx context.Context, c conn) (there []table, err error) {
	sql := p.script()
	for _, t := range tables {
		sql.add("SELECT 1 WHERE to_regclass('", t.name, "') IS NOT NULL").end()
	}
	results, err := p.query(ctx, c, sql, len(tables))
	if err != nil {
		return nil, err
	}
	for i, found := range results {
		if len(found) > 0 {
			there = append(there, tables[i].name)
		}
	}
	return there, nil
}

// checkVersion returns an error if this version can't use the table meta. made reports whether its row is of
// this version or a later one; if not, a machine has only begun to create the tables, or they are older.
func (p *Place) checkVersion(ctx context.Context, c conn) (made bool, err error) {
	results, err := p.query(ctx, c, p.script().add(
		"SELECT id, version, oldest, epoch, resets, changes, swept, ahead, since FROM ", table("meta")), 1)
	if faultOf(err) == missing {
		return false, fmt.Errorf("%w: the table %smeta is another program's: choose another prefix",
			storage.ErrForeign, p.prefix)
	}
	if err != nil || len(results[0]) == 0 {
		return false, err
	}
	var id, version, oldest int64
	if err := numbers(results[0][0], &id, &version, &oldest); err != nil {
		return false, fmt.Errorf("%w: the table %smeta is another program's: %w", storage.ErrForeign, p.prefix, err)
	}
	if version < oldestUpgraded {
		return false, fmt.Errorf("%w: the tables %s* have version %d, of a build before the first release, which this one doesn't upgrade: drop them (counts begin at 0), or choose another prefix",
			storage.ErrForeign, p.prefix, version)
	}
	if !storage.Readable(schemaVersion, version, oldest) {
		return false, fmt.Errorf("%w: the tables %s* have version %d, for programs that know version %d, and this caddy-tally knows version %d: update it, or choose another prefix",
			storage.ErrForeign, p.prefix, version, oldest, schemaVersion)
	}
	return version >= schemaVersion, nil
}

// making is an advisory lock that is held while tables are created, until the transaction ends.
const making int64 = 0x74616c6c79 // "tally"

// make creates the missing tables in one transaction, and begins an epoch if there is none.
func (p *Place) make(ctx context.Context, c conn) error {
	sql := p.begin()
	sql.add("SELECT pg_advisory_xact_lock(", making, ")").end()
	for _, t := range tables {
		sql.add("CREATE TABLE IF NOT EXISTS ", t.name, " (", t.columns, ")")
		if t.hot {
			sql.add(" WITH (fillfactor = 60)")
		}
		sql.end()
	}
	epoch := rand.Int64()
	sql.add("INSERT INTO ", table("meta"),
		" (id, version, oldest, epoch, resets, changes, swept, ahead, since) VALUES (1, ", schemaVersion, ", ",
		oldestReader, ", ", epoch, ", 0, 0, 0, 0, 0) ", orKeep).end()
	sql.add("UPDATE ", table("meta"), " SET version = ", schemaVersion, ", oldest = ", oldestReader,
		" WHERE version < ", schemaVersion).end()
	_, err := p.run(ctx, c, sql.add("COMMIT"))
	if err != nil {
		p.rollback(ctx, c)
		return fmt.Errorf("make the tables: %w", err)
	}
	return nil
}

// first parses the numbers of the only row of a script's answer.
func first(results []result, to ...*int64) error {
	if err := hasResults(results, 1); err != nil {
		return err
	}
	if len(results[0]) != 1 {
		return fmt.Errorf("the server answered %d rows, expected 1", len(results[0]))
	}
	return numbers(results[0][0], to...)
}
