package sqlstore

import (
	"context"

	"github.com/caddy-tally/caddy-tally/storage"
)

// actsAtOnce is how many acts are read to find a time that none has.
const actsAtOnce = 64

// Audit implements [storage.Auditor]. One act is noted at a time. If a commit isn't answered, the
// act is looked for where it was to be.
func (s *Store) Audit(ctx context.Context, act *storage.Act) error {
	act.Cut()
	var sent *storage.Act
	return s.chore(ctx, "audit", func(ctx context.Context, c Conn) error {
		noted, err := s.placeAct(ctx, c, act, sent)
		if err != nil || noted {
			return err
		}
		at := *act
		sent = &at
		sql := s.place.script().add("INSERT INTO ", table("acts"), " (at, who, action, target, kind, reason) VALUES (", act.At)
		for _, text := range []string{act.By, act.Action, act.Target, act.Kind, act.Reason} {
			sql.add(", ", []byte(text))
		}
		_, err = s.place.run(ctx, c, sql.add(")").end().add("COMMIT"))
		return err
	})
}

// placeAct begins a transaction in which nobody else notes acts, and sets the act's time to one that
// no other has. It reports whether the act is there as it was sent before.
func (s *Store) placeAct(ctx context.Context, c Conn, act, sent *storage.Act) (noted bool, err error) {
	begin := s.place.script().add(s.place.dialect.Begin(s.place.options.Timeout/2)).end().
		add("SELECT id FROM ", table("meta"), " WHERE id = 1 FOR UPDATE")
	if _, err := s.place.run(ctx, c, begin); err != nil {
		return false, err
	}
	for {
		results, err := s.place.run(ctx, c, s.place.script().selectActs().add(" WHERE at >= ", act.At, " ORDER BY at LIMIT ", actsAtOnce))
		if err == nil {
			err = hasResults(results, 1)
		}
		if err != nil {
			return false, err
		}
		taken, err := actsOf(results[0])
		if err != nil {
			return false, err
		}
		if sent != nil && len(taken) > 0 && taken[0] == *sent {
			s.place.rollback(ctx, c)
			return true, nil
		}
		for _, other := range taken {
			if other.At != act.At {
				return false, nil
			}
			act.At++
		}
		if len(taken) < actsAtOnce {
			return false, nil
		}
	}
}

// Acts implements [storage.Auditor].
func (s *Store) Acts(ctx context.Context, before int64, n int) (list []storage.Act, err error) {
	err = s.chore(ctx, "audit", func(ctx context.Context, c Conn) error {
		results, err := s.place.run(ctx, c, s.place.script().selectActs().
			add(" WHERE at < ", before, " ORDER BY at DESC LIMIT ", min(max(n, 0), storage.MaxActs)))
		if err == nil {
			err = hasResults(results, 1)
		}
		if err == nil {
			list, err = actsOf(results[0])
		}
		return err
	})
	return list, err
}

func (s *script) selectActs() *script {
	return s.add("SELECT at, who, action, target, kind, reason FROM ", table("acts"))
}

func actsOf(rows Rows) (list []storage.Act, err error) {
	for _, row := range rows {
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

// dropActs removes acts that are too old, or that others came after too often.
func (s *Store) dropActs(ctx context.Context, c Conn, now int64) error {
	last := now - int64(storage.KeepActs)
	results, err := s.place.run(ctx, c, s.place.script().add("SELECT at FROM ", table("acts"), " ORDER BY at DESC LIMIT 1 OFFSET ", storage.MaxActsKept))
	if err == nil {
		err = hasResults(results, 1)
	}
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
	_, err = s.place.run(ctx, c, s.place.script().add("DELETE FROM ", table("acts"), " WHERE at <= ", last))
	return err
}

var _ storage.Auditor = (*Store)(nil)
