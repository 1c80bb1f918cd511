package wording

import (
	"bytes"
	"testing"
)

// row returns a row of a test's table.
func row(name string, n int64) []Cell {
	return []Cell{{Text: name}, {}, {Text: Number(n), Style: Red, Right: true}, {Text: name}}
}

func TestTables(t *testing.T) {
	heads := []string{"NAME", "NONE", "N", "LAST"}
	for _, tt := range []struct {
		name  string
		look  Look
		heads []string
		rows  [][]Cell
		want  string
	}{
		{"nothing is cut", Look{Width: 10}, heads, [][]Cell{row("ü", 1234), row("a\nb\t", 0), row("x", 5)},
			"NAME        N  LAST\n" + "ü       1,234  ü\n" + `a\nb\t      0  a\nb\t` + "\n" + "x           5  x\n"},
		{"colors", Look{Colored: true}, heads, [][]Cell{row("a", 7), row("bb", 1000)},
			"\x1b[01mNAME\x1b[0m  \x1b[01m    N\x1b[0m  \x1b[01mLAST\x1b[0m\n" +
				"\x1b[39ma\x1b[0m     \x1b[31m    7\x1b[0m  \x1b[39ma\x1b[0m\n" +
				"\x1b[39mbb\x1b[0m    \x1b[31m1,000\x1b[0m  \x1b[39mbb\x1b[0m\n"},
		{"no heads", Look{}, make([]string, 4), [][]Cell{row("a", 7)}, "a  7  a\n"},
		{"no rows", Look{}, heads, nil, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			out := new(bytes.Buffer)
			WriteTable(out, tt.look, tt.heads, tt.rows)
			if out.String() != tt.want {
				t.Errorf("got\n%q want\n%q", out, tt.want)
			}
		})
	}
}

func TestWrapped(t *testing.T) {
	for text, want := range map[string]string{
		"":                        "",
		"one two":                 "one two",
		"one two three":           "one two\n  three",
		"  one two three four":    "  one two\n    three\n    four",
		"éééé ééé éé":             "éééé ééé\n  éé",
		"exactly ten":             "exactly\n  ten",
		"0123456789 x":            "0123456789\n  x",
		"0123456789abc":           "0123456789abc",
		"0123456789abc x":         "0123456789abc\n  x",
		"a 0123456789abc 0123456": "a\n  0123456789abc\n  0123456",
	} {
		if got := (Look{Width: 10}).Wrapped(text); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
		if got := (Look{}).Wrapped(text); got != text {
			t.Errorf("%q without a width: got %q", text, got)
		}
	}
}
