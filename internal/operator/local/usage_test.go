package local

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/caddy-tally/caddy-tally/identity"
	"github.com/caddy-tally/caddy-tally/internal/operator"
	"github.com/caddy-tally/caddy-tally/storage"
)

// emptyHistory is a history without counts, which notes what it is asked for.
type emptyHistory struct {
	storage.Historian
	asked []storage.HistoryQuery
	then  func() // called with each query
}

func (h *emptyHistory) Heaviest(_ context.Context, q storage.HistoryQuery, _ int) ([]storage.Heavy, error) {
	h.asked = append(h.asked, q)
	if h.then != nil {
		h.then()
	}
	return nil, nil // like a store that looks at no context
}

// monthIn returns the period of a month in a time zone, as of shortly after it.
func monthIn(t *testing.T, place, month string) operator.Usage {
	t.Helper()
	zone, err := time.LoadLocation(place)
	if err != nil {
		t.Skipf("this machine doesn't know the time zone %s", place)
	}
	begins, err := time.Parse(monthLayout, month)
	if err != nil {
		t.Fatal(err)
	}
	usage, err := usagePeriod(operator.UsageQuery{Month: month}, true, begins.AddDate(0, 1, 2).In(zone))
	if err != nil {
		t.Fatalf("%s %s: %v", place, month, err)
	}
	return usage
}

// The usage of a month is asked for day by day, each once and without a gap, also where clocks skip a
// midnight, show it twice, or where a whole day is left out.
func TestUsageOfDaysWithoutMidnight(t *testing.T) {
	for _, month := range []struct {
		place, month string
		hours        int
	}{
		{"America/Santiago", "2026-09", 30*24 - 1}, {"America/Santiago", "2026-04", 30*24 + 1},
		{"America/Havana", "2026-03", 31*24 - 1}, {"America/Havana", "2026-11", 30*24 + 1},
		{"Atlantic/Azores", "2026-03", 31*24 - 1}, {"Atlantic/Azores", "2026-10", 31*24 + 1},
		{"America/Asuncion", "2017-10", 31*24 - 1}, {"Africa/Cairo", "2026-04", 30*24 - 1},
		{"Pacific/Apia", "2011-12", 30 * 24}, {"UTC", "2026-02", 28 * 24}, {"Europe/Berlin", "2026-03", 31*24 - 1},
	} {
		usage := monthIn(t, month.place, month.month)
		if took := usage.To.Sub(usage.From); took != time.Duration(month.hours)*time.Hour {
			t.Errorf("%s %s takes %v, want %d hours", month.place, month.month, took, month.hours)
		}
		store := new(emptyHistory)
		u := usageSearch{store: store, key: string(identity.TagText) + "x"}
		if err := u.search(t.Context(), runningConfig{}, usage.From, usage.To); err != nil {
			t.Fatal(err)
		}
		oldest := usage.To.Add(-storage.KeepHeaviest).UnixNano()
		for i, q := range store.asked {
			if i > 0 && q.From != store.asked[i-1].To || q.From >= q.To {
				t.Errorf("%s %s: asked for %v", month.place, month.month, store.asked)
			}
		}
		if last := len(store.asked) - 1; last < 6 || last > 9 || store.asked[0].From > oldest || store.asked[last].To != usage.To.UnixNano() {
			t.Errorf("%s %s: asked for %d days", month.place, month.month, last+1)
		}
	}
}

// A caller who is gone makes no further calls of the store.
func TestUsageEndsWithItsCaller(t *testing.T) {
	usage := monthIn(t, "America/Santiago", "2026-09")
	ctx, leave := context.WithCancel(t.Context())
	store := &emptyHistory{then: leave}
	u := usageSearch{store: store, key: string(identity.TagText) + "x"}
	if err := u.search(ctx, runningConfig{}, usage.From, usage.To); !errors.Is(err, context.Canceled) || len(store.asked) != 1 {
		t.Errorf("%d calls, %v", len(store.asked), err)
	}
}

// A month has a beginning and an end in every time zone, however far away it is.
func TestMonthsOutOfReach(t *testing.T) {
	now := time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)
	for _, month := range []string{"0001-01", "1677-01", "1969-12", "2026-12", "2262-05", "9999-12"} {
		if usage, err := usagePeriod(operator.UsageQuery{Month: month}, true, now); err == nil {
			t.Errorf("%s: %v", month, usage)
		}
	}
	if !slices.IsSortedFunc([]time.Time{monthIn(t, "Pacific/Kwajalein", "1993-08").From, monthIn(t, "Pacific/Kwajalein", "1993-08").To}, time.Time.Compare) {
		t.Error("a month without one of its days ends before it begins")
	}
}

// A usage of the current month ends with the last minute that the history has.
func TestUsageEndsWithAWholeMinute(t *testing.T) {
	at := time.Date(2026, 11, 29, 13, 48, 0, 0, time.UTC)
	for after, want := range map[time.Duration]time.Time{30 * time.Second: at, time.Second: at, 500 * time.Millisecond: at.Add(-time.Minute)} {
		usage, err := usagePeriod(operator.UsageQuery{}, true, at.Add(after))
		if err != nil || !usage.To.Equal(want) {
			t.Errorf("%v after 13:48 it ends at %v, want %v (%v)", after, usage.To, want, err)
		}
	}
}
