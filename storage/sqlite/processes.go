package sqlite

import (
	"cmp"
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/caddy-tally/caddy-tally/storage"
)

// longestStay bounds for how long a process may join. Rows that last longer were written before the time of
// the store was set back.
const longestStay = 7 * 24 * time.Hour

// Join implements [storage.Store].
func (s *Store) Join(ctx context.Context, id, now, until int64) (p storage.Presence, err error) {
	until = min(until, now+int64(longestStay))
	err = s.tx.change(ctx, "join", func() error {
		if mark, err := s.tx.conn.int(markOfSecret); err != nil || s.mark != 0 && mark != s.mark {
			return cmp.Or(err, errMarked)
		}
		err := s.tx.conn.exec(`DELETE FROM processes WHERE until <= ? OR until > ?`, now, now+int64(longestStay))
		if err == nil {
			err = s.tx.conn.exec(`INSERT OR REPLACE INTO processes (id, until, journal) VALUES (?, ?, 1)`, id, until)
		}
		if err != nil {
			return err
		}
		return s.tx.conn.each(fmt.Sprintf(`SELECT count(*), total(id < %d) FROM processes`, id),
			func(row []driver.Value) error {
				processes, ok := row[0].(int64)
				before, isNumber := row[1].(float64)
				if !ok || !isNumber {
					return errDamaged("its processes can't be counted")
				}
				p = storage.Presence{Processes: int(processes), Process: int(before)}
				return nil
			})
	})
	return p, err
}

// errMarked says that a process with another secret has begun to use the database.
var errMarked = errors.New("another process has marked the database with another secret")

const markOfSecret = `SELECT mark FROM secret`

// Mark implements [storage.Local].
func (s *Store) Mark(ctx context.Context, now int64, marks ...int64) (former, kept int64, err error) {
	err = s.tx.change(ctx, "mark", func() error {
		var errs [3]error
		former, errs[0] = s.tx.conn.int(markOfSecret)
		if errs[0] == nil && len(marks) > 0 && !slices.Contains(marks, former) {
			errs[1] = s.tx.conn.exec(`UPDATE secret SET mark = ? WHERE mark = 0 OR NOT EXISTS (SELECT 1 FROM processes WHERE until > ? AND until <= ?)`, marks[0], now, now+int64(longestStay))
		}
		kept, errs[2] = s.tx.conn.int(markOfSecret)
		s.mark = kept
		return errors.Join(errs[:]...)
	})
	return former, kept, err
}

// Leave implements [storage.Store].
func (s *Store) Leave(ctx context.Context, id int64) error {
	return s.tx.change(ctx, "leave", func() error {
		return s.tx.conn.exec(`DELETE FROM processes WHERE id = ?`, id)
	})
}
