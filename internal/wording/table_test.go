package wording

import (
	"bytes"
	"strings"
	"testing"
)

// row returns a row of a test's table.
func row(name string, n int64, short string) []Cell {
	return []Cell{{Text: name}, {}, {Text: Number(n), Style: Red, Right: true}, {Text: name, Whole: true, Short: short}}
}

func TestTables(t *testing.T) {
	x := strings.Repeat("x", 30)
	for _, tt := range []struct {
		name string
		look Look
		rows [][]Cell
		want string
	}{
		{"nothing is cut without a width", Look{}, [][]Cell{row("ü", 1234, ""), row("a\nb", 0, ""), row(x, 5, "")},
			"NAME" + strings.Repeat(" ", 26) + "      N  LAST\n" +
				"ü" + strings.Repeat(" ", 29) + "  1,234  ü\n" +
				`a\nb` + strings.Repeat(" ", 26) + `      0  a\nb` + "\n" +
				x + "      5  " + x + "\n"},
		{"a whole text stands above its row", Look{Width: 30}, [][]Cell{row("y", 1234, ""), row(x, 5, "")},
			"NAME                   N  LAST\ny                  1,234  y\n" + x + "\nxxxxxxxxxxxxxxxx…      5\n"},
		{"a short text replaces a long one", Look{Width: 34}, [][]Cell{row(x, 5, "tag")},
			"NAME                       N  LAST\n" + x[:24] + "…  5  tag\n"},
		{"numbers are whole", Look{Width: 12}, [][]Cell{row(x, 1234567, "")}, "NAME           N\n" + x + "\nxxxx…  1,234,567\n"},
		{"colors", Look{Colored: true}, [][]Cell{row("", 7, "")}, "\x1b[1mN\x1b[0m\n\x1b[31m7\x1b[0m\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			out := new(bytes.Buffer)
			WriteTable(out, tt.look, []string{"NAME", "NONE", "N", "LAST"}, tt.rows)
			if out.String() != tt.want {
				t.Errorf("got\n%swant\n%s", out, tt.want)
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
