package store

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/testing/testserver"
	"github.com/caddy-tally/caddy-tally/storage"
)

// exec runs statements on a server.
func exec(t testing.TB, s *testserver.Server, statements string) {
	t.Helper()
	if err := execOn(s.DSN(s.Port), statements); err != nil {
		t.Fatalf("%s: %v", statements, err)
	}
}

// TestLostWrites removes acknowledged writes from the server, as after a failover or a restored copy. Each
// call reports that, and the next store doesn't continue the previous one.
func TestLostWrites(t *testing.T) {
	server, l := sharedServer(t), large(t)
	for what, statements := range map[string]string{
		"batches":  "UPDATE %smachines SET batches = batches - 1",
		"machines": "DELETE FROM %smachines",
		"epoch":    "UPDATE %smeta SET epoch = epoch - 1",
		"all rows": "DELETE FROM %smachines; DELETE FROM %smeta",
	} {
		o := newOptions()
		open := opener(t, server, server.Port, o)
		s, asked, idle := openStore(t, open), openStore(t, open), openStore(t, open) // idle makes no call afterwards
		for _, store := range []*Store{s, asked, idle} {
			if err := take(store, l, 1); err != nil {
				t.Fatal(err)
			}
		}
		exec(t, server, strings.ReplaceAll(statements, "%s", o.Prefix))
		if err := take(s, l, 1); !errors.Is(err, storage.ErrLostWrites) {
			t.Errorf("%s: the next claim says %v", what, err)
		}
		if _, err := asked.News(context.Background(), storage.Seen{}); !errors.Is(err, storage.ErrLostWrites) {
			t.Errorf("%s: the next question for news says %v", what, err)
		}
		next := openStore(t, open)
		if next.Continues(s) || next.Continues(asked) || next.Continues(idle) {
			t.Errorf("%s: the next store continues one whose writes were lost", what)
		}
		if err := take(next, l, 1); err != nil {
			t.Errorf("%s: the next store: %v", what, err)
		}
	}
}

// TestStrangers opens stores in places that belong to another program or to a later version. The places
// stay unchanged.
func TestStrangers(t *testing.T) {
	server := sharedServer(t)
	for what, c := range map[string]struct{ made, says string }{
		"another's meta": {"CREATE TABLE %smeta (id INT, theirs INT); INSERT INTO %smeta VALUES (1, 2)",
			"is another program's"},
		"another's table": {"CREATE TABLE %scells (theirs INT)", "choose another prefix"},
	} {
		o := newOptions()
		exec(t, server, strings.ReplaceAll(c.made, "%s", o.Prefix))
		if _, err := opener(t, server, server.Port, o)(context.Background()); !errors.Is(err, storage.ErrForeign) ||
			!strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: open says %v, want %q", what, err, c.says)
		}
		if err := execOn(server.DSN(server.Port), "SELECT id FROM "+o.Prefix+"machines"); err == nil {
			t.Errorf("%s: tables were made", what)
		}
	}
	o := newOptions()
	open := opener(t, server, server.Port, o)
	running, l := openStore(t, open), large(t)
	exec(t, server, "UPDATE "+o.Prefix+"meta SET version = version + 1")
	for what, s := range map[string]*Store{"running": running, "opened later": openStore(t, open)} {
		if err := take(s, l, 1); err != nil {
			t.Errorf("%s: tables of a later version, for programs of this one as well: %v", what, err)
		}
	}
	exec(t, server, "UPDATE "+o.Prefix+"meta SET oldest = version")
	if err := take(running, l, 1); err == nil {
		t.Error("a running store goes on with tables that it doesn't know any more")
	}
	if _, err := open(context.Background()); !errors.Is(err, storage.ErrForeign) ||
		!strings.Contains(err.Error(), "update it") {
		t.Errorf("of a later version: open says %v", err)
	}
	exec(t, server, "UPDATE "+o.Prefix+"meta SET version = 3, oldest = 2")
	if _, err := open(context.Background()); !errors.Is(err, storage.ErrForeign) ||
		!strings.Contains(err.Error(), "drop them") {
		t.Errorf("of an earlier version: open says %v", err)
	}
}

// still is a clock that stands still.
type still struct{}

func (still) Read() storage.Reading {
	return storage.Reading{Wall: 1_800_000_000e9, Steady: 1, Source: storage.Source{1}}
}

// TestClockSet sets the server's clock back and ahead. The time continues for handles that read it
// lately, for all others, and after an outage.
func TestClockSet(t *testing.T) {
	server := sharedServer(t)
	o := newOptions()
	wrong := int64(0)
	o.Clock = func(r storage.Reading) int64 { return r.Wall + wrong }
	open, c := opener(t, server, server.Port, o), still{}
	stores := []*Store{openStore(t, open), openStore(t, open)}
	now := func(s *Store) int64 {
		read, err := s.Time(c, 0)
		if err != nil {
			t.Fatal(err)
		}
		return read.Now
	}
	for i, by := range []time.Duration{-time.Hour, 2 * time.Hour, -5 * time.Second, 100 * time.Hour} {
		last := now(stores[i%2]) // which is a witness
		wrong += int64(by)
		for n := range stores {
			next := now(stores[(i+n)%2])
			if passed := time.Duration(next - last); passed < 0 || passed > time.Second {
				t.Errorf("the clock is set by %v, and the time goes on by %v", by, passed)
			}
			last = next
		}
	}
	for _, by := range []time.Duration{3 * time.Hour, -5 * time.Hour, 400 * 24 * time.Hour} { // in an outage
		last := now(stores[0])
		for _, s := range stores {
			_ = s.Close()
		}
		wrong += int64(by)
		stores = []*Store{openStore(t, open), openStore(t, open)}
		if passed := time.Duration(now(stores[0]) - last); passed < 0 || passed > time.Second {
			t.Errorf("the clock is set by %v in an outage, and the time goes on by %v", by, passed)
		}
	}
}
