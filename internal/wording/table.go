package wording

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"unicode/utf8"
)

// Style is the look of a text if colors are shown, as two digits of a terminal's escape code.
type Style string

// The styles; the zero value is plain.
const (
	Bold   Style = "01"
	Red    Style = "31"
	Green  Style = "32"
	Yellow Style = "33"
	plain  Style = "39"
)

const reset = "\x1b[0m"

func (s Style) code() string { return "\x1b[" + string(s) + "m" }

// In returns a text with a terminal's escape codes for the style.
func (s Style) In(text string, look Look) string {
	if !look.Colored || s == "" || text == "" {
		return text
	}
	return s.code() + text + reset
}

// Figure is a cell with a number.
func Figure(n int64) Cell { return Cell{Text: Number(n), Right: true} }

// Look is what a terminal shows. The zero value is for files and programs.
type Look struct {
	Colored bool
	Width   int // the characters of a line of sentences; 0 for any number
}

// Wrapped breaks a text at spaces where it is wider than the look, and indents what follows.
func (l Look) Wrapped(text string) string {
	rest := strings.TrimLeft(text, " ")
	indent := text[:len(text)-len(rest)]
	line, lines := "", ""
	for i, word := range strings.Split(rest, " ") {
		switch {
		case i == 0:
			line = indent + word
		case l.Width > 0 && utf8.RuneCountInString(line+word) >= l.Width:
			line, lines = indent+"  "+word, lines+line+"\n"
		default:
			line += " " + word
		}
	}
	return lines + line
}

// Cell is a text of a table.
type Cell struct {
	Text  string
	Style Style
	Right bool // aligned to the right, as numbers are
}

// WriteTable writes a table with heads of columns, if there are any. It omits columns without any text.
func WriteTable(w io.Writer, look Look, heads []string, body [][]Cell) {
	widths := make([]int, len(heads))
	top := make([]Cell, len(heads))
	for i, head := range heads {
		top[i] = Cell{Text: head, Style: Bold}
		for _, row := range body {
			row[i].Text = Printable(row[i].Text, "")
			widths[i] = max(widths[i], utf8.RuneCountInString(row[i].Text))
		}
		if widths[i] > 0 {
			widths[i] = max(widths[i], len(head))
		}
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	writeRow := func(row []Cell) {
		var texts []string
		for i, c := range row {
			if widths[i] == 0 {
				continue
			}
			if body[0][i].Right {
				c.Text = fmt.Sprintf("%*s", widths[i], c.Text)
			}
			if look.Colored { // also plain texts: escape codes count for the width, so each cell has the same number
				c.Text = cmp.Or(c.Style, plain).code() + c.Text + reset
			}
			texts = append(texts, c.Text)
		}
		fmt.Fprintln(table, strings.Join(texts, "\t"))
	}
	if strings.Join(heads, "") != "" && len(body) > 0 {
		writeRow(top)
	}
	for _, row := range body {
		writeRow(row)
	}
	table.Flush()
}
