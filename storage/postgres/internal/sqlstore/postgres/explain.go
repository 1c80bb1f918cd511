package postgres

import (
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/caddy-tally/caddy-tally/storage/postgres/internal/sqlstore"
)

// faults has the meanings of SQLSTATE codes, and remedies. The codes are in the appendix "PostgreSQL
// Error Codes" of its manual.
var faults = map[string]struct {
	fault  sqlstore.Fault
	remedy string
}{
	"23505": {sqlstore.Busy, ""}, // unique_violation
	"40001": {sqlstore.Busy, ""}, // serialization_failure
	"40P01": {sqlstore.Busy, ""}, // deadlock_detected
	"55P03": {sqlstore.Busy, ""}, // lock_not_available
	"42P01": {sqlstore.Missing, ""},
	"42703": {sqlstore.Missing, ""},
	"3F000": {sqlstore.Failed, "make the schema, or choose another prefix"},
	"3D000": {sqlstore.Failed, "make the database"},
	"42501": {sqlstore.Failed, "GRANT USAGE, CREATE ON SCHEMA to the role so that it can make the tables, or GRANT SELECT, INSERT, UPDATE, DELETE ON the tables of another role"},
	"25006": {sqlstore.Failed,
		"the server is read-only: name the primary, or several hosts and target_session_attrs=read-write"},
	"28P01": {sqlstore.Failed, "correct the password"},
	"28000": {sqlstore.Failed,
		"the server lets nobody in from here with this user, database and encryption: see its pg_hba.conf"},
	"53100": {sqlstore.Failed, "the server's disk is full"},
	"53300": {sqlstore.Failed, "each Caddy takes two connections: raise max_connections, or put a pooler between"},
}

// explain returns the meaning of an error, and adds a remedy. A connection that ended, or could not be
// made, is broken.
func explain(err error) (sqlstore.Fault, error) {
	answer := (*pgconn.PgError)(nil)
	if !errors.As(err, &answer) {
		return sqlstore.Broken, err
	}
	known := faults[answer.Code]
	if known.remedy != "" {
		err = fmt.Errorf("%w; %s", err, known.remedy)
	}
	if answer.Severity == "FATAL" || answer.Severity == "PANIC" {
		if connecting := (*pgconn.ConnectError)(nil); !errors.As(err, &connecting) {
			known.fault = sqlstore.Broken // in the middle of a session
		}
	}
	return known.fault, err
}
