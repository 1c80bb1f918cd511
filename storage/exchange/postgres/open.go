package postgres

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/caddy-tally/caddy-tally/internal/dsn"
	"github.com/caddy-tally/caddy-tally/storage/exchange"
)

const example = "exchange postgres postgres://user:{env.PG_PASSWORD}@host:5432/database"

// server says how to connect to a server.
type server struct {
	dsn    string
	config *pgx.ConnConfig
}

// parse parses an address. Its errors don't show the address, because any part of it may be a password.
func parse(text string) (s server, err error) {
	config, err := pgx.ParseConfig(text)
	if err == nil {
		s = server{text, config}
	}
	if err != nil || dsn.IsSplit(text, s.place()) {
		return s, dsn.Unreadable(err, example)
	}
	// behind PgBouncer, prepared statements don't exist on the next connection
	config.DefaultQueryExecMode = pgx.QueryExecModeExec
	return s, nil
}

// as returns the server with another user and password.
func (s server) as(user, password string) server {
	s.config = s.config.Copy()
	s.config.User, s.config.Password = user, password
	return s
}

// place returns the hosts and the database.
func (s server) place() string { return dsn.Address(&s.config.Config) }

// version is the version of the tables, and of the oldest ones that are used. Older ones are replaced by empty
// ones: each region publishes its counts again.
const version = 2

// lock is the number of the advisory lock under which tables are created and changes are numbered.
const lock = 0x7461_6c6c_7965_7863 // "tallyexc"

// undefinedTable is Postgres' error code.
const undefinedTable = "42P01"

func (s server) open(ctx context.Context) (exchange.Exchange, error) {
	db, err := s.connect(ctx)
	if err != nil {
		return nil, err
	}
	if err := db.prepare(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("postgres: %w", err), db.Close())
	}
	return db, nil
}

func (s server) connect(ctx context.Context) (*database, error) {
	conn, err := pgx.ConnectConfig(ctx, s.config.Copy())
	if err != nil {
		return nil, fmt.Errorf("postgres: %w", err)
	}
	return &database{conn: conn}, nil
}

// prepare creates the tables if there are none, and checks their version.
func (db *database) prepare(ctx context.Context) error {
	err := db.readMeta(ctx)
	if code := (*pgconn.PgError)(nil); errors.As(err, &code) && code.Code == undefinedTable ||
		errors.Is(err, errOlder) {
		if err = db.makeTables(ctx); err == nil {
			err = db.readMeta(ctx)
		}
	}
	return err
}

func (db *database) readMeta(ctx context.Context) error {
	var found int
	err := db.conn.QueryRow(ctx, `SELECT version, id FROM tally_exchange_meta`).Scan(&found, &db.id)
	switch {
	case err == nil && found < version:
		err = errOlder
	case err == nil && found != version:
		err = fmt.Errorf("%w: the tables tally_exchange_* have version %d, expected %d", exchange.ErrForeign,
			found, version)
	}
	return err
}

// errOlder says that the tables have an older version.
var errOlder = fmt.Errorf("%w: the tables tally_exchange_* have an older version", exchange.ErrForeign)

// makeTables creates the tables, unless another machine did meanwhile, and drops older ones.
func (db *database) makeTables(ctx context.Context) error {
	return db.within(ctx, pgx.TxOptions{}, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock($1)`, int64(lock)); err != nil {
			return err
		}
		for _, statement := range []string{
			fmt.Sprintf(`DO $$ BEGIN
				IF to_regclass('tally_exchange_meta') IS NOT NULL THEN
					IF (SELECT version < %d FROM tally_exchange_meta) THEN
						DROP TABLE tally_exchange_meta, tally_exchange_counts, tally_exchange_bans, tally_exchange_members;
						DROP SEQUENCE tally_exchange_seq;
					END IF;
				END IF;
			END $$`, version),
			`CREATE TABLE IF NOT EXISTS tally_exchange_meta (one boolean PRIMARY KEY DEFAULT true CHECK (one), version int NOT NULL, id bigint NOT NULL)`,
			`CREATE SEQUENCE IF NOT EXISTS tally_exchange_seq`,
			`CREATE TABLE IF NOT EXISTS tally_exchange_counts (
				limit_id bigint NOT NULL, key bytea NOT NULL, grp bigint NOT NULL, region text NOT NULL, machine bigint NOT NULL,
				units bigint NOT NULL, expires bigint NOT NULL, seq bigint NOT NULL,
				PRIMARY KEY (limit_id, key, grp, region, machine)) WITH (fillfactor = 80)`,
			`CREATE INDEX IF NOT EXISTS tally_exchange_counts_seq ON tally_exchange_counts (seq)`,
			`CREATE INDEX IF NOT EXISTS tally_exchange_counts_expires ON tally_exchange_counts (expires)`,
			`CREATE TABLE IF NOT EXISTS tally_exchange_bans (
				key bytea NOT NULL, region text NOT NULL, at bigint NOT NULL, until bigint NOT NULL, lifted bigint NOT NULL, keep bigint NOT NULL,
				seq bigint NOT NULL, PRIMARY KEY (key, region))`,
			`CREATE INDEX IF NOT EXISTS tally_exchange_bans_seq ON tally_exchange_bans (seq)`,
			`CREATE INDEX IF NOT EXISTS tally_exchange_bans_keep ON tally_exchange_bans (keep)`,
			`CREATE TABLE IF NOT EXISTS tally_exchange_members (
				region text NOT NULL, machine bigint NOT NULL, now bigint NOT NULL, seen timestamptz NOT NULL,
				secret bytea NOT NULL, store bytea NOT NULL, gone boolean NOT NULL,
				PRIMARY KEY (region, machine))`,
		} {
			if _, err := tx.Exec(ctx, statement); err != nil {
				return err
			}
		}
		_, err := tx.Exec(ctx, `INSERT INTO tally_exchange_meta (version, id) VALUES ($1, $2) ON CONFLICT DO NOTHING`,
			int32(version), rand.Int64())
		return err
	})
}
