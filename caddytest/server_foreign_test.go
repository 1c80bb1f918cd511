package caddytest

import (
	"bytes"
	"database/sql"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	_ "modernc.org/sqlite"
)

// What is not ours stays as it is, and the site is served and still limited.
func TestForeignFileStaysAndSiteIsServed(t *testing.T) {
	t.Parallel()
	for name, put := range map[string]func(t *testing.T, path string){
		"text": func(t *testing.T, path string) {
			if err := os.WriteFile(path, []byte(strings.Repeat("Dear diary\n", 1000)), 0o644); err != nil {
				t.Fatal(err)
			}
		},
		"database": func(t *testing.T, path string) {
			db, err := sql.Open("sqlite", path)
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			if _, err := db.Exec(`CREATE TABLE diary (day, entry); INSERT INTO diary VALUES (1, 'it rained')`); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t, withStore(config("zone z {\nlimit 10/1h\n}"), "{$DIR}/diary/diary.db"))
			folder := filepath.Join(s.dir, "diary")
			path := filepath.Join(folder, "diary.db")
			if err := os.Mkdir(folder, 0o755); err != nil {
				t.Fatal(err)
			}
			put(t, path)
			before := readFile(t, path)
			s.start()
			passed := s.passed(20, "/")
			if passed < 1 || passed > 10 {
				t.Errorf("%d of 20 requests passed, want 1 to the limit of 10", passed)
			}
			if a := s.get("/", "X-Forwarded-For: 192.0.2.1"); a.status != http.StatusOK || a.body != "hello" {
				t.Errorf("another client gets %d %q", a.status, a.body)
			}
			s.stop()
			if after := readFile(t, path); !bytes.Equal(before, after) {
				t.Error("the file has changed")
			}
			for _, beside := range []string{"-wal", "-shm", "-journal", ".corrupt"} {
				wantNoFile(t, path+beside)
			}
			if !strings.Contains(s.logs(), "not a database of this version") || !strings.Contains(s.logs(), path) {
				t.Error("the log does not say what is wrong with which file")
			}
		})
	}
}

// The site recovers without a restart when the file is moved away.
func TestForeignFileMovedAwayIsRecoveredFrom(t *testing.T) {
	t.Parallel()
	s := newServer(t, withStore(config("zone z {\nlimit 10/1h\n}"), "{$DIR}/diary.db"))
	path := filepath.Join(s.dir, "diary.db")
	if err := os.WriteFile(path, []byte("Dear diary\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.start()
	s.wantPassed(1, 1, "/")
	if err := os.Rename(path, path+".mine"); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the store to be in use", func() bool { return len(s.logLines("the store is in use again")) > 0 })
	s.wantPassed(9, 11, "/") // what passed meanwhile is counted
	s.kill()
	s.start()
	s.wantPassed(0, 2, "/")
}

func readFile(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}
