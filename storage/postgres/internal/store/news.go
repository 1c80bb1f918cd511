package store

import (
	"context"
	"math"

	"github.com/caddy-tally/caddy-tally/storage"
)

// noteChanges notes the clients whose records a transaction changes.
func (tx *transaction) noteChanges(clients []storage.Client) {
	if len(clients) == 0 {
		return
	}
	newest := tx.meta.changes
	tx.more.add("INSERT INTO ", table("changes"), " (number, name, former) VALUES ")
	tx.more.joined(len(clients), func(i int) {
		newest++
		tx.more.add("(", newest, ", ", clients[i].Key[:], ", ", clients[i].Former[:], ")")
	})
	tx.more.end().add("UPDATE ", table("meta"), " SET changes = ", newest, " WHERE id = 1").end()
	tx.more.add("DELETE FROM ", table("changes"), " WHERE number <= ", newest-storage.MaxChanges).end()
}

// News implements [storage.Network].
func (s *Store) News(ctx context.Context, seen storage.Seen) (news storage.News, err error) {
	err = s.chores.do(ctx, "news", func(ctx context.Context, c conn) error {
		news = storage.News{}
		acknowledged := s.machine.acknowledged.Load()
		sql := s.place.script().add("SELECT epoch, resets, changes, COALESCE((SELECT batches FROM ", table("machines"),
			" WHERE id = ", s.machine.id, "), -1), (SELECT COUNT(*) FROM ",
			table("processes"), ") FROM ", table("meta"), " WHERE id = 1").end()
		sql.selectResets(seen.Resets).end()
		sql.add("SELECT number, name, former FROM ", table("changes"), " WHERE number > ", changesAfter(seen.Changes),
			" ORDER BY number").end()
		sql.selectNotes(seen.Notes)
		results, err := s.place.query(ctx, c, sql, 4)
		if err != nil {
			return err
		}
		if len(results[0]) == 0 { // a crash or a person removed the row of meta
			return s.machine.hasLost()
		}
		var epoch, batches, processes int64
		if err := first(results[:1], &epoch, &news.Resets.Newest, &news.Newest, &batches, &processes); err != nil {
			return err
		}
		if epoch != s.machine.epoch || batches < acknowledged {
			return s.machine.hasLost()
		}
		news.Processes = int(processes)
		if err := readResets(&news.Resets, seen.Resets, results[1]); err != nil {
			return err
		}
		if err := readChanges(&news, seen.Changes, results[2]); err != nil {
			return err
		}
		news.Notes, news.MoreNotes, err = readNotes(results[3])
		return err
	})
	return news, err
}

// changesAfter returns the number after which changes are read. A negative number asks for none.
func changesAfter(number int64) int64 {
	if number < 0 {
		return math.MaxInt64
	}
	return number
}

// readChanges reads the changes after a number, up to the newest. Later rows were inserted meanwhile.
func readChanges(news *storage.News, after int64, rows result) error {
	if after == news.Newest {
		return nil
	}
	if after < 0 || after > news.Newest {
		news.Missed = true
		return nil
	}
	for _, values := range rows {
		var number int64
		if err := numbers(values, &number); err != nil {
			return err
		}
		if number > news.Newest {
			break
		}
		var client storage.Client
		copy(client.Key[:], values[1])
		copy(client.Former[:], values[2])
		news.Changed = append(news.Changed, client)
	}
	news.Missed = int64(len(news.Changed)) < news.Newest-after
	return nil
}
