package console

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/caddy-tally/caddy-tally/internal/wording"
)

// style is the look of a text if colors are shown.
type style string

const (
	plain  style = ""
	bold   style = "1"
	red    style = "31"
	green  style = "32"
	yellow style = "33"
)

// cell is a text of a table.
type cell struct {
	text  string
	style style
	right bool // aligned to the right, as numbers are
	whole bool // never cut
}

func text(s string) cell { return cell{text: s} }

func figure(n int64) cell { return cell{text: wording.Number(n), right: true} }

// alarm is a number in red unless it is 0.
func alarm(n int64) cell {
	c := figure(n)
	if n > 0 {
		c.style = red
	}
	return c
}

// column is a column of a table of values.
type column[T any] struct {
	head string
	cell func(T) cell
}

// writeTable writes a table with a row for each value. It omits columns without any text, and cuts
// long texts except references and those in the last column.
func writeTable[T any](w io.Writer, colored bool, columns []column[T], values []T) {
	rows := [][]cell{nil}
	for _, c := range columns {
		rows[0] = append(rows[0], cell{text: c.head, style: bold})
	}
	for _, v := range values {
		row := make([]cell, len(columns))
		for i, c := range columns {
			row[i] = c.cell(v)
			row[i].text = printable(row[i].text)
			if i < len(columns)-1 && !row[i].whole {
				row[i].text = shortened(row[i].text)
			}
		}
		rows = append(rows, row)
	}
	widths := widthsOf(rows)
	for _, row := range rows {
		fmt.Fprintln(w, strings.TrimRight(rowText(row, rows, widths, colored), " "))
	}
}

// widthsOf returns the widths of columns; 0 for a column that only has a head.
func widthsOf(rows [][]cell) []int {
	widths := make([]int, len(rows[0]))
	for i, head := range rows[0] {
		for _, row := range rows[1:] {
			widths[i] = max(widths[i], utf8.RuneCountInString(row[i].text))
		}
		if widths[i] > 0 {
			widths[i] = max(widths[i], len(head.text))
		}
	}
	return widths
}

// rowText returns a line of a table.
func rowText(row []cell, rows [][]cell, widths []int, colored bool) string {
	var line strings.Builder
	for i, c := range row {
		if widths[i] == 0 {
			continue
		}
		if line.Len() > 0 {
			line.WriteString("  ")
		}
		padding := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(c.text))
		if right := len(rows) > 1 && rows[1][i].right; right {
			line.WriteString(padding + styled(c.text, c.style, colored))
		} else {
			line.WriteString(styled(c.text, c.style, colored) + padding)
		}
	}
	return line.String()
}

// styled returns a text with a terminal's escape codes for a style.
func styled(text string, s style, colored bool) string {
	if !colored || s == plain || text == "" {
		return text
	}
	return "\x1b[" + string(s) + "m" + text + "\x1b[0m"
}
