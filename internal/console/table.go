package console

import (
	"io"

	"github.com/caddy-tally/caddy-tally/internal/wording"
)

const (
	red    = wording.Red
	green  = wording.Green
	yellow = wording.Yellow
)

type cell = wording.Cell

// column is a column of a table of values.
type column[T any] struct {
	head string
	cell func(T) cell
}

func text(s string) cell { return cell{Text: s} }

func figure(n int64) cell { return wording.Figure(n) }

// seldom is a number, or nothing for 0: a column without any is omitted.
func seldom(n int64) cell {
	if n == 0 {
		return cell{Right: true}
	}
	return figure(n)
}

// alarm is a number in red unless it is 0.
func alarm(n int64) cell {
	c := figure(n)
	if n > 0 {
		c.Style = wording.Red
	}
	return c
}

// writeTable writes a table with a row for each value.
func writeTable[T any](w io.Writer, look wording.Look, columns []column[T], values []T) {
	heads, rows := make([]string, len(columns)), make([][]cell, len(values))
	for i, c := range columns {
		heads[i] = c.head
		for n, v := range values {
			rows[n] = append(rows[n], c.cell(v))
		}
	}
	wording.WriteTable(w, look, heads, rows)
}
