package instance

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/caddy-tally/caddy-tally/storage"
)

// wantLines fails the test unless the status of a machine has so many values under later lines.
// -1 stands for a number that isn't known.
func wantLines(t *testing.T, when string, inst *Instance, later int) {
	t.Helper()
	got := -1
	n := inst.describe().Network
	if n == nil {
		t.Fatalf("%s the status of a machine says nothing about the network", when)
	}
	if n.LaterLines != nil {
		got = *n.LaterLines
	}
	if got != later {
		t.Errorf("%s the status has %d values under later lines, want %d", when, got, later)
	}
}

// Two machines without a request are rotated step by step. Their status says that the former line is
// needed until a cleanup has resealed what is in the store; then the line can go, and nothing is lost.
func TestIdleMachinesShowTheFormerLine(t *testing.T) {
	store := newFleetStore()
	first := machineWith(t, store, "a")
	stateLines(t, first, "ban 203.0.113.7", "allow 203.0.113.8")
	key, _ := addKey(t, first, "acme", "free")
	wantLines(t, "with one line", first, 0)
	for range 2 {
		wantLines(t, "with a line behind", machineWith(t, store, "a", "b"), 0)
	}
	one, two := machineWith(t, store, "b", "a"), machineWith(t, store, "b", "a")
	wantLines(t, "after the new line came first", one, 3)
	wantLines(t, "after the new line came first", two, 3)
	tooEarly := machineWith(t, store, "b")
	wantLines(t, "without the former line", tooEarly, 3)
	if isKnown(tooEarly, key) {
		t.Error("a key is known without the line that it is sealed under")
	}
	if err := one.Shared.sealAgain(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		inst := machineWith(t, store, "b")
		wantLines(t, "after a cleanup", inst, 0)
		mustState(t, inst, "allow 203.0.113.8", "ban 203.0.113.7")
		if !isKnown(inst, key) {
			t.Error("a key is lost")
		}
	}
}

// brokenStore is a store that can't be opened.
type brokenStore struct{ fleetStore }

func (brokenStore) Open(context.Context, time.Duration) (storage.Store, error) {
	return nil, errors.New("no route")
}

// What can't be counted is not 0: before the store was ever read, and once another one is in use,
// such as a copy from before a rotation, until that was read.
func TestUnreadStoreHasNoCountOfLines(t *testing.T) {
	wantLines(t, "while the store is away", machineOn(t, brokenStore{newFleetStore()}, "a"), -1)
	in := machineWith(t, newFleetStore(), "a")
	wantLines(t, "once the store was read", in, 0)
	copied, err := newFleetStore().Open(t.Context(), time.Second)
	if err != nil {
		t.Fatal(err)
	}
	in.Store.Store(&copied)
	wantLines(t, "before a copy was read", in, -1)
}
