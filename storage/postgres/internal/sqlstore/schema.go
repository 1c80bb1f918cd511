package sqlstore

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/caddy-tally/caddy-tally/storage"
)

// The version of the tables, the oldest version whose programs can use them (see [storage.Readable]), and
// the oldest version that is upgraded. A later version adds tables, which are made where they are missing.
const (
	schemaVersion  = 4
	oldestReader   = 4
	oldestUpgraded = 4
)

// column is a column of a table.
type column struct {
	name string
	kind kind
}

type kind string

const (
	number64 kind = "BIGINT"
	anyBytes kind = "BYTEA"
)

// tables are the tables of a place. The first column of each is its key. meta is created first, so
// tables without meta belong to another program.
var tables = []struct {
	name    table
	hot     bool // its rows are written often
	columns []column
	unique  string // another column that is a key, or ""
}{
	// One row, with id 1.
	{"meta", true, []column{{"id", number64}, {"version", number64}, {"oldest", number64}, {"epoch", number64},
		{"resets", number64}, {"changes", number64},
		{"swept", number64}, {"ahead", number64}, {"since", number64}}, ""},
	{"machines", true, []column{{"id", number64}, {"batches", number64}, {"time", number64}, {"expires", number64}},
		""},
	// The name is a limit's ID and a key, the state is in the format of package cells.
	{"cells", true, []column{{"name", anyBytes}, {"state", anyBytes}, {"expires", number64}}, ""},
	{"clients", true, []column{{"name", anyBytes}, {"state", anyBytes}, {"expires", number64}}, ""},
	{"resets", false, []column{{"number", number64}, {"id", number64}, {"client", number64}, {"counter", number64},
		{"name", anyBytes}, {"former", anyBytes}, {"at", number64}, {"found", number64}}, ""},
	// The last clients whose records changed.
	{"changes", true, []column{{"number", number64}, {"name", anyBytes}, {"former", anyBytes}}, ""},
	{"vault", false, []column{{"name", anyBytes}, {"title", anyBytes}, {"value", anyBytes}}, ""},
	// The history and the lists of acts, see package rows. Nothing expires by its time.
	{"side", true, []column{{"name", anyBytes}, {"state", anyBytes}, {"expires", number64}}, ""},
	// Notes of machines for one another: see storage.Note.
	{"notes", false, []column{{"number", number64}, {"name", anyBytes}, {"version", number64}, {"expires", number64},
		{"value", anyBytes}}, "name"},
	{"processes", true, []column{{"id", number64}, {"expires", number64}}, ""},
}

// Tables returns the names of all tables, without their prefix.
func Tables() (names []string) {
	for _, t := range tables {
		names = append(names, string(t.name))
	}
	return names
}

// openTables creates missing tables, and returns an error if this version can't use them.
func (p *Place) openTables(ctx context.Context, c Conn) error {
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
func (p *Place) whichExist(ctx context.Context, c Conn) (there []table, err error) {
	sql := p.script().add("SELECT ")
	for i, t := range tables {
		if i > 0 {
			sql.add(", ")
		}
		sql.add("(to_regclass('", t.name, "') IS NOT NULL)::INT")
	}
	results, err := p.run(ctx, c, sql)
	if err != nil {
		return nil, err
	}
	exists := make([]int64, len(tables))
	to := make([]*int64, len(tables))
	for i := range to {
		to[i] = &exists[i]
	}
	if err := first(results, to...); err != nil {
		return nil, err
	}
	for i, t := range tables {
		if exists[i] != 0 {
			there = append(there, t.name)
		}
	}
	return there, nil
}

// checkVersion returns an error if this version can't use the table meta. made reports whether its row is of
// this version or a later one; if not, a machine has only begun to create the tables, or they are older.
func (p *Place) checkVersion(ctx context.Context, c Conn) (made bool, err error) {
	results, err := p.run(ctx, c, p.script().selectColumns("meta"))
	if faultOf(err) == Missing {
		return false, fmt.Errorf("%w: the table %smeta is another program's: choose another prefix",
			storage.ErrForeign, p.prefix)
	}
	if err == nil {
		err = hasResults(results, 1)
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

func (s *script) selectColumns(name table) *script {
	for _, t := range tables {
		if t.name == name {
			var names []string
			for _, c := range t.columns {
				names = append(names, c.name)
			}
			return s.add("SELECT ", strings.Join(names, ", "), " FROM ", name)
		}
	}
	return s
}

// making is an advisory lock that is held while tables are created, until the transaction ends.
const making int64 = 0x74616c6c79 // "tally"

// make creates the missing tables in one transaction, and begins an epoch if there is none.
func (p *Place) make(ctx context.Context, c Conn) error {
	sql := p.begin()
	sql.add("SELECT pg_advisory_xact_lock(", making, ")").end()
	for _, t := range tables {
		sql.create(t.name, t.hot, t.columns, t.unique)
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

func (s *script) create(name table, hot bool, columns []column, unique string) {
	s.add("CREATE TABLE IF NOT EXISTS ", name, " (")
	for i, c := range columns {
		if i > 0 {
			s.add(", ")
		}
		s.add(c.name, " ", raw(c.kind), " NOT NULL")
	}
	s.add(", PRIMARY KEY (", columns[0].name, ")")
	if unique != "" {
		s.add(", UNIQUE (", unique, ")")
	}
	s.add(")")
	if hot {
		s.add(" WITH (fillfactor = 60)")
	}
	s.end()
}

// first parses the numbers of the only row of a script's answer.
func first(results []Rows, to ...*int64) error {
	if err := hasResults(results, 1); err != nil {
		return err
	}
	if len(results[0]) != 1 {
		return fmt.Errorf("the server answered %d rows, expected 1", len(results[0]))
	}
	return numbers(results[0][0], to...)
}
