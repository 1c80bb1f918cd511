package sqlite

import (
	"fmt"
	"strings"
)

// sizes are the numbers of rows that one prepared statement reads or writes.
var sizes = [...]int{16, 4, 1}

// sized is one statement in each of the sizes.
type sized [len(sizes)]*stmt

// prepareSized prepares a statement in each size. query returns it for n rows. It has some arguments for each row, and
// then others.
func (c *conn) prepareSized(to *sized, query func(n int) string, each, others, columns int) (err error) {
	for i, n := range sizes {
		if to[i], err = c.prepare(query(n), each*n+others, columns); err != nil {
			return err
		}
	}
	return nil
}

// tuples returns n tuples of a VALUES clause. In the format, %d stands for the index of the tuple.
func tuples(n int, format string) string {
	parts := make([]string, n)
	for i := range parts {
		parts[i] = format
		if strings.Contains(format, "%d") {
			parts[i] = fmt.Sprintf(format, i)
		}
	}
	return strings.Join(parts, ", ")
}

// smallest returns the index of the smallest size that holds n rows, or of the largest size.
func smallest(n int) int {
	i := 0
	for i+1 < len(sizes) && sizes[i+1] >= n {
		i++
	}
	return i
}

// largest returns the index of the largest size that is at most n.
func largest(n int) int {
	i := 0
	for sizes[i] > n {
		i++
	}
	return i
}

// inSizes writes n rows with statements of the sizes. bind binds the nth row as one row of a statement.
func inSizes(statements *sized, n int, bind func(s *stmt, row, n int)) error {
	for done := 0; done < n; {
		i := largest(n - done)
		for row := range sizes[i] {
			bind(statements[i], row, done+row)
		}
		if err := statements[i].run(); err != nil {
			return err
		}
		done += sizes[i]
	}
	return nil
}

// groups yields the bounds of the cells of each limit.
func groups(cells []cell) func(yield func(from, to int) bool) {
	return func(yield func(from, to int) bool) {
		for from := 0; from < len(cells); {
			to := from + 1
			for to < len(cells) && cells[to].id == cells[from].id {
				to++
			}
			if !yield(from, to) {
				return
			}
			from = to
		}
	}
}
