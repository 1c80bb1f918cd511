package sqlite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/caddy-tally/caddy-tally/storage"
)

// Files of other programs and versions are refused, and stay unchanged.
func TestForeignFilesStayUntouched(t *testing.T) {
	t.Parallel()
	database := func(query string) func(t *testing.T, path string) {
		return func(t *testing.T, path string) {
			c := raw(t, path)
			defer c.close()
			mustExec(t, c, query)
		}
	}
	for name, put := range map[string]func(t *testing.T, path string){
		"text":         func(t *testing.T, path string) { write(t, path, strings.Repeat("not a database\n", 1000)) },
		"short text":   func(t *testing.T, path string) { write(t, path, "x") },
		"zeros":        func(t *testing.T, path string) { write(t, path, string(make([]byte, 8192))) },
		"header alone": func(t *testing.T, path string) { write(t, path, "SQLite format 3\x00") },
		"another program's": database(`PRAGMA application_id = 0x0f055112;
			CREATE TABLE secrets (x); INSERT INTO secrets VALUES (1)`),
		"nobody's":      database(`CREATE TABLE secrets (x); INSERT INTO secrets VALUES (1)`),
		"nobody's, wal": database(`PRAGMA journal_mode = WAL; CREATE TABLE secrets (x); INSERT INTO secrets VALUES (1)`),
		"with our version": database(fmt.Sprintf(`PRAGMA user_version = %d; CREATE TABLE limits (x)`,
			schemaVersion)),
		"of a newer version": database(fmt.Sprintf(`PRAGMA application_id = %d; PRAGMA user_version = %d;
			CREATE TABLE limits (x)`, applicationID, schemaVersion+1)),
		"of a newer version, for its own programs": database(fmt.Sprintf(`PRAGMA application_id = %d; PRAGMA user_version = %d;
			CREATE TABLE limits (x); CREATE TABLE reader (oldest); INSERT INTO reader VALUES (%[2]d)`, applicationID, schemaVersion+1)),
		"of an earlier version": database(fmt.Sprintf(`PRAGMA application_id = %d; PRAGMA user_version = %d;
			CREATE TABLE limits (x)`, applicationID, firstVersion-1)),
		"of a negative version": database(fmt.Sprintf(`PRAGMA application_id = %d; PRAGMA user_version = -1;
			CREATE TABLE limits (x)`, applicationID)),
		"another program's, damaged": func(t *testing.T, path string) {
			database(`CREATE TABLE secrets (x)`)(t, path)
			if err := os.Truncate(path, 5000); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "tally.db")
			put(t, path)
			before, names := read(t, path), fmt.Sprint(list(t, path))
			s, err := Open(context.Background(), Options{Path: path})
			if err == nil {
				_ = s.Close()
			}
			if !errors.Is(err, storage.ErrForeign) {
				t.Errorf("got %v, want %v", err, storage.ErrForeign)
			}
			if read(t, path) != before {
				t.Error("the file was changed")
			}
			if after := fmt.Sprint(list(t, path)); after != names {
				t.Errorf("got files %v, want %v", after, names)
			}
		})
	}
}

// A newer version that has only added data shares its database with this one, which keeps the
// version.
func TestNewerVersionThatThisOneCanRead(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "tally.db")
	running := created(t, Options{Path: path})
	mustFill(t, running, 0, 10)
	newer := raw(t, path)
	defer newer.close()
	mustExec(t, newer, fmt.Sprintf(`ALTER TABLE limits ADD COLUMN more INTEGER NOT NULL DEFAULT 0; PRAGMA user_version = %d`, schemaVersion+1))
	mustFill(t, running, 10, 10)
	later := created(t, Options{Path: path})
	mustFill(t, later, 20, 10)
	if version, err := newer.int(`PRAGMA user_version`); err != nil || version != schemaVersion+1 {
		t.Errorf("the version is %d afterwards, %v", version, err)
	}
}

// A database in use by other connections, with its newest pages in the log and not in the file, is
// recognized.
func TestOursWhileInUse(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "tally.db")
	first := created(t, Options{Path: path})
	mustFill(t, first, 0, 500)
	second := created(t, Options{Path: path})
	mustFill(t, second, 500, 500)
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	mustFill(t, second, 1000, 500)
	if err := second.Close(); err != nil {
		t.Fatal(err)
	}
	if names := list(t, path); len(names) != 1 {
		t.Errorf("got files %q after the last close, want the database alone", names)
	}
	checkIntegrity(t, path)
}

func TestEmptyFileIsFresh(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "tally.db")
	write(t, path, "")
	s := created(t, Options{Path: path, Notice: func(n Notice) { t.Errorf("got notice %+v", n) }})
	mustFill(t, s, 0, 10)
}

// As soon as the file has any content, it identifies itself, so a crash at any time leaves a file
// that Open accepts.
func TestMainFileCarriesTheMarks(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "tally.db")
	created(t, Options{Path: path})
	if err := checkHeader(path); err != nil {
		t.Error(err)
	}
	if got := read(t, path)[68:72]; got != "taly" {
		t.Errorf("got application_id %q", got)
	}
}

// A checkpoint of another process writes the first page, with the new length in
// it, before the file has that length.
func TestMarksOfAGrowingFile(t *testing.T) {
	t.Parallel()
	path := closedDatabase(t)
	if err := os.Truncate(path, pageSize); err != nil {
		t.Fatal(err)
	}
	o, err := Options{Path: path}.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	id, version, _, err := readMarks(o)
	if err != nil || id != applicationID || version != schemaVersion {
		t.Errorf("got %#x, %d, %v", id, version, err)
	}
}

// Open waits for a lock that SQLite itself does not wait for, until its context ends.
func TestOpenWaitsForLocks(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "tally.db")
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	f, tries := new(faults), 0
	f.set(func(query string) error {
		if !strings.Contains(query, "journal_mode = WAL") {
			return nil
		}
		if tries++; tries == 3 {
			cancel()
		}
		return coded(codeBusy)
	})
	if _, err := Open(ctx, Options{Path: path, connect: f.connect}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want %v", err, context.Canceled)
	}
	f.set(failOnce("PRAGMA journal_mode = WAL", coded(codeBusy)))
	s := created(t, Options{Path: path, connect: f.connect})
	mustFill(t, s, 0, 1)
}

func TestOpenTogether(t *testing.T) {
	t.Parallel()
	for range 5 {
		path := filepath.Join(t.TempDir(), "x", "tally.db")
		results := make(chan error)
		const openers = 6
		for i := range uint64(openers) {
			go func() {
				s, err := Open(context.Background(), Options{Path: path, BusyTimeout: time.Minute})
				if err == nil {
					err = fill(s, i, 1)
				}
				if err == nil {
					err = s.Close()
				}
				results <- err
			}()
		}
		for range openers {
			if err := <-results; err != nil {
				t.Error(err)
			}
		}
		last, err := Open(context.Background(), Options{Path: path}) // of connections that close together, none may be able to remove the log
		if err != nil {
			t.Fatal(err)
		}
		if err := last.Close(); err != nil {
			t.Error(err)
		}
		if names := list(t, path); len(names) != 1 {
			t.Errorf("got files %q, want the database alone", names)
		}
		checkIntegrity(t, path)
	}
}

// A database that another process has just created is used as it is.
func TestMadeByAnotherMeanwhile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "tally.db")
	f, made := new(faults), false
	f.set(func(query string) error {
		if !made && strings.Contains(query, "BEGIN") {
			made = true
			mustFill(t, created(t, Options{Path: path}), 0, 1)
		}
		return nil
	})
	s := created(t, Options{Path: path, connect: f.connect})
	if !made {
		t.Fatal("the other had no chance")
	}
	if n, err := askWriter(s, `SELECT count(*) FROM counters`); err != nil || n != 1 {
		t.Errorf("got %d rows (%v), want that of the other", n, err)
	}
}

func TestOptionsAreChecked(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "tally.db")
	for name, o := range map[string]Options{
		"no path":      {},
		"small":        {Path: path, MaxSize: MinMaxSize - 1},
		"synchronous":  {Path: path, Synchronous: 2},
		"busy timeout": {Path: path, BusyTimeout: -1},
	} {
		if s, err := Open(context.Background(), o); err == nil {
			t.Errorf("%s: got no error", name)
			_ = s.Close()
		}
	}
	if names := list(t, path); len(names) != 0 {
		t.Errorf("got files %q, want none", names)
	}
}
