package operations

import (
	"cmp"
	"context"
	"maps"
	"math"
	"net/http"
	"slices"
	"time"

	"github.com/caddy-tally/caddy-tally/identity"
	"github.com/caddy-tally/caddy-tally/internal/history"
	"github.com/caddy-tally/caddy-tally/internal/instance"
	"github.com/caddy-tally/caddy-tally/internal/operator"
	"github.com/caddy-tally/caddy-tally/storage"
)

// monthLayout is how a month is written.
const monthLayout = "2006-01"

// Usage implements operator.Service.
func (s running) Usage(ctx context.Context, q operator.UsageQuery) (operator.Usage, error) {
	key, err := usageKey(q.Client)
	if err != nil {
		return operator.Usage{}, err
	}
	app, h, err := s.instanceInUse()
	if err != nil {
		return operator.Usage{}, err
	}
	store, err := h.Past()
	if err != nil {
		return operator.Usage{}, err
	}
	told, err := usagePeriod(q, key[0] == identity.TagAPIKey, time.Unix(0, h.Engine.Now()).UTC())
	if err != nil {
		return operator.Usage{}, err
	}
	u := usageSearch{store: store, names: &h.Names, key: key, days: make(map[usageOf]operator.UsageDay)}
	if err := u.search(ctx, app, told.From, told.To); err != nil {
		return operator.Usage{}, err
	}
	told.Days = u.ordered()
	if name := key[1:]; len(told.Days) == 0 && key[0] == identity.TagAPIKey && app.APIKeys.TierOf(name, time.Now()) == "" {
		return operator.Usage{}, operator.Errorf(http.StatusNotFound, "client: there is no API key named %q, and the history has none: caddy rate-limit key list lists them", name)
	}
	return told, nil
}

// usageKey returns the key of a client whose name at rest doesn't change.
func usageKey(client string) (string, error) {
	t, err := operator.ParseTarget(client)
	if err != nil {
		return "", err
	}
	key := ""
	switch t.Kind {
	case operator.APIKey:
		key = string(identity.TagAPIKey) + t.Value
	case operator.KeyText:
		key = string(textKey(t.Value))
	}
	if key == "" {
		return "", operator.Errorf(http.StatusBadRequest, "client: got %q: expected the name of an API key, or key:TEXT: addresses have another name in the history every day", client)
	}
	return key, nil
}

// usagePeriod returns a month, and the part of it that the history still has.
func usagePeriod(q operator.UsageQuery, exact bool, now time.Time) (operator.Usage, error) {
	text := cmp.Or(q.Month, now.Format(monthLayout))
	month, err := time.Parse(monthLayout, text)
	switch {
	case err != nil:
		return operator.Usage{}, operator.Errorf(http.StatusBadRequest, "month: got %.100q: expected a month such as %s", q.Month, now.Format(monthLayout))
	case month.After(now):
		return operator.Usage{}, operator.Errorf(http.StatusBadRequest, "month: %s has not begun", text)
	}
	told := operator.Usage{Client: q.Client, Month: text, From: month, To: month.AddDate(0, 1, 0)}
	keep := storage.KeepHeaviest
	if exact {
		keep = storage.KeepDays
	}
	// Of the oldest day a part may be deleted already.
	kept := now.Add(-keep).Truncate(storage.Day).Add(storage.Day)
	if !told.To.After(kept) {
		return operator.Usage{}, operator.Errorf(http.StatusNotFound, "month: the history of keys begins on %s, after the end of %s", kept.Format(time.DateOnly), text)
	}
	if told.From.Before(kept) {
		told.From = kept
	}
	if told.To.After(now) {
		told.To = now
	}
	return told, nil
}

// usageSearch finds a key in the history.
type usageSearch struct {
	store storage.Historian
	names *instance.Names
	key   string
	days  map[usageOf]operator.UsageDay
}

// usageOf is a limit on a day.
type usageOf struct {
	day string
	storage.Series
}

// search finds the key among the heaviest ones, which are kept for some days, and that of an API key
// in the series of its own.
func (u *usageSearch) search(ctx context.Context, app Config, from, to time.Time) error {
	limits := make(map[storage.Series]bool)
	if u.key[0] == identity.TagAPIKey {
		for _, z := range app.AllZones {
			for _, set := range z.Sets() {
				for _, p := range set.All() {
					limits[storage.Series{Zone: z.Name, Limit: p.Name}] = true
				}
			}
		}
	}
	for day := from; day.Before(to); day = day.Add(storage.Day) {
		if to.Sub(day) > storage.KeepHeaviest+storage.Day { // of an older day there are none
			continue
		}
		heavy, err := u.store.Heaviest(ctx, storage.HistoryQuery{From: day.UnixNano(), To: day.Add(storage.Day).UnixNano()}, math.MaxInt)
		if err != nil {
			return err
		}
		for _, k := range heavy {
			if name, err := u.nameIn(k.Series); err != nil {
				return err
			} else if k.Key == name {
				u.add(day, k.Series, k.Units, k.Refused)
			}
		}
	}
	for of := range limits {
		if err := u.searchExact(ctx, of, from, to); err != nil {
			return err
		}
	}
	return nil
}

// searchExact finds the key's own series of a limit.
func (u *usageSearch) searchExact(ctx context.Context, of storage.Series, from, to time.Time) error {
	name, err := u.nameIn(of)
	if err != nil {
		return err
	}
	points, err := u.store.History(ctx, storage.HistoryQuery{
		Series: history.Of(of, name), From: from.UnixNano(), To: to.UnixNano(), Resolution: storage.Day,
	})
	for _, p := range points {
		u.add(time.Unix(0, p.At).UTC(), of, p.Units, p.Refused+p.WouldRefuse)
	}
	return err
}

// add adds a number for a day. The larger one of two is right: the other one has a part of the day.
func (u *usageSearch) add(day time.Time, of storage.Series, units, refused int64) {
	at := usageOf{day.Format(time.DateOnly), of}
	was := u.days[at]
	u.days[at] = operator.UsageDay{Day: at.day, Zone: of.Zone, Limit: of.Limit, Units: max(was.Units, units), Refused: max(was.Refused, refused)}
}

// ordered returns the usage in the order of time, zones and limits.
func (u *usageSearch) ordered() []operator.UsageDay {
	days := slices.AppendSeq(make([]operator.UsageDay, 0, len(u.days)), maps.Values(u.days))
	slices.SortFunc(days, func(a, b operator.UsageDay) int {
		return cmp.Or(cmp.Compare(a.Day, b.Day), cmp.Compare(a.Zone, b.Zone), cmp.Compare(a.Limit, b.Limit))
	})
	return days
}

// nameIn returns the name at rest of the key in a series.
func (u *usageSearch) nameIn(of storage.Series) (storage.Key, error) {
	names, err := u.names.InHistory(of, u.key)
	if err != nil {
		return names[0], operator.Errorf(http.StatusServiceUnavailable, "the history can't be read: %v", err)
	}
	return names[0], nil
}
