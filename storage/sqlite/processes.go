package sqlite

import (
	"context"
	"database/sql/driver"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/caddy-tally/caddy-tally/storage"
)

// longestStay is how long a process may say that it stays. Rows of a longer time
// were written before the time of the store was set back.
const longestStay = 7 * 24 * time.Hour

// Join implements [storage.Shared].
func (s *Store) Join(ctx context.Context, id, now, until int64) (p storage.Presence, err error) {
	until = min(until, now+int64(longestStay))
	err = s.changeProcesses(ctx, "join", func() error {
		if err := s.checkMark(); err != nil {
			return err
		}
		err := s.writer.exec(`DELETE FROM processes WHERE until <= ? OR until > ?`, now, now+int64(longestStay))
		if err == nil {
			err = s.writer.exec(`INSERT OR REPLACE INTO processes (id, until, journal) VALUES (?, ?, 1)`, id, until)
		}
		if err != nil {
			return err
		}
		return s.writer.each(fmt.Sprintf(`SELECT count(*), total(id < %d) FROM processes`, id), func(row []driver.Value) error {
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

// errMarked says that a process with another secret began to use the database at the same moment.
var errMarked = errors.New("another process has marked the database with another secret")

// checkMark returns an error if the mark is not the one of Mark, if that was called.
func (s *Store) checkMark() error {
	mark, err := s.readMark()
	if err == nil && s.mark != (storage.Key{}) && mark != s.mark {
		err = errMarked
	}
	return err
}

func (s *Store) readMark() (mark storage.Key, err error) {
	err = s.writer.each(`SELECT mark FROM secret`, func(row []driver.Value) error {
		if value, ok := row[0].([]byte); !ok || copy(mark[:], value) != len(mark) {
			return errDamaged("its mark of the secret is none")
		}
		return nil
	})
	return mark, err
}

// Mark implements [storage.Marked].
func (s *Store) Mark(ctx context.Context, now int64, marks []storage.Key) (former, kept storage.Key, err error) {
	err = s.changeProcesses(ctx, "mark", func() error {
		if former, err = s.readMark(); err != nil {
			return err
		}
		kept, s.mark = former, former
		others, err := s.writer.int(fmt.Sprintf(`SELECT count(*) FROM processes WHERE until > %d AND until <= %d`, now, now+int64(longestStay)))
		if err != nil || others > 0 && former != (storage.Key{}) || former == marks[0] {
			return err
		}
		kept, s.mark = marks[0], marks[0]
		return s.writer.exec(`DELETE FROM secret; INSERT INTO secret VALUES (x'` + hex.EncodeToString(s.mark[:]) + `')`)
	})
	return former, kept, err
}

// Leave implements [storage.Shared].
func (s *Store) Leave(ctx context.Context, id int64) error {
	return s.changeProcesses(ctx, "leave", func() error {
		return s.writer.exec(`DELETE FROM processes WHERE id = ?`, id)
	})
}

func (s *Store) changeProcesses(ctx context.Context, what string, change func() error) error {
	return s.with(ctx, what, func() error {
		return s.tx.doLocked(nil, func() (written int64, err error) { return 1, change() })
	})
}

var _ storage.Marked = (*Store)(nil)
