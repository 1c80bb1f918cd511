package store

import (
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"
)

// fault is the meaning of an error.
type fault int

// What an error may mean.
const (
	failed  fault = iota // anything else
	broken               // the connection ended
	busy                 // others hold locks, or have inserted a row: the transaction can be retried
	missing              // there is no such table or column
)

// faults has the meanings of SQLSTATE codes, and remedies. The codes are in the appendix "PostgreSQL
// Error Codes" of its manual.
var faults = map[string]struct {
	fault  fault
	remedy string
}{
	"23505": {busy, ""}, // unique_violation
	"40001": {busy, ""}, // serialization_failure
	"40P01": {busy, ""}, // deadlock_detected
	"55P03": {busy, ""}, // lock_not_available
	"42P01": {missing, ""},
	"42703": {missing, ""},
	"3F000": {failed, "make the schema, or choose another prefix"},
	"3D000": {failed, "make the database"},
	"42501": {failed, "GRANT USAGE, CREATE ON SCHEMA to the role so that it can make the tables, or GRANT SELECT, INSERT, UPDATE, DELETE ON the tables of another role"},
	"25006": {failed,
		"the server is read-only: name the primary, or several hosts and target_session_attrs=read-write"},
	"28P01": {failed, "correct the password"},
	"28000": {failed,
		"the server lets nobody in from here with this user, database and encryption: see its pg_hba.conf"},
	"53100": {failed, "the server's disk is full"},
	"53300": {failed, "each Caddy takes two connections: raise max_connections, or put a pooler between"},
}

// explain returns the meaning of an error, and adds a remedy. A connection that ended, or could not be
// made, is broken.
func explain(err error) (fault, error) {
	answer := (*pgconn.PgError)(nil)
	if !errors.As(err, &answer) {
		return broken, err
	}
	known := faults[answer.Code]
	if known.remedy != "" {
		err = fmt.Errorf("%w; %s", err, known.remedy)
	}
	if answer.Severity == "FATAL" || answer.Severity == "PANIC" {
		if connecting := (*pgconn.ConnectError)(nil); !errors.As(err, &connecting) {
			known.fault = broken // in the middle of a session
		}
	}
	return known.fault, err
}
