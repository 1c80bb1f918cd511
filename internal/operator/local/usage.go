package local

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
	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/storage"
)

// monthLayout is how a month is written.
const monthLayout = "2006-01"

// Usage implements operator.Service.
func (r running) Usage(ctx context.Context, q operator.UsageQuery) (operator.Usage, error) {
	key, err := usageKey(q)
	if err != nil {
		return operator.Usage{}, err
	}
	app, inst, err := r.instanceInUse()
	if err != nil {
		return operator.Usage{}, err
	}
	store, err := inst.Past()
	if err != nil {
		return operator.Usage{}, err
	}
	zone, err := time.LoadLocation(q.Timezone)
	if err != nil || q.Timezone == "Local" {
		return operator.Usage{}, operator.Errorf(http.StatusBadRequest,
			"timezone: unknown %.100q: expected a name such as Europe/Berlin or America/New_York", q.Timezone)
	}
	usage, err := usagePeriod(q, key[0] == identity.TagAPIKey, time.Unix(0, inst.Engine.Now()).In(zone))
	if err != nil {
		return operator.Usage{}, err
	}
	u := usageSearch{store: store, names: &inst.Names, key: key, resolution: resolutionIn(zone),
		days: []operator.UsageDay{}}
	if q.All {
		usage.Days, err = r.usageOfAll(ctx, app, u, usage)
		return usage, err
	}
	if err := u.search(ctx, app, usage.From, usage.To); err != nil {
		return operator.Usage{}, err
	}
	usage.Days = u.ordered()
	if name := key[1:]; len(usage.Days) == 0 && key[0] == identity.TagAPIKey &&
		app.APIKeys.TierOf(name, time.Now()) == "" {
		return operator.Usage{}, operator.Errorf(http.StatusNotFound,
			"client: there is no API key named %q, and the history has none: caddy rate-limit key list lists them",
			name)
	}
	return usage, nil
}

// usageOfAll returns the usage of all API keys, also of those that were revoked since the audit begins.
func (r running) usageOfAll(ctx context.Context, app runningConfig, u usageSearch,
	in operator.Usage) ([]operator.UsageDay, error) {
	names := app.APIKeys.Names()
	for q := (operator.AuditQuery{N: operator.MaxItems}); ; {
		acts, err := r.Audit(ctx, q)
		if err != nil {
			return nil, err
		}
		for _, act := range acts {
			if t, err := operator.ParseTarget(act.Target); err == nil && t.Kind == operator.APIKey {
				names[t.Value] = true
			}
		}
		if len(acts) < q.N {
			break
		}
		q.Before = acts[len(acts)-1].At
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		u.key = string(identity.TagAPIKey) + name
		from := len(u.days)
		if err := u.search(ctx, app, in.From, in.To); err != nil {
			return nil, err
		}
		for i := range u.days[from:] {
			u.days[from+i].Client = operator.Target{Kind: operator.APIKey, Value: name}.String()
		}
	}
	return u.ordered(), nil
}

// usageKey returns the key of a client whose name at rest doesn't change; of all API keys, how these begin.
func usageKey(q operator.UsageQuery) (string, error) {
	client := q.Client
	if q.All && client == "" {
		return string(identity.TagAPIKey), nil
	}
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
	if key == "" || q.All {
		return "", operator.Errorf(http.StatusBadRequest, "client: got %q: expected the name of an API key, or key:TEXT: addresses have another name in the history every day", client)
	}
	return key, nil
}

// resolutionIn returns the longest period of the history that makes up the days of a time zone.
func resolutionIn(zone *time.Location) time.Duration {
	if zone == time.UTC {
		return storage.Day
	}
	return time.Hour
}

// usagePeriod returns a month in the time zone of now, and the part of it that the history still has.
func usagePeriod(q operator.UsageQuery, exact bool, now time.Time) (operator.Usage, error) {
	text := cmp.Or(q.Month, now.Format(monthLayout))
	month, err := time.Parse(monthLayout, text)
	months, days := calendarOf(limiter.Month, now.Location()), calendarOf(storage.Day, now.Location())
	slot := int64(month.Year()-1970)*12 + int64(month.Month()) - 1
	usage := operator.Usage{Client: q.Client, Month: text, From: beginsIn(months, slot, now),
		To: beginsIn(months, slot+1, now)}
	switch {
	case err != nil:
		return operator.Usage{}, operator.Errorf(http.StatusBadRequest,
			"month: got %.100q: expected a month such as %s", q.Month, now.Format(monthLayout))
	case usage.From.After(now):
		return operator.Usage{}, operator.Errorf(http.StatusBadRequest, "month: %s has not begun", text)
	}
	keep := storage.KeepHeaviest
	switch {
	case exact && now.Location() == time.UTC:
		keep = storage.KeepDays
	case exact:
		keep = storage.KeepHours
	}
	// Of the oldest day a part may be deleted already.
	kept := beginsIn(days, days.Slot(now.Add(-keep).UnixNano())+1, now)
	if !usage.To.After(kept) {
		return operator.Usage{}, operator.Errorf(http.StatusNotFound,
			"month: the history of keys begins on %s, after the end of %s", kept.Format(time.DateOnly), text)
	}
	if usage.From.Before(kept) {
		usage.From = kept
	}
	if written := now.Add(-time.Second).Truncate(time.Minute); usage.To.After(written) { // minutes come when they are over
		usage.To = written
	}
	return usage, nil
}

// calendarOf returns the days or months of a time zone, as limits count them: also where clocks skip midnight, or a
// whole day.
func calendarOf(window time.Duration, zone *time.Location) *limiter.Limit {
	l, err := limiter.New(limiter.Params{Algorithm: limiter.Fixed, Amount: 1, Window: window, Location: zone})
	if err != nil {
		panic(err) // days and months have valid parameters
	}
	return &l
}

// beginsIn returns when a slot of a calendar begins, in the time zone of now.
func beginsIn(calendar *limiter.Limit, slot int64, now time.Time) time.Time {
	return time.Unix(0, calendar.Ends(slot-1)).In(now.Location())
}

// usageSearch finds a key in the history.
type usageSearch struct {
	store      storage.Historian
	names      *instance.Names
	key        string
	resolution time.Duration
	days       []operator.UsageDay
	heaviest   map[int64][]storage.Heavy // by days, which all keys share
}

// search finds the key among the heaviest ones, which are kept for some days, and that of an API key
// in the series of its own.
func (u *usageSearch) search(ctx context.Context, app runningConfig, from, to time.Time) error {
	limits := make(map[storage.Series]map[int64]storage.HeavyKey) // the key by days
	if u.key[0] == identity.TagAPIKey {
		for _, same := range app.limitsOf(app.AllZones) {
			for _, l := range same {
				limits[storage.Series{Zone: l.Zone.Name, Limit: l.Name}] = nil
			}
		}
	}
	calendar := calendarOf(storage.Day, from.Location())
	// of an older day there are none
	oldest := max(from.UnixNano(), to.Add(-storage.KeepHeaviest-storage.Day).UnixNano())
	for day := calendar.Slot(oldest); calendar.Ends(day-1) < to.UnixNano(); day = calendar.Slot(calendar.Ends(day)) {
		if err := ctx.Err(); err != nil {
			return err
		}
		if _, known := u.heaviest[day]; !known {
			heavy, err := u.store.Heaviest(ctx,
				storage.HistoryQuery{From: max(calendar.Ends(day-1), from.UnixNano()), To: calendar.Ends(day)}, math.MaxInt)
			if err != nil {
				return err
			}
			if u.heaviest == nil {
				u.heaviest = make(map[int64][]storage.Heavy)
			}
			u.heaviest[day] = heavy
		}
		for _, k := range u.heaviest[day] {
			if name, err := u.nameIn(k.Series); err != nil {
				return err
			} else if k.Key == name {
				if limits[k.Series] == nil {
					limits[k.Series] = make(map[int64]storage.HeavyKey)
				}
				limits[k.Series][day] = k.HeavyKey
			}
		}
	}
	for series, estimates := range limits {
		q := storage.HistoryQuery{Series: series, From: from.UnixNano(), To: to.UnixNano(), Resolution: u.resolution}
		if err := u.searchLimit(ctx, q, calendar, from, estimates); err != nil {
			return err
		}
	}
	return nil
}

// searchLimit adds the key's use of a limit.
func (u *usageSearch) searchLimit(ctx context.Context, q storage.HistoryQuery, calendar *limiter.Limit, from time.Time,
	estimates map[int64]storage.HeavyKey) error {
	name, err := u.nameIn(q.Series)
	if err != nil {
		return err
	}
	periods, err := sourcesOf(ctx, u.store, q, name)
	days := make(map[int64]sources)
	for at, found := range periods {
		day := calendar.Slot(max(at, from.UnixNano()))
		days[day] = days[day].with(found)
	}
	for day := range estimates {
		if _, counted := days[day]; !counted {
			days[day] = sources{}
		}
	}
	for day, sources := range days {
		use := sources.use(storage.Heavy{Series: q.Series, HeavyKey: estimates[day]})
		if use.Units > 0 || use.Refused > 0 {
			u.days = append(u.days, operator.UsageDay{
				Day: beginsIn(calendar, day, from).Format(time.DateOnly), Zone: use.Zone, Limit: use.Limit,
				Units: use.Units, Refused: use.Refused, Precision: use.Precision,
			})
		}
	}
	return err
}

// ordered returns the usage in the order of clients, time, zones and limits.
func (u *usageSearch) ordered() []operator.UsageDay {
	slices.SortFunc(u.days, func(a, b operator.UsageDay) int {
		return cmp.Or(cmp.Compare(a.Client, b.Client), cmp.Compare(a.Day, b.Day), cmp.Compare(a.Zone, b.Zone), cmp.Compare(a.Limit, b.Limit))
	})
	return u.days
}

// sources are what the history has of a key of a limit in a period, besides its place among the
// heaviest: its own series, that of all keys without room for one, and the limit, of which only the
// keys count.
type sources [3]storage.Point

// sourcesOf returns them by the times of periods.
func sourcesOf(ctx context.Context, store storage.Historian, q storage.HistoryQuery,
	name storage.Key) (map[int64]sources, error) {
	found, limit := make(map[int64]sources), q.Series
	for i, series := range []storage.Series{history.Of(limit, name), history.Of(limit, history.Others), limit} {
		q.Series = series
		points, err := store.History(ctx, q)
		if err != nil {
			return nil, err
		}
		for _, p := range points {
			s := found[p.At]
			s[i] = p
			found[p.At] = s
		}
	}
	return found, nil
}

// with returns the sources of a longer period.
func (s sources) with(more sources) sources {
	for i := range s {
		s[i].Tally.Add(more[i].Tally)
		s[i].Keys = max(s[i].Keys, more[i].Keys)
	}
	return s
}

// keyUse is the use of a limit by a key, and how exact that is.
type keyUse struct {
	storage.Heavy
	operator.Precision
}

// use returns the key's use: that of its own series if there is one, or else the estimate. Without room
// for all keys, a part of the key's use may be among the others'.
func (s sources) use(estimate storage.Heavy) keyUse {
	own, others := s[0].Tally, s[1].Tally
	use := keyUse{Heavy: estimate, Precision: operator.Precision{AtLeast: s[2].Keys > storage.MaxHeaviest}}
	if own.Units+own.Refused == 0 || others != (storage.Tally{}) && own.Units+own.Refused < use.Units+use.Refused {
		return use
	}
	use.Units, use.Refused, use.Exact, use.AtLeast = own.Units, own.Refused, others == storage.Tally{}, false
	return use
}

// nameIn returns the name at rest of the key in a series.
func (u *usageSearch) nameIn(series storage.Series) (storage.Key, error) {
	names, err := u.names.InHistory(series, u.key)
	if err != nil {
		return names[0], operator.Errorf(http.StatusServiceUnavailable, "the history can't be read: %v", err)
	}
	return names[0], nil
}
