package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Every table can be written from the newest result that is kept, and the documents have it.
func TestDocumentsHaveTheTablesOfTheNewestResults(t *testing.T) {
	documents := make(map[string]string)
	for _, name := range []string{"../../docs/performance.md", "../../README.md"} {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		documents[name] = string(text)
	}
	t.Chdir("..")
	for _, p := range parts {
		file, text, err := p.newest()
		if err != nil {
			t.Errorf("%s: %v", p.name, err)
			continue
		}
		table, err := p.table(text)
		if err != nil {
			t.Errorf("%s: %v", file, err)
		}
		found := 0
		for name, document := range documents {
			if !strings.Contains(document, "<!-- "+p.name+" -->") {
				continue
			}
			if found++; !strings.Contains(document, table) || !strings.Contains(document, filepath.Base(file)) {
				t.Errorf("%s isn't of %s: run make performance FLAGS='-kept -only %s'", name, file, p.name)
			}
		}
		if found == 0 {
			t.Errorf("no document has the table %s", p.name)
		}
	}
}

func TestReplace(t *testing.T) {
	const document = "a\n\n<!-- x -->\nold\n<!-- end x -->\n\nb\n"
	if got, want := replace(document, "x", "new\n"), "a\n\n<!-- x -->\n\nnew\n\n<!-- end x -->\n\nb\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := replace(document, "y", "new\n"); got != document {
		t.Errorf("a table that the document doesn't have: got %q", got)
	}
}

// A line that is missing, or of a measurement that failed, is an error and no empty cell.
func TestTablesNeedAllLines(t *testing.T) {
	for _, p := range parts {
		if _, err := p.table("machine: 2 cores\n"); err == nil {
			t.Errorf("%s: no error for a result without lines", p.name)
		}
	}
	const line = "caddy  100  one-key  headers on  0.37 (0.35 to 0.37)  99.5 µs  36.5 µs  2.73  209 MiB  125 MiB  "
	if f, err := find(line, `caddy .* µs +([\d.]+) +(\d+) MiB +\d+ MiB`); err != nil || f[0] != "2.73" || f[1] != "209" {
		t.Errorf("got %v, %v", f, err)
	}
	if _, err := find(line+"VOID: the store couldn't be used", `caddy`); err == nil {
		t.Error("no error for a line that is void")
	}
}

func TestNumbers(t *testing.T) {
	for _, test := range []struct{ got, want string }{
		{thousands("2660"), "2,660"}, {thousands("60"), "60"}, {tenth("0.18"), "0.2"}, {tenth("14.23"), "14"},
		{number("%.2g", "0.07531"), "0.075"}, {number("%.0f", "47.2"), "47"},
	} {
		if test.got != test.want {
			t.Errorf("got %s, want %s", test.got, test.want)
		}
	}
}
