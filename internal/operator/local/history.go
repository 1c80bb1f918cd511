package local

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"maps"
	"math"
	"net/http"
	"slices"
	"time"

	"github.com/caddy-tally/caddy-tally/identity"
	"github.com/caddy-tally/caddy-tally/internal/engine"
	"github.com/caddy-tally/caddy-tally/internal/history"
	"github.com/caddy-tally/caddy-tally/internal/instance"
	"github.com/caddy-tally/caddy-tally/internal/operator"
	"github.com/caddy-tally/caddy-tally/storage"
)

// This file serves the history to operators.

// appInUse returns the running configuration.
func (r running) appInUse() (runningConfig, error) {
	cfg := r.config()
	if cfg == nil {
		return runningConfig{}, operator.Errorf(http.StatusConflict, "the running config has no rate limiter")
	}
	return runningConfig{cfg}, nil
}

// instanceInUse returns the running configuration and its instance.
func (r running) instanceInUse() (runningConfig, *instance.Instance, error) {
	app, err := r.appInUse()
	if err != nil {
		return runningConfig{}, nil, err
	}
	inst := app.Instance.Load()
	if inst == nil {
		return runningConfig{}, nil, operator.Errorf(http.StatusServiceUnavailable,
			"the rate limiter has not started yet; try again")
	}
	return app, inst, nil
}

// History implements operator.Service.
func (r running) History(ctx context.Context, q operator.HistoryQuery) (operator.History, error) {
	app, inst, err := r.instanceInUse()
	if err != nil {
		return operator.History{}, err
	}
	store, err := inst.Past()
	if err != nil {
		return operator.History{}, err
	}
	now := inst.Engine.Now()
	wanted := historyQuery(q, now)
	if _, _, err := wanted.Periods(); err != nil {
		return operator.History{}, operator.Errorf(http.StatusBadRequest, "history: %v", err)
	}
	result := operator.History{Resolution: operator.SecondsOf(wanted.Resolution)}
	if result.Points, err = pointsOf(ctx, store, wanted); err != nil {
		return operator.History{}, err
	}
	heaviest, err := heaviestKept(ctx, store, wanted, now)
	if err != nil {
		return operator.History{}, err
	}
	known := app.keysInHistory(inst, heaviest)
	for _, k := range heaviest {
		key, text := known[k.Key], hex.EncodeToString(k.Key[:8])
		if key != "" {
			text = identity.KeyText([]byte(key))
		}
		result.Heaviest = append(result.Heaviest,
			operator.Heavy{Zone: k.Zone, Limit: k.Limit, Text: text, Client: unlessAddress(key),
				Tag: inst.Names.Tag(key), Units: k.Units, Refused: k.Refused, Precision: k.Precision})
	}
	return result, nil
}

// pointsOf returns the points of a query. If it is about no zone they count requests, and the units and keys
// of all zones.
func pointsOf(ctx context.Context, store storage.Historian, q storage.HistoryQuery) ([]operator.HistoryPoint, error) {
	zones, err := store.History(ctx, q)
	if err != nil || q.Zone != "" {
		return historyPoints(zones), err
	}
	q.Series = history.Requests
	requests, err := store.History(ctx, q)
	byTime := make(map[int64]storage.Point)
	for _, r := range requests {
		r.Units = 0 // those of zones are exact
		byTime[r.At] = r
	}
	for _, z := range zones {
		r := byTime[z.At]
		r.At, r.Units, r.Keys = z.At, z.Units, z.Keys
		byTime[z.At] = r
	}
	return historyPoints(slices.SortedFunc(maps.Values(byTime),
		func(a, b storage.Point) int { return cmp.Compare(a.At, b.At) })), err
}

func historyPoints(points []storage.Point) []operator.HistoryPoint {
	list := make([]operator.HistoryPoint, len(points))
	for i, p := range points {
		list[i] = operator.HistoryPoint{
			At:     time.Unix(0, p.At).UTC(),
			Counts: p.Counts, Units: p.Units, Keys: p.Keys,
		}
	}
	return list
}

// heaviestKept returns the heaviest keys in the part of a query's period for which keys are kept.
func heaviestKept(ctx context.Context, store storage.Historian, q storage.HistoryQuery, now int64) ([]keyUse, error) {
	if q.From = max(q.From, now-int64(storage.KeepHeaviest)); q.From >= q.To {
		return nil, nil
	}
	found, err := store.Heaviest(ctx, q, storage.MaxHeaviest)
	heaviest := make([]keyUse, len(found))
	for i, k := range found {
		q.Series, q.Resolution = k.Series, time.Hour
		hours, failed := sourcesOf(ctx, store, q, k.Key)
		err = errors.Join(err, failed)
		var all sources
		for _, hour := range hours {
			all = all.with(hour)
		}
		heaviest[i] = all.use(k)
	}
	slices.SortStableFunc(heaviest, func(a, b keyUse) int { return cmp.Compare(b.Units+b.Refused, a.Units+a.Refused) })
	return heaviest, err
}

// maxChosen is the most points of an automatic resolution, if there is a coarser one.
const maxChosen = 400

// historyQuery returns the store's query for an operator's query at now.
func historyQuery(q operator.HistoryQuery, now int64) storage.HistoryQuery {
	wanted := storage.HistoryQuery{
		Series: storage.Series{Zone: q.Zone, Limit: q.Limit},
		From:   now - int64(time.Hour), To: now + 1, Resolution: q.Resolution.Duration(),
	}
	if !q.To.IsZero() {
		wanted.To = q.To.UnixNano()
		wanted.From = wanted.To - int64(time.Hour)
	}
	if !q.From.IsZero() {
		wanted.From = q.From.UnixNano()
	}
	for _, r := range storage.Rollups {
		if wanted.Resolution != 0 {
			break
		}
		isKept := wanted.From >= now-int64(r.Keep)
		if few := (wanted.To-wanted.From)/int64(r.Resolution) <= maxChosen; isKept && few ||
			r.Resolution == storage.Day {
			wanted.Resolution = r.Resolution
		}
	}
	return wanted
}

// keysInHistory returns the heavy keys that memory still knows, and API keys, by their names at rest.
func (cfg runningConfig) keysInHistory(inst *instance.Instance, heaviest []keyUse) map[storage.Key]string {
	if len(heaviest) == 0 {
		return nil
	}
	limits := cfg.limitsOf(cfg.AllZones)
	known := make(map[storage.Key]string)
	series := make(map[storage.Series]bool)
	for _, k := range heaviest {
		series[k.Series] = true
	}
	for name := range cfg.APIKeys.Names() { // which the config knows, whatever memory has forgotten
		for limit := range series {
			key := string(identity.TagAPIKey) + name
			if names, err := inst.Names.InHistory(limit, key); err == nil {
				known[names[0]], known[names[1]] = key, key
			}
		}
	}
	for _, k := range inst.Engine.Keys(engine.KeysQuery{N: operator.MaxItems,
		Match: func(id storage.LimitID, _ []byte) bool { return limits[id] != nil }}) {
		for _, l := range limits[k.Limit.ID] {
			names, err := inst.Names.InHistory(storage.Series{Zone: l.Zone.Name, Limit: l.Name}, k.Key)
			if err != nil {
				return nil
			}
			known[names[0]], known[names[1]] = k.Key, k.Key
		}
	}
	return known
}

// defaultActs is the default number of listed acts.
const defaultActs = 50

// Audit implements operator.Service.
func (r running) Audit(ctx context.Context, q operator.AuditQuery) ([]operator.Act, error) {
	_, inst, err := r.instanceInUse()
	if err != nil {
		return nil, err
	}
	before, n := int64(math.MaxInt64), max(q.N, 0)
	if !q.Before.IsZero() {
		before = q.Before.UnixNano()
	}
	log := storage.Audit
	if q.Charges {
		log = storage.Charges
	}
	acts, err := inst.Audit.Of(ctx, log, q.Client, before, min(cmp.Or(n, defaultActs), operator.MaxItems))
	if err != nil {
		return nil, err
	}
	sealer := inst.Names.Secret.Load().Sealer(instance.AuditPurpose)
	list := make([]operator.Act, len(acts))
	for i := range acts {
		a := &acts[i]
		name, reason := instance.OpenAct(sealer, a)
		list[i] = operator.Act{At: time.Unix(0, a.At).UTC(), By: a.By, Action: a.Action, Target: targetText(a, name),
			Reason: reason}
	}
	return list, nil
}

// targetText returns the target of an entry: the name of an API key, a provider or a country, or else the kind and
// the beginning of the name at rest.
func targetText(a *storage.Act, name string) string {
	switch {
	case name != "":
		return operator.Target{Kind: operator.TargetKind(a.Kind), Value: name}.String()
	case a.Target == "":
		return a.Kind
	}
	return a.Kind + " " + a.Target[:min(len(a.Target), 16)]
}

// Reveal implements operator.Service.
func (r running) Reveal(ctx context.Context, by, list string) error {
	_, inst, err := r.instanceInUse()
	if err != nil {
		return err
	}
	return noted(inst.Audit.Write(ctx, instance.AuditEntry{By: by, Action: "reveal", Reason: list}))
}

// noted returns the operator's error for a failed write to the audit.
func noted(err error) error {
	if refusal := (*operator.Error)(nil); err != nil && !errors.As(err, &refusal) {
		return operator.Errorf(http.StatusServiceUnavailable, "it can't be noted in the audit: %v", err)
	}
	return err
}
