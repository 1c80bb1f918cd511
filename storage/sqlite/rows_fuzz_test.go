package sqlite

import (
	"bytes"
	"database/sql/driver"
	"encoding/binary"
	"errors"
	"math"
	"testing"
	"time"

	sqlite3 "modernc.org/sqlite"

	"github.com/caddy-tally/caddy-tally/internal/testing/proof"
	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/storage"
)

// FuzzRows fills the tables with rows that no version of this program writes, of any type and size,
// and uses the store. The store must neither panic nor grant too much; it may call the database
// damaged.
func FuzzRows(f *testing.F) {
	for table := range byte(4) { // a row of each, with one value that doesn't belong
		for at := range 14 {
			for what := byte(at % proof.Sample(4, 1)); what < 12; what += byte(proof.Sample(4, 1)) {
				// The limit is one that reads the table: 0 slides, and 2 has buckets.
				row := append([]byte{0, 2 * table, 1, table}, bytes.Repeat([]byte{fits}, 14)...)
				row[4+at] = what%6 + what/6*16
				f.Add(row)
			}
		}
	}
	lax := newLaxTables(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		lax.fill(t, data)
		for _, now := range []int64{start, start + int64(time.Hour)} {
			if err := lax.claim(t, now); err != nil && !errors.Is(err, storage.ErrCorrupt) {
				t.Fatal(err)
			}
			lax.sweep(t, now)
		}
	})
}

// laxTables take values of any type. They are in memory, because the test is about the
// interpretation of rows.
type laxTables struct {
	*conn
	claims   *claimer
	clients  standings
	clock    clock
	sweeping *sweeper
}

func newLaxTables(f *testing.F) *laxTables {
	connector, err := sqlite3.NewConnector(":memory:")
	if err != nil {
		f.Fatal(err)
	}
	lax := new(laxTables)
	if lax.conn, err = connect(connector); err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { _ = lax.close() })
	mustExec(f, lax.conn, `
		CREATE TABLE limits (id INTEGER PRIMARY KEY, algorithm, window, slots, seen, era);
		CREATE TABLE counters (limit_id, window, key, slot, used, PRIMARY KEY (limit_id, window, key, slot));
		CREATE TABLE buckets (limit_id, key, at, units, part, full, PRIMARY KEY (limit_id, key));
		CREATE TABLE standings (key PRIMARY KEY, at, lost, level, until, bans, past, expires);
		CREATE TABLE clock (now, apart, shift, era, steady, source, astray, resets);
		CREATE TABLE resets (number INTEGER PRIMARY KEY, id UNIQUE, at, client, limit_id, key, former, found)`)
	mustExec(f, lax.conn, sideTable) // what happened, which claims have nothing to do with
	if lax.claims, err = newClaimer(lax.conn); err != nil {
		f.Fatal(err)
	}
	if err := errors.Join(lax.clients.prepare(lax.conn), lax.clock.prepare(lax.conn)); err != nil {
		f.Fatal(err)
	}
	if lax.sweeping, err = newSweeper(lax.conn); err != nil {
		f.Fatal(err)
	}
	return lax
}

// fill replaces all rows by those in the data.
func (lax *laxTables) fill(t *testing.T, data []byte) {
	mustExec(t, lax.conn, `DELETE FROM counters; DELETE FROM buckets; DELETE FROM limits; DELETE FROM standings; DELETE FROM resets;
		DELETE FROM clock; INSERT INTO clock VALUES (0, 0, 0, 0, 0, zeroblob(16), 0, 0)`)
	lax.claims.limits.forget()
	lax.sweeping.enter(0)
	r := &rowSource{data}
	for n := 0; len(r.data) > 0 && n < 8; n++ {
		r.insert(lax.conn)
	}
}

// sweep sweeps completely. Damaged rows may stay.
func (lax *laxTables) sweep(t *testing.T, now int64) {
	for range 20 {
		lax.sweeping.now = now
		if err := lax.sweeping.step(); errors.Is(err, storage.ErrCorrupt) {
			return
		} else if err != nil {
			t.Fatal(err)
		}
		if !lax.sweeping.more {
			return
		}
	}
	t.Fatal("a sweep never ends")
}

// claim claims for the keys of the rows, and for others.
func (lax *laxTables) claim(t *testing.T, now int64) error {
	var claims []storage.Claim
	for _, a := range []limiter.Algorithm{limiter.Sliding, limiter.Fixed, limiter.TokenBucket} {
		l := newLimit(t, limiter.Params{Algorithm: a, Amount: 10, Window: time.Minute})
		for n := range uint64(3) {
			claims = append(claims, storage.Claim{ID: storage.LimitID(a), Key: key(n), Limit: l,
				Claim: limiter.Claim{Now: now, Min: 1, Want: 4, Extra: 100}})
		}
	}
	grants, granted := make([]limiter.Grant, len(claims)), make([]int64, len(claims))
	for range 3 { // the second and third time with what the one before has left
		if _, err := lax.claims.run(claims, grants); err != nil {
			return wrap("claim", err)
		}
		for i, g := range grants {
			granted[i] += g.Units
			if g.Units < 0 || granted[i] > 10 || g.Used < g.Units || g.Units == 0 && g.Retry <= 0 {
				t.Fatalf("claim %+v is granted %+v, and %d in all", claims[i], g, granted[i])
			}
		}
	}
	term := storage.Term{Clock: showing{Wall: now, Shared: true}}
	if err := lax.clock.tell(&term); err != nil {
		return err
	}
	if term.Time.Now < now-int64(storage.Heals) && lax.clock.row.Now == 0 {
		t.Fatalf("at %d the time is %d", now, term.Time.Now)
	}
	lax.clients.shift = term.Time.Shift
	for n := range uint64(3) {
		if _, _, err := lax.clients.load(key(n), now); err != nil {
			return err
		}
	}
	return nil
}

// showing is a clock that stands still.
type showing storage.Reading

func (s showing) Read() storage.Reading { return storage.Reading(s) }

// rowSource makes rows from bytes.
type rowSource struct{ data []byte }

func (r *rowSource) byte() byte {
	if len(r.data) == 0 {
		return 0
	}
	b := r.data[0]
	r.data = r.data[1:]
	return b
}

// insert adds a row to one of the tables, unless SQLite refuses it.
func (r *rowSource) insert(c *conn) {
	l, _ := limiter.New(limiter.Params{Amount: 1, Window: time.Minute})
	slot := l.Slot(start) + int64(int8(r.byte()))/4
	id, k := int64(r.byte()%3), key(uint64(r.byte()%3))
	switch r.byte() % 5 {
	case 0:
		_ = c.exec(`INSERT INTO counters VALUES (?, ?, ?, ?, ?)`,
			r.value(id), r.value(l.WindowOf(slot)), r.value(k[:]), r.value(slot), r.value(int64(r.byte())))
	case 1:
		_ = c.exec(`INSERT INTO buckets VALUES (?, ?, ?, ?, ?, ?)`,
			r.value(id), r.value(k[:]), r.value(start), r.value(int64(r.byte())), r.value(int64(r.byte())), r.value(start))
	case 2:
		_ = c.exec(`INSERT INTO standings VALUES (?, ?, ?, ?, ?, ?, ?, ?)`, r.value(k[:]), r.value(start), r.value(int64(r.byte())),
			r.value(int64(r.byte())), r.value(start), r.value(int64(r.byte())), r.value([]byte("past")), r.value(start))
	case 3:
		_ = c.exec(`INSERT INTO clock VALUES (?, ?, ?, ?, ?, ?, ?, ?)`, r.value(start), r.value(int64(r.byte())), r.value(int64(r.byte())),
			r.value(int64(r.byte())), r.value(int64(0)), r.value(make([]byte, 16)), r.value(start), r.value(int64(r.byte())))
	default:
		_ = c.exec(`INSERT INTO limits VALUES (?, ?, ?, ?, ?, ?)`,
			r.value(id), r.value(id), r.value(int64(time.Minute)), r.value(int64(60)), r.value(start), r.value(int64(r.byte())%2))
	}
}

// fits makes value return only valid values.
const fits = 6

// value returns mostly the valid value, or else an arbitrary one.
func (r *rowSource) value(fitting driver.Value) driver.Value {
	switch b := r.byte(); b % 16 {
	case 0:
		return nil
	case 1:
		return []int64{math.MinInt64, math.MinInt64 + 1, -1, 0, 1, math.MaxInt64 / 2, math.MaxInt64 - 1, math.MaxInt64}[b/16%8]
	case 2:
		return []float64{math.Inf(1), math.Inf(-1), 0.5, -1e300, 1e18, 1e19, 0, 3}[b/16%8]
	case 3:
		return "text"
	case 4:
		return r.data[:min(len(r.data), int(b/16)*4)] // a key of another length
	case 5:
		return int64(binary.LittleEndian.Uint64([]byte{r.byte(), r.byte(), r.byte(), r.byte(), r.byte(), r.byte(), r.byte(), r.byte()}))
	}
	return fitting
}
