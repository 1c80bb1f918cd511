package sqlite

import (
	"context"
	"database/sql/driver"

	"github.com/caddy-tally/caddy-tally/storage"
)

// acts keeps audit entries.
type acts struct{ taken, add, drop *stmt }

func (a *acts) prepare(db *conn) error {
	return db.prepareAll([]prepared{
		{&a.taken, `SELECT count(*) FROM audit WHERE at = ?`, 1, 1},
		{&a.add, `INSERT INTO audit (at, who, action, target, kind, reason) VALUES (?, ?, ?, ?, ?, ?)`, 6, 0},
		{&a.drop, `DELETE FROM audit WHERE at <= (SELECT at FROM audit ORDER BY at DESC LIMIT 1 OFFSET ?)`, 1, 0},
	})
}

// Audit implements [storage.Store].
func (s *Store) Audit(ctx context.Context, act *storage.Act) error {
	return s.with(ctx, "audit", func() error {
		return s.tx.doLocked(nil, func() (int64, error) { return 1, s.acts.note(act) })
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
	return a.drop.run(int64(storage.MaxActsKept))
}

// Acts implements [storage.Store].
func (s *Store) Acts(ctx context.Context, before int64, n int) (list []storage.Act, err error) {
	const query = `SELECT at, who, action, target, kind, reason FROM audit WHERE at < ? ORDER BY at DESC LIMIT ?`
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
