package store

import (
	"encoding/hex"
	"fmt"
	"strconv"
)

const (
	// serverClock is the server's time at the beginning of a statement, or later, in nanoseconds since the
	// Unix epoch.
	serverClock raw = "(EXTRACT(EPOCH FROM clock_timestamp()) * 1000000)::BIGINT * 1000"
	// orKeep follows the rows of an INSERT into a table with a key. It locks existing rows and doesn't
	// change them.
	orKeep raw = "ON CONFLICT DO NOTHING"
)

// script has statements that are sent together.
type script struct {
	place *Place
	sql   []byte
}

// table is a table of the store, by its name without the prefix.
type table string

// raw is text in SQL.
type raw string

// add appends parts of statements: strings are SQL, a table is its name, and numbers and bytes
// are literals.
func (s *script) add(parts ...any) *script {
	for _, part := range parts {
		switch part := part.(type) {
		case string:
			s.sql = append(s.sql, part...)
		case raw:
			s.sql = append(s.sql, part...)
		case table:
			s.sql = append(append(s.sql, s.place.prefix...), part...)
		case int64:
			s.sql = strconv.AppendInt(s.sql, part, 10)
		case int:
			s.sql = strconv.AppendInt(s.sql, int64(part), 10)
		case []byte:
			s.literal(part)
		default:
			panic(fmt.Sprintf("store: %T is no part of a statement", part))
		}
	}
	return s
}

func (s *script) literal(value []byte) {
	s.sql = append(s.sql, `E'\\x`...)
	s.sql = append(hex.AppendEncode(s.sql, value), '\'')
}

// list appends a list of literals in parentheses. There must be at least one.
func (s *script) list(names []string) *script {
	s.add("(")
	s.joined(len(names), func(i int) { s.literal([]byte(names[i])) })
	return s.add(")")
}

// joined appends n parts, with commas between them.
func (s *script) joined(n int, add func(i int)) {
	for i := range n {
		if i > 0 {
			s.sql = append(s.sql, ", "...)
		}
		add(i)
	}
}

// end ends a statement.
func (s *script) end() *script { return s.add("; ") }

// number parses a number. NULL is 0.
func number(value []byte) (int64, error) {
	if value == nil {
		return 0, nil
	}
	n, err := strconv.ParseInt(string(value), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%q is no number", value)
	}
	return n, nil
}

// numbers parses the first numbers of a row.
func numbers(row [][]byte, to ...*int64) (err error) {
	if len(row) < len(to) {
		return fmt.Errorf("a row has %d columns, expected %d", len(row), len(to))
	}
	for i := range to {
		if *to[i], err = number(row[i]); err != nil {
			return err
		}
	}
	return nil
}
