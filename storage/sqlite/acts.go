package sqlite

import (
	"context"
	"database/sql/driver"

	"github.com/caddy-tally/caddy-tally/storage"
)

// actTables are the tables of the lists of acts.
var actTables = [storage.Logs]string{storage.Audit: "audit", storage.Charges: "charges"}

const actColumns = `at, who, action, target, kind, reason`

// acts keeps a list of acts.
type acts struct {
	taken, add, drop *stmt
	noted            int64 // by this store
}

// dropEvery is the number of acts after which those beyond the bound are dropped. It takes some 20 ms to find
// them in a full list, in which every request that needs the database would wait if each act did it.
const dropEvery = 256

func (a *acts) prepare(db *conn, table string) error {
	return db.prepareAll([]prepared{
		{&a.taken, `SELECT count(*) FROM ` + table + ` WHERE at = ?`, 1, 1},
		{&a.add, `INSERT INTO ` + table + ` (` + actColumns + `) VALUES (?, ?, ?, ?, ?, ?)`, 6, 0},
		{&a.drop, `DELETE FROM ` + table + ` WHERE at <= (SELECT at FROM ` + table + ` ORDER BY at DESC LIMIT 1 OFFSET ?)`, 1, 0},
	})
}

// Audit implements [storage.Store].
func (s *Store) Audit(ctx context.Context, log storage.Log, act *storage.Act) error {
	return s.with(ctx, "audit", func() error {
		return s.tx.doLocked(func() (int64, error) { return 1, s.acts[log].note(act) })
	})
}

func (a *acts) note(act *storage.Act) error {
	act.Cut()
	for taken := int64(1); ; act.At++ {
		a.taken.bind(0, act.At)
		if err := a.taken.read(&taken); err != nil {
			return err
		}
		if taken == 0 {
			break
		}
	}
	if err := a.add.run(act.At, act.By, act.Action, act.Target, act.Kind, act.Reason); err != nil {
		return err
	}
	if a.noted++; a.noted%dropEvery != 1 {
		return nil
	}
	return a.drop.run(int64(storage.MaxActsKept))
}

// Acts implements [storage.Store].
func (s *Store) Acts(ctx context.Context, log storage.Log, before int64, n int) (list []storage.Act, err error) {
	query := `SELECT ` + actColumns + ` FROM ` + actTables[log] + ` WHERE at < ? ORDER BY at DESC LIMIT ?`
	err = s.log.look(ctx, "audit", func(c *conn) error {
		return c.each(query, func(row []driver.Value) error {
			var act storage.Act
			if err := integers(row, &act.At); err != nil {
				return err
			}
			for i, text := range []*string{&act.By, &act.Action, &act.Target, &act.Kind, &act.Reason} {
				value, ok := row[i+1].(string)
				if !ok {
					return errDamaged("an act has no text")
				}
				*text = value
			}
			list = append(list, act)
			return nil
		}, before, int64(min(max(n, 0), storage.MaxActs)))
	})
	return list, err
}
