package instance

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/notify"
)

// A zone that refuses much all the time is notified once, and again after it has calmed down.
func TestUnusualRefusals(t *testing.T) {
	l, now, calm := new(RefusalLog), noon, 0
	minute := func(refused int64) bool {
		now = now.Add(time.Minute)
		_, kind := l.observe(refused, now)
		if kind == notify.Calm {
			calm++
		}
		return kind == notify.Refusals
	}
	for range 120 {
		if minute(50) {
			t.Fatal("50 a minute are unusual")
		}
	}
	if minute(400) {
		t.Error("eight times as many are unusual")
	}
	if !minute(1000) || minute(1000) || minute(600) || minute(1000) {
		t.Error("twenty times as many aren't notified, or again while they last")
	}
	if calm != 0 {
		t.Error("its end is notified while it lasts")
	}
	for range 30 {
		minute(40)
	}
	if calm != 1 {
		t.Errorf("its end is notified %d times", calm)
	}
	if !minute(2000) {
		t.Error("it isn't notified again after it was over")
	}
	for range 300 {
		minute(2000)
	}
	if minute(5000) {
		t.Error("what has become usual is unusual")
	}
	if calm != 1 {
		t.Error("what has become usual is over")
	}
	if minute(10); calm != 2 {
		t.Error("the end of what had become usual isn't notified")
	}
	if l, now := new(RefusalLog), noon; true {
		if _, kind := l.observe(99, now); kind != "" {
			t.Error("99 in the first minute are unusual")
		}
		if perMinute, kind := l.observe(99, now.Add(time.Second)); kind != notify.Refusals || perMinute != 5940 {
			t.Errorf("99 in a second: %d a minute, %q", perMinute, kind)
		}
	}
}

var noon = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

// An outage is notified once, however often it is logged, and so is its end.
func TestAnOutageIsNotifiedOnce(t *testing.T) {
	inst := new(Instance)
	var kinds []string
	listener := func(e notify.Event) { kinds = append(kinds, e.Kind) }
	observer{inst}.Recovered(time.Second) // before anybody listens
	inst.Listener.Store(&listener)
	observer{inst}.Recovered(time.Second)
	for range 3 {
		observer{inst}.Degraded(time.Minute, errors.New("the disk is full"))
	}
	observer{inst}.Recovered(time.Minute)
	observer{inst}.Recovered(time.Minute)
	if !slices.Equal(kinds, []string{notify.Degraded, notify.Recovered}) {
		t.Errorf("got %q", kinds)
	}
}
