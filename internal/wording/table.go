package wording

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// Style is the look of a text if colors are shown.
type Style string

// The styles; the zero value is plain.
const (
	Bold   Style = "1"
	Red    Style = "31"
	Green  Style = "32"
	Yellow Style = "33"
)

// In returns a text with a terminal's escape codes for the style.
func (s Style) In(text string, look Look) string {
	if !look.Colored || s == "" || text == "" {
		return text
	}
	return "\x1b[" + string(s) + "m" + text + "\x1b[0m"
}

// Figure is a cell with a number.
func Figure(n int64) Cell { return Cell{Text: Number(n), Right: true} }

// Look is what a terminal shows. The zero value is for files and programs.
type Look struct {
	Colored bool
	Width   int // the characters of a line; 0 for any number
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
	Short string // replaces a text that doesn't fit
	Whole bool   // a part of it is of no use: it stands above its row instead of being cut
	Style Style
	Right bool // aligned to the right and never cut, as numbers are
}

// WriteTable writes a table with heads of columns. It omits columns without any text, and fits lines to the
// look.
func WriteTable(w io.Writer, look Look, heads []string, body [][]Cell) {
	rows := make([][]Cell, 1, 1+len(body))
	for _, head := range heads {
		rows[0] = append(rows[0], Cell{Text: head, Style: Bold})
	}
	rows = append(rows, body...)
	forEach(rows, func(n, i int) {
		c := &rows[n][i]
		c.Text, c.Short = Printable(c.Text, ""), Printable(c.Short, "")
	})
	widths, above := fit(rows, look.Width)
	for i, row := range rows {
		for _, text := range above[i] {
			fmt.Fprintln(w, text)
		}
		if line := strings.TrimRight(lineOf(row, rows, widths, look), " "); line != "" {
			fmt.Fprintln(w, line)
		}
	}
}

// widthsOf returns the widths of columns, and the least ones; 0 for a column that only has a head.
func widthsOf(rows [][]Cell) (widths, least []int) {
	widths, least = make([]int, len(rows[0])), make([]int, len(rows[0]))
	for i, head := range rows[0] {
		for _, row := range rows[1:] {
			widths[i] = max(widths[i], utf8.RuneCountInString(row[i].Text))
		}
		if least[i] = widths[i]; !isRight(rows, i) {
			least[i] = min(least[i], narrowest)
		}
		if widths[i] > 0 {
			widths[i] = max(widths[i], utf8.RuneCountInString(head.Text))
		}
	}
	return widths, least
}

// narrowest is the least width of a column of texts that is narrowed.
const narrowest = 5

// fit narrows columns, the widest first, until lines have a width. It returns the widths of columns, and the
// texts that stand above rows.
func fit(rows [][]Cell, width int) (widths []int, above [][]string) {
	above = make([][]string, len(rows))
	widths, _ = widthsOf(rows)
	if width <= 0 || lineWidth(widths) <= width {
		return widths, above
	}
	shorten := func(n, i, most int, cut bool) {
		c := &rows[n][i]
		switch {
		case utf8.RuneCountInString(c.Text) <= most:
		case c.Short != "" && len(c.Short) <= most:
			c.Text = c.Short
		case c.Whole:
			above[n] = append(above[n], c.Text)
			c.Text = ""
		case cut:
			c.Text = string([]rune(c.Text)[:max(most-1, 0)]) + "…"
		}
	}
	forEach(rows, func(n, i int) { shorten(n, i, width/2, false) }) // leaves more room to the others
	widths, least := widthsOf(rows)
	for lineWidth(widths) > width {
		widest, most := -1, 0
		for i, w := range widths {
			if rows[len(rows)-1][i].Whole {
				w = (w + 1) / 2 // the others make room first
			}
			if widths[i] > least[i] && w > most {
				widest, most = i, w
			}
		}
		if widest < 0 {
			break
		}
		widths[widest]--
	}
	forEach(rows, func(n, i int) { shorten(n, i, widths[i], true) })
	widths, _ = widthsOf(rows)
	return widths, above
}

// forEach calls f with the row and the column of each cell.
func forEach(rows [][]Cell, f func(n, i int)) {
	for n, row := range rows {
		for i := range row {
			f(n, i)
		}
	}
}

// lineWidth returns the width of a line with columns of some widths.
func lineWidth(widths []int) (sum int) {
	for _, w := range widths {
		if w > 0 {
			sum += w + len(gap)
		}
	}
	return sum - len(gap)
}

// gap is between columns.
const gap = "  "

// isRight reports whether a column is aligned to the right.
func isRight(rows [][]Cell, i int) bool { return len(rows) > 1 && rows[1][i].Right }

// lineOf returns a line of a table.
func lineOf(row []Cell, rows [][]Cell, widths []int, look Look) string {
	var line strings.Builder
	for i, c := range row {
		if widths[i] == 0 {
			continue
		}
		if line.Len() > 0 {
			line.WriteString(gap)
		}
		padding := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(c.Text))
		if isRight(rows, i) {
			line.WriteString(padding + c.Style.In(c.Text, look))
		} else {
			line.WriteString(c.Style.In(c.Text, look) + padding)
		}
	}
	return line.String()
}
