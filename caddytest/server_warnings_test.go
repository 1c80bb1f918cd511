package caddytest

import (
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

const (
	servedWarning = "lies in a folder that a site serves"
	openWarning   = "everybody on this machine may write"
)

func TestValidateWarnsOfServedDatabase(t *testing.T) {
	noData(t)
	const zone = "rate_limit {\nzone z {\nlimit 10/1h\n}\n}\n"
	const whereStarted = "where Caddy was started"
	const elsewhere = "http://:{$OTHER} {\nroot {$DIR}\nfile_server\n}\n"
	for name, c := range map[string]struct {
		sites string
		want  bool
	}{
		"root":                    {site("root {$DIR}\n" + zone + "file_server"), true},
		"root of the file server": {site(zone + "file_server {\nroot {$DIR}/srv\n}"), true},
		"in a handle":             {site("handle /a* {\nroot {$DIR}/srv\nfile_server\n}\nhandle {\n" + zone + "respond hello\n}"), true},
		"in another handle":       {site("handle /a* {\n" + zone + "respond hello\n}\nhandle {\nroot {$DIR}/srv\nfile_server\n}"), true},
		"on another site":         {site(zone) + elsewhere, true},
		"on an earlier site":      {elsewhere + site(zone), true},
		"in an error route":       {site(zone + "respond hello\nhandle_errors {\nroot {$DIR}/srv\nfile_server\n}"), true},
		whereStarted:              {site(zone + "file_server"), true},
		"beside it":               {site("root {$DIR}/srv2\n" + zone + "file_server"), false},
		"below it":                {site("root {$DIR}/srv/data/www\n" + zone + "file_server"), false},
		"not served":              {site("root {$DIR}\n" + zone + "respond hello"), false},
		"not known":               {site("root {$DIR}/{host}\n" + zone + "file_server"), false},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t, options("rate_limit {\nstore sqlite {$DIR}/srv/data/tally.db\n}")+c.sites)
			if name == whereStarted {
				t.Chdir(s.dir)
			}
			out := s.mustValidate()
			if warned := strings.Contains(out, servedWarning); warned != c.want {
				t.Errorf("it warns: %v, want %v:\n%s", warned, c.want, out)
			}
			if warned := strings.Count(out, servedWarning); warned > 3 { // of the database, the secret and the file of bans
				t.Errorf("it warns %d times:\n%s", warned, out)
			}
			wantNoFile(t, filepath.Join(s.dir, "srv"))
		})
	}
}

func TestValidateWarnsOfOpenFolder(t *testing.T) {
	noData(t)
	if runtime.GOOS == "windows" {
		t.Skip("folders have no such mode there")
	}
	for _, c := range []struct {
		name, path string
		mode       fs.FileMode
		want       bool
	}{
		{"open", "folder/tally.db", 0o777, true},
		{"open and sticky", "folder/tally.db", 0o777 | fs.ModeSticky, true},
		{"to be made in it", "folder/new/newer/tally.db", 0o777, true},
		{"group", "folder/tally.db", 0o770, false},
		{"private", "folder/tally.db", 0o700, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newServer(t, withStore(config("zone z {\nlimit 10/1h\n}"), "{$DIR}/"+c.path))
			folder := filepath.Join(s.dir, "folder")
			if err := os.Mkdir(folder, 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(folder, c.mode); err != nil {
				t.Fatal(err)
			}
			out := s.mustValidate()
			if warned := strings.Contains(out, openWarning); warned != c.want {
				t.Errorf("it warns: %v, want %v:\n%s", warned, c.want, out)
			}
			wantNoFile(t, filepath.Join(folder, "*"))
		})
	}
}

// The global option alone limits nothing.
func TestOptionWithoutDirectiveIsWarnedOf(t *testing.T) {
	t.Parallel()
	const without = "no site has the directive rate_limit"
	for directive, want := range map[string]int{"": 1, "rate_limit {\nzone z {\nlimit 10/1h\n}\n}\n": 0} {
		s := startCaddy(t, options(patient)+site(directive+"respond hello"))
		if got := strings.Count(s.logs(), without); got != want {
			t.Errorf("with %q it is told of %d times, want %d", directive, got, want)
		}
	}
}
