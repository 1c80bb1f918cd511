package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/caddy-tally/caddy-tally/limiter/region"
	"github.com/caddy-tally/caddy-tally/storage"
	"github.com/caddy-tally/caddy-tally/storage/exchange"
)

// database is an exchange in tables, with a connection of its own. It implements
// [exchange.Exchange].
type database struct {
	conn *pgx.Conn
	id   int64 // of the exchange
}

// within runs f in a transaction.
func (db *database) within(ctx context.Context, options pgx.TxOptions, f func(pgx.Tx) error) error {
	return pgx.BeginTxFunc(ctx, db.conn, options, f)
}

// Meet implements [exchange.Exchange].
func (db *database) Meet(ctx context.Context, m exchange.Member) (met exchange.Met, err error) {
	if met, err = db.meet(ctx, m); err != nil {
		return met, fmt.Errorf("postgres: %w", err)
	}
	return met, nil
}

func (db *database) meet(ctx context.Context, m exchange.Member) (met exchange.Met, err error) {
	if err = db.readMeta(ctx); err != nil {
		return met, err
	}
	met.ID = db.id
	err = db.conn.QueryRow(ctx, `INSERT INTO tally_exchange_members AS t (region, machine, now, seen, secret, store, gone) VALUES ($1, $2, $3, clock_timestamp(), $4, $5, false)
		ON CONFLICT (region, machine) DO UPDATE SET now = excluded.now, seen = excluded.seen, secret = excluded.secret, store = excluded.store, gone = false
		RETURNING `+nanoseconds(`seen`), m.Region, m.Machine, m.Now, m.Secret[:], m.Database[:]).Scan(&met.Now)
	if err != nil {
		return met, err
	}
	if err = db.conn.QueryRow(ctx, `SELECT last_value FROM tally_exchange_seq`).Scan(&met.Seq); err != nil {
		return met, err
	}
	rows, err := db.conn.Query(ctx, `SELECT region, secret, store, count(*) FILTER (WHERE present), count(*) FILTER (WHERE NOT present AND NOT gone),
			(extract(epoch FROM clock_timestamp() - max(seen)) * 1000)::bigint,
			coalesce(max(ahead) FILTER (WHERE present), 0), coalesce(min(ahead) FILTER (WHERE present), 0)
		FROM (SELECT *, NOT gone AND seen > clock_timestamp() - $1::bigint * interval '1 millisecond' AS present, now - `+nanoseconds(`seen`)+` AS ahead
			FROM tally_exchange_members) AS m
		GROUP BY region, secret, store ORDER BY region COLLATE "C", secret, store`, m.Patience.Milliseconds())
	if err != nil {
		return met, err
	}
	met.Neighbors, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (n exchange.Neighbor, err error) {
		var secret, store []byte
		var machines, gone, milliseconds, ahead, behind int64
		err = row.Scan(&n.Region, &secret, &store, &machines, &gone, &milliseconds, &ahead, &behind)
		copy(n.Secret[:], secret)
		copy(n.Database[:], store)
		n.Machines, n.Gone, n.Lag = int(machines), int(gone), max(time.Duration(milliseconds)*time.Millisecond, 0)
		if n.Ahead = time.Duration(ahead); ahead < -behind {
			n.Ahead = time.Duration(behind)
		}
		return n, err
	})
	if err != nil {
		return met, err
	}
	rows, err = db.conn.Query(ctx, `SELECT machine FROM tally_exchange_members
		WHERE region = $1 AND NOT gone AND seen > clock_timestamp() - interval '30 seconds' ORDER BY machine`, m.Region)
	if err != nil {
		return met, err
	}
	met.Machines, err = pgx.CollectRows(rows, pgx.RowTo[int64])
	return met, err
}

// nanoseconds converts a time in SQL to nanoseconds since the Unix epoch.
func nanoseconds(timestamp string) string {
	return `(extract(epoch FROM ` + timestamp + `) * 1000000)::bigint * 1000`
}

// Publish implements [exchange.Exchange].
func (db *database) Publish(ctx context.Context, rows []exchange.Row, bans []exchange.Ban) error {
	err := db.within(ctx, pgx.TxOptions{}, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock($1)`, int64(lock)); err != nil {
			return err
		}
		if len(rows) > 0 {
			if err := writeRows(ctx, tx, rows); err != nil {
				return err
			}
		}
		if len(bans) > 0 {
			return writeBans(ctx, tx, bans)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("postgres: publish: %w", err)
	}
	return nil
}

func writeRows(ctx context.Context, tx pgx.Tx, rows []exchange.Row) error {
	limits, keys, groups := make([]int64, len(rows)), make([][]byte, len(rows)), make([]int64, len(rows))
	regions, machines := make([]string, len(rows)), make([]int64, len(rows))
	units, expires := make([]int64, len(rows)), make([]int64, len(rows))
	for i := range rows {
		r := &rows[i]
		limits[i], keys[i], groups[i], regions[i], machines[i] = int64(r.Limit), r.Key[:], r.Group, r.Region, r.Machine
		units[i], expires[i] = r.Units, r.Expires
	}
	_, err := tx.Exec(ctx, `INSERT INTO tally_exchange_counts AS t (limit_id, key, grp, region, machine, units, expires, seq)
		SELECT *, nextval('tally_exchange_seq')
		FROM unnest($1::bigint[], $2::bytea[], $3::bigint[], $4::text[], $5::bigint[], $6::bigint[], $7::bigint[])
		ON CONFLICT (limit_id, key, grp, region, machine) DO UPDATE
		SET units = excluded.units, expires = excluded.expires, seq = excluded.seq
		WHERE t.units < excluded.units`, limits, keys, groups, regions, machines, units, expires)
	return err
}

func writeBans(ctx context.Context, tx pgx.Tx, bans []exchange.Ban) error {
	keys, regions, at := make([][]byte, len(bans)), make([]string, len(bans)), make([]int64, len(bans))
	until, lifted, keep := make([]int64, len(bans)), make([]int64, len(bans)), make([]int64, len(bans))
	for i, b := range bans {
		keys[i], regions[i], at[i], until[i], lifted[i], keep[i] = bans[i].Key[:], b.Region, b.At, b.Until,
			b.Lifted, b.Keep
	}
	_, err := tx.Exec(ctx, `INSERT INTO tally_exchange_bans AS t (key, region, at, until, lifted, keep, seq)
		SELECT *, nextval('tally_exchange_seq') FROM unnest($1::bytea[], $2::text[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[])
		ON CONFLICT (key, region) DO UPDATE SET at = greatest(t.at, excluded.at), until = CASE WHEN t.at < excluded.at THEN excluded.until ELSE t.until END,
			lifted = greatest(t.lifted, excluded.lifted), keep = greatest(t.keep, excluded.keep), seq = excluded.seq
		WHERE t.at < excluded.at OR t.lifted < excluded.lifted OR t.keep < excluded.keep`, keys, regions, at, until, lifted, keep)
	return err
}

// Collect implements [exchange.Exchange].
func (db *database) Collect(ctx context.Context, own region.Component, after int64, limit int) (news exchange.News,
	err error) {
	err = db.within(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly},
		func(tx pgx.Tx) (err error) {
			news, err = read(ctx, tx, own, after, limit)
			return err
		})
	if err != nil {
		return exchange.News{}, fmt.Errorf("postgres: collect: %w", err)
	}
	return news, nil
}

// read reads the news in one snapshot.
func read(ctx context.Context, tx pgx.Tx, own region.Component, after int64, limit int) (news exchange.News,
	err error) {
	err = tx.QueryRow(ctx, `SELECT greatest($1::bigint, (SELECT max(seq) FROM tally_exchange_counts), (SELECT max(seq) FROM tally_exchange_bans))`, after).Scan(&news.Seq)
	if err != nil {
		return news, err
	}
	var last int64 // the number of the last change read
	rows, err := tx.Query(ctx, `SELECT limit_id, key, grp, region, machine, units, expires, seq FROM tally_exchange_counts
		WHERE seq > $1 AND NOT (region = $2 AND machine = $3) ORDER BY seq LIMIT $4`, after, own.Region, own.Machine, limit)
	if err != nil {
		return news, err
	}
	news.Rows, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (r exchange.Row, err error) {
		var id int64
		var key []byte
		err = row.Scan(&id, &key, &r.Group, &r.Region, &r.Machine, &r.Units, &r.Expires, &last)
		r.Limit = storage.LimitID(id)
		copy(r.Key[:], key)
		return r, err
	})
	if err != nil {
		return news, err
	}
	if len(news.Rows) == limit {
		news.More, news.Seq = true, min(news.Seq, last)
	}
	rows, err = tx.Query(ctx, `SELECT key, region, at, until, lifted, keep, seq FROM tally_exchange_bans
		WHERE seq > $1 ORDER BY seq LIMIT $2`, after, limit)
	if err != nil {
		return news, err
	}
	news.Bans, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (b exchange.Ban, err error) {
		var key []byte
		err = row.Scan(&key, &b.Region, &b.At, &b.Until, &b.Lifted, &b.Keep, &last)
		copy(b.Key[:], key)
		return b, err
	})
	if len(news.Bans) == limit {
		news.More, news.Seq = true, min(news.Seq, last)
	}
	return news, err
}

// sweepRows is how many rows of a table are deleted at a time.
var sweepRows = 10_000

// Sweep implements [exchange.Exchange]. It skips rows that others write or delete, and so waits for nobody.
func (db *database) Sweep(ctx context.Context) (more bool, err error) {
	earliest := `(SELECT greatest(min(now), ` + nanoseconds(`clock_timestamp()`) + fmt.Sprintf(` - %d) FROM tally_exchange_members
		WHERE NOT gone AND seen > clock_timestamp() - interval '1 hour')`, int64(exchange.MaxBehind))
	for _, table := range []struct{ name, expired string }{
		{"members", `seen < clock_timestamp() - interval '1 day'`}, {"counts", `expires <= ` + earliest},
		{"bans", `keep <= ` + earliest},
	} {
		deleted, err := db.conn.Exec(ctx, fmt.Sprintf(`DELETE FROM tally_exchange_%s WHERE ctid = ANY (ARRAY(
			SELECT ctid FROM tally_exchange_%[1]s WHERE %s LIMIT %d FOR UPDATE SKIP LOCKED))`, table.name, table.expired, sweepRows))
		if err != nil {
			return false, fmt.Errorf("postgres: sweep: %w", err)
		}
		more = more || deleted.RowsAffected() == int64(sweepRows)
	}
	return more, nil
}

// Leave implements [exchange.Exchange].
func (db *database) Leave(ctx context.Context, m exchange.Member) error {
	if _, err := db.conn.Exec(ctx, `UPDATE tally_exchange_members SET gone = true WHERE region = $1 AND machine = $2`,
		m.Region, m.Machine); err != nil {
		return fmt.Errorf("postgres: leave: %w", err)
	}
	return nil
}

// closeTimeout bounds the time to close the connection.
const closeTimeout = time.Second

// Close implements [exchange.Exchange].
func (db *database) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	return db.conn.Close(ctx)
}
