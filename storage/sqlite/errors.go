package sqlite

import (
	"errors"
	"fmt"

	"github.com/caddy-tally/caddy-tally/storage"
)

// Result codes of SQLite that matter here (https://www.sqlite.org/rescode.html). The low byte of an
// extended code is the primary one.
const (
	codeError      = 1
	codeBusy       = 5
	codeLocked     = 6
	codeReadonly   = 8
	codeCorrupt    = 11
	codeFull       = 13
	codeConstraint = 19
	codeNotADB     = 26
)

// code returns the primary result code of a driver's error, 0 if it has none.
func code(err error) int {
	var coded interface{ Code() int }
	if errors.As(err, &coded) {
		return coded.Code() & 0xff
	}
	return 0
}

func isBusy(err error) bool {
	c := code(err)
	return c == codeBusy || c == codeLocked
}

// wrap turns an error of the driver into one of the contract: it adds the failed operation and, for
// damage, wraps [storage.ErrCorrupt].
func wrap(doing string, err error) error {
	if err == nil {
		return nil
	}
	switch code(err) {
	// A constraint fails if a row exists that a search didn't find: it is in the wrong place.
	case codeCorrupt, codeNotADB, codeConstraint:
		if !errors.Is(err, storage.ErrCorrupt) {
			return fmt.Errorf("sqlite: %s: %w: %w", doing, storage.ErrCorrupt, err)
		}
	case codeReadonly:
		return fmt.Errorf("sqlite: %s: the database or its folder may not be written to: %w", doing, err)
	case codeFull:
		return fmt.Errorf("sqlite: %s: the disk is full or the database has reached its maximum size: %w", doing, err)
	}
	return fmt.Errorf("sqlite: %s: %w", doing, err)
}

// errDamaged says that a value in the database is not of the expected kind.
func errDamaged(what string) error {
	return fmt.Errorf("%w: %s", storage.ErrCorrupt, what)
}
