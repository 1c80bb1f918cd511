package operations

import (
	"cmp"
	"context"
	"math"
	"net/http"
	"slices"
	"time"

	"github.com/caddy-tally/caddy-tally/identity"
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
	told, err := usagePeriod(q, time.Unix(0, h.Engine.Now()).UTC())
	if err != nil {
		return operator.Usage{}, err
	}
	u := usageSearch{names: &h.Names, key: key, known: make(map[storage.Series]storage.Key)}
	if told.Days, err = u.days(ctx, store, told.From, told.To); err != nil {
		return operator.Usage{}, err
	}
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
func usagePeriod(q operator.UsageQuery, now time.Time) (operator.Usage, error) {
	text := cmp.Or(q.Month, now.Format(monthLayout))
	month, err := time.Parse(monthLayout, text)
	switch {
	case err != nil:
		return operator.Usage{}, operator.Errorf(http.StatusBadRequest, "month: got %.100q: expected a month such as %s", q.Month, now.Format(monthLayout))
	case month.After(now):
		return operator.Usage{}, operator.Errorf(http.StatusBadRequest, "month: %s has not begun", text)
	}
	told := operator.Usage{Client: q.Client, Month: text, From: month, To: month.AddDate(0, 1, 0)}
	// Of the oldest day a part may be deleted already.
	kept := now.Add(-storage.KeepHeaviest).Truncate(storage.Day).Add(storage.Day)
	if !told.To.After(kept) {
		return operator.Usage{}, operator.Errorf(http.StatusNotFound, "month: the history of keys begins on %s, after the end of %s: export usage every few days to keep it longer", kept.Format(time.DateOnly), text)
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
	names *instance.Names
	key   string
	known map[storage.Series]storage.Key // its names at rest
}

// days returns the usage on each day of a period, which begins with a day.
func (u usageSearch) days(ctx context.Context, store storage.Historian, from, to time.Time) ([]operator.UsageDay, error) {
	days := []operator.UsageDay{}
	for day := from; day.Before(to); day = day.Add(storage.Day) {
		heavy, err := store.Heaviest(ctx, storage.HistoryQuery{From: day.UnixNano(), To: day.Add(storage.Day).UnixNano()}, math.MaxInt)
		if err != nil {
			return nil, err
		}
		slices.SortFunc(heavy, func(a, b storage.Heavy) int {
			return cmp.Or(cmp.Compare(a.Zone, b.Zone), cmp.Compare(a.Limit, b.Limit))
		})
		for _, k := range heavy {
			name, err := u.nameIn(k.Series)
			if err != nil {
				return nil, operator.Errorf(http.StatusServiceUnavailable, "the history can't be read: %v", err)
			}
			if k.Key == name {
				days = append(days, operator.UsageDay{Day: day.Format(time.DateOnly), Zone: k.Zone, Limit: k.Limit, Units: k.Units, Refused: k.Refused})
			}
		}
	}
	return days, nil
}

// nameIn returns the name at rest of the key in a series.
func (u usageSearch) nameIn(of storage.Series) (storage.Key, error) {
	if name, ok := u.known[of]; ok {
		return name, nil
	}
	names, err := u.names.InHistory(of, u.key)
	u.known[of] = names[0]
	return names[0], err
}
