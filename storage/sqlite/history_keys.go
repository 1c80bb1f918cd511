package sqlite

import (
	"database/sql/driver"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/distinct"
	"github.com/caddy-tally/caddy-tally/storage"
)

// sketches keeps which keys came in the periods that somebody may still add to. Of older
// ones only the estimate stays.
type sketches struct {
	read, write, deleteOld *stmt
}

// openFor is how long after its end a period keeps its sketch: a process may report late.
const openFor = int64(5 * time.Minute)

func (sk *sketches) prepare(db *conn) (err error) {
	for _, p := range []struct {
		stmt          **stmt
		query         string
		args, columns int
	}{
		{&sk.read, `SELECT keys FROM sketches WHERE resolution = ? AND at = ? AND series = ?`, 3, 1},
		{&sk.write, `INSERT OR REPLACE INTO sketches (resolution, at, series, keys) VALUES (?, ?, ?, ?)`, 4, 0},
		{&sk.deleteOld, `DELETE FROM sketches WHERE resolution = ? AND (at < ? OR at > ?)`, 3, 0},
	} {
		if *p.stmt, err = db.prepare(p.query, p.args, p.columns); err != nil {
			return err
		}
	}
	return nil
}

// open returns the first and the last period of a resolution that have a sketch.
func (sk *sketches) open(resolution int, now int64) (first, last int64) {
	length := storage.Rollups[resolution].Resolution
	return storage.Period(now-openFor, length), storage.Period(addCapped(now, openFor), length)
}

// add adds keys to those of a period, and returns how many there are about, as far as
// is known.
func (sk *sketches) add(resolution int, at, series, now int64, keys distinct.Sketch) (count int64, err error) {
	if len(keys) == 0 {
		return 0, nil
	}
	if first, last := sk.open(resolution, now); at < first || at > last {
		return keys.Count(), nil
	}
	var kept distinct.Sketch
	sk.read.bind(0, int64(resolution), at, series)
	err = sk.read.each(func(row []driver.Value) error {
		was, ok := row[0].([]byte)
		if !ok {
			return errDamaged("a sketch is none")
		}
		kept = append(kept, was...)
		return nil
	})
	if err != nil {
		return 0, err
	}
	all := kept.Merge(keys)
	if string(all) == string(kept) {
		return all.Count(), nil
	}
	sk.write.bind(0, int64(resolution), at, series, []byte(all))
	_, err = sk.write.exec()
	return all.Count(), err
}

// drop deletes the sketches of periods that nobody adds to any more.
func (sk *sketches) drop(now int64) error {
	for i := range storage.Rollups {
		first, last := sk.open(i, now)
		sk.deleteOld.bind(0, int64(i), first, last)
		if _, err := sk.deleteOld.exec(); err != nil {
			return err
		}
	}
	return nil
}

// heaviest keeps the heaviest keys of each hour. While the hour lasts, more of them are
// kept than in the end, because the next minutes may have others.
type heaviest struct {
	write, trim, trimAll *stmt
	trimmed              int64 // the last hour that this process has trimmed
}

// maxCandidates is how many keys a limit keeps in a running hour.
const maxCandidates = 3 * storage.MaxHeaviest

func (hv *heaviest) prepare(db *conn) (err error) {
	for _, p := range []struct {
		stmt  **stmt
		query string
		args  int
	}{
		{&hv.write, `INSERT INTO heaviest (at, series, key, units, refused) VALUES (?, ?, ?, ?, ?)
			ON CONFLICT (at, series, key) DO UPDATE
			SET units = min(max(units, 0) + excluded.units, ?6), refused = min(max(refused, 0) + excluded.refused, ?6)`, 6},
		{&hv.trim, `DELETE FROM heaviest WHERE at = ?1 AND series = ?2 AND key NOT IN
			(SELECT key FROM heaviest WHERE at = ?1 AND series = ?2 ORDER BY ` + weight + ` DESC LIMIT ?3)`, 3},
		{&hv.trimAll, `DELETE FROM heaviest WHERE at = ?1 AND (series, key) IN
			(SELECT series, key FROM (SELECT series, key, row_number() OVER (PARTITION BY series ORDER BY ` + weight + ` DESC) AS n
			FROM heaviest WHERE at = ?1) WHERE n > ?2)`, 2},
	} {
		if *p.stmt, err = db.prepare(p.query, p.args, 0); err != nil {
			return err
		}
	}
	return nil
}

// weight is what keys are ordered by.
const weight = `units + refused`

// add adds keys to those of an hour, and returns how many rows it wrote.
func (hv *heaviest) add(hour, series int64, keys []storage.HeavyKey) (written int64, err error) {
	keys = keys[:min(len(keys), storage.MaxHeaviest)]
	if len(keys) == 0 {
		return 0, nil
	}
	for _, k := range keys {
		hv.write.bind(0, hour, series, k.Key[:], counted(k.Units), counted(k.Refused), int64(mostCounted))
		if _, err := hv.write.exec(); err != nil {
			return 0, err
		}
	}
	hv.trim.bind(0, hour, series, int64(maxCandidates))
	_, err = hv.trim.exec()
	return int64(len(keys)), err
}

// trimPast leaves of the hour before only the keys that stay, once.
func (hv *heaviest) trimPast(now int64) error {
	hour := storage.Period(now-openFor, time.Hour) - 1
	if hour == hv.trimmed {
		return nil
	}
	hv.trimmed = hour
	hv.trimAll.bind(0, hour, int64(storage.MaxHeaviest))
	_, err := hv.trimAll.exec()
	return err
}
