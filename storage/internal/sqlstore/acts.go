package sqlstore

import (
	"context"

	"github.com/caddy-tally/caddy-tally/storage"
)

// actTables are the tables of the lists of acts.
var actTables = [storage.Logs]table{storage.Audit: "acts", storage.Charges: "charges"}

// Audit implements [storage.Store]. It inserts the act if its time is free, and reads the row: if an
// earlier attempt was not answered, the row may be this act.
func (s *Store) Audit(ctx context.Context, log storage.Log, act *storage.Act) error {
	act.Cut()
	for ; ; act.At++ {
		list, err := s.runActs(ctx, s.place.insertAct(actTables[log], act).selectActs(actTables[log]).add(" WHERE at = ", act.At).end().add("COMMIT"))
		if err != nil || len(list) == 1 && list[0] == *act {
			return err
		}
	}
}

// insertAct begins a transaction that inserts an act if its time is free.
func (p *Place) insertAct(to table, act *storage.Act) *script {
	sql := p.begin().add("INSERT INTO ", to, " (at, who, action, target, kind, reason) VALUES (", act.At)
	for _, text := range []string{act.By, act.Action, act.Target, act.Kind, act.Reason} {
		sql.add(", ", []byte(text))
	}
	return sql.add(") ", orKeep).end()
}

// Acts implements [storage.Store].
func (s *Store) Acts(ctx context.Context, log storage.Log, before int64, n int) ([]storage.Act, error) {
	return s.runActs(ctx, s.place.script().selectActs(actTables[log]).
		add(" WHERE at < ", before, " ORDER BY at DESC LIMIT ", min(max(n, 0), storage.MaxActs)))
}

// runActs runs statements that return acts.
func (s *Store) runActs(ctx context.Context, sql *script) (list []storage.Act, err error) {
	results, err := s.query(ctx, "audit", sql, 1)
	if err != nil {
		return nil, err
	}
	for _, row := range results[0] {
		var act storage.Act
		if err := numbers(row, &act.At); err != nil {
			return nil, err
		}
		for i, text := range []*string{&act.By, &act.Action, &act.Target, &act.Kind, &act.Reason} {
			*text = string(row[i+1])
		}
		list = append(list, act)
	}
	return list, nil
}

func (s *script) selectActs(from table) *script {
	return s.add("SELECT at, who, action, target, kind, reason FROM ", from)
}

// dropActs removes acts that are too old, or beyond the newest [storage.MaxActsKept] of a list.
func (s *Store) dropActs(ctx context.Context, c Conn, now int64) error {
	for _, acts := range actTables {
		last := now - int64(storage.KeepActs)
		results, err := s.place.query(ctx, c, s.place.script().add("SELECT at FROM ", acts, " ORDER BY at DESC LIMIT 1 OFFSET ", storage.MaxActsKept), 1)
		if err != nil {
			return err
		}
		if len(results[0]) > 0 {
			var oldest int64
			if err := numbers(results[0][0], &oldest); err != nil {
				return err
			}
			last = max(last, oldest)
		}
		if _, err = s.place.run(ctx, c, s.place.script().add("DELETE FROM ", acts, " WHERE at <= ", last)); err != nil {
			return err
		}
	}
	return nil
}
