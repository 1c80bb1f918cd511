package proposal_test

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"
)

// Zones are written where they mean what they should, whatever shifts lines; sites that can't be written are
// printed, and nothing else is changed.
func TestWriteFindsTheSite(t *testing.T) {
	t.Setenv("EXTRA", "x.example.com {\n\trespond hi\n}\n\ny.example.com {\n\treverse_proxy jellyfin:8096\n}\n")
	t.Setenv("NAMES", "one.example.com,\ntwo.example.com")
	for name, c := range map[string]struct{ text, before string }{ // what the zones are before
		"a brace below":              {"git.example.com # Forgejo\n{\n\treverse_proxy forgejo:3000\n}\n", "reverse_proxy"},
		"a brace below a comment":    {"git.example.com\n# {\n{\n\treverse_proxy forgejo:3000\n}\n", "reverse_proxy"},
		"continued addresses":        {"a.example.com \\\n\tgit.example.com {\n\treverse_proxy forgejo:3000\n}\n", "reverse_proxy"},
		"a named route":              {"&(app) {\n\treverse_proxy forgejo:3000\n}\ngit.example.com {\n\tinvoke app\n}\n", "invoke"},
		"a value with sites":         {"{$EXTRA}\nz.example.com {\n\tredir https://x.example.com\n}\n{$HOST:git.example.com} {\n\treverse_proxy forgejo:3000\n}\n", "reverse_proxy"},
		"a value with addresses":     {"{$EXTRA}\n{$NAMES} {\n\treverse_proxy forgejo:3000\n}\nz.example.com {\n\tredir https://x.example.com\n}\n", "reverse_proxy"},
		"a heredoc above the site":   {"w.example.com {\n\trespond <<END\n\tgit.example.com {\n\tEND 200\n}\ngit.example.com {\n\treverse_proxy forgejo:3000\n}\n", "reverse_proxy"},
		"a quoted word of two lines": {"w.example.com {\n\trespond \"a\nb\"\n}\ngit.example.com {\n\treverse_proxy forgejo:3000\n}\n", "reverse_proxy"},
	} {
		t.Run(name, func(t *testing.T) {
			file := write(t, filepath.Join(t.TempDir(), "Caddyfile"), c.text)
			out, err := ran(t, file, false, "--write")
			if err != nil {
				t.Fatal(err)
			}
			written := read(t, file)
			head, rest, _ := strings.Cut(written, "\trate_limit {\n")
			zones, tail, _ := strings.Cut(rest, "\n\t}\n")
			if head+tail != c.text || !strings.HasPrefix(tail, "\t"+c.before) || strings.Count(zones, "zone ") != 3 {
				t.Errorf("the file is\n%s", written)
			}
			if strings.Contains(c.text, "{$EXTRA}") {
				wantSays(t, out, "Added 3 zones", "nor are values of the environment", "zone y_example_com_login {")
			}
			if _, _, _, err := caddycmd.LoadConfig(file, "caddyfile"); err != nil {
				t.Error(err)
			}
		})
	}
}

// The copy of an imported file isn't imported.
func TestWriteOfAnImportedFile(t *testing.T) {
	folder := t.TempDir()
	file := write(t, filepath.Join(folder, "blog"), "blog.example.com {\n\treverse_proxy blog:80\n}\n")
	main := write(t, filepath.Join(t.TempDir(), "Caddyfile"), "import "+folder+"/*\n")
	for range 2 {
		if _, err := ran(t, file, false, "--write"); err != nil {
			t.Fatal(err)
		}
		if _, _, _, err := caddycmd.LoadConfig(main, "caddyfile"); err != nil {
			t.Error(err)
		}
		if _, err := ran(t, file, false, "--enforce"); err != nil {
			t.Fatal(err)
		}
		write(t, file, "blog.example.com {\n\treverse_proxy blog:80\n}\n")
	}
}

// Sites whose names differ in signs only each have their zones, also beside zones of these names.
func TestNamesOfZonesDiffer(t *testing.T) {
	const site = ".example.com {\n\treverse_proxy forgejo:3000\n}\n"
	out, err := ran(t, write(t, filepath.Join(t.TempDir(), "Caddyfile"), "a-b"+site+"a.b"+site+"a_b"+site+"c.example.com {\n\trate_limit {\n\t\tzone a_b_example_com_login {\n\t\t\tlimit 5/1m\n\t\t}\n\t}\n\treverse_proxy c:80\n}\n"), false)
	if err != nil {
		t.Fatal(err)
	}
	names := regexp.MustCompile(`zone (\S+)`).FindAllString(out, -1)
	if slices.Sort(names); len(names) != 9 || len(slices.Compact(names)) != 9 || slices.Contains(names, "zone a_b_example_com_login") {
		t.Errorf("the zones are %v in\n%s", names, out)
	}
}

// What a wildcard's matchers of hosts are for has zones of its own, so that wrong passwords at one program block
// no other.
func TestPartsOfAWildcard(t *testing.T) {
	file := write(t, filepath.Join(t.TempDir(), "Caddyfile"), `*.example.com {
	@cloud host cloud.example.com
	handle @cloud {
		reverse_proxy nextcloud:80
	}
	@auth {
		host auth.example.com
	}
	reverse_proxy @auth authelia:9091
	handle {
		reverse_proxy shop:80
	}
}
`)
	out, err := ran(t, file, false)
	if err != nil {
		t.Fatal(err)
	}
	blocks := strings.Split(out, "\t\tzone ")[1:]
	if len(blocks) != 5 {
		t.Errorf("%d zones in\n%s", len(blocks), out)
	}
	for _, block := range blocks {
		host := "not host cloud.example.com auth.example.com\n"
		if first, _, _ := strings.Cut(block, "_"); first != "example" {
			host = "\thost " + first + ".example.com\n"
		}
		if n := strings.Count(block, host); n == 0 || n != strings.Count(block, "match ") {
			t.Errorf("expected %q in each match of\n%s", host, block)
		}
	}
	if out, err = ran(t, file, false, "--write"); err != nil {
		t.Error(err)
	}
	wantSays(t, out, "Added 5 zones")
}

// Programs are known by whole words and ports.
func TestProgramsByWholeWords(t *testing.T) {
	for upstream, want := range map[string]string{
		"jellyfin:8096": "Jellyfin", "my-jellyfin-1:80": "Jellyfin", "127.0.0.1:8096": "Jellyfin", "[::1]:2283": "Immich", "nas.lan:2283": "Immich", "https://immich_server:2283": "Immich",
		"transmission:9091": "", "localhost:9091": "", "127.0.0.1:22830": "", "[fd00::8096]:80": "", "jellyfinder:80": "", "pushgateway:8096": "", "wordpressed:80": "",
	} {
		out, err := ran(t, write(t, filepath.Join(t.TempDir(), "Caddyfile"), "a.example.com {\n\treverse_proxy "+upstream+"\n}\n"), false)
		if err != nil {
			t.Fatal(err)
		}
		if want == "" {
			want = "since the program is unknown"
		}
		wantSays(t, out, want)
	}
}
