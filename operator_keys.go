package tally

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/caddy-tally/caddy-tally/identity"
	"github.com/caddy-tally/caddy-tally/internal/operator"
	"github.com/caddy-tally/caddy-tally/limiter/engine"
	"github.com/caddy-tally/caddy-tally/storage"
)

// defaultKeys is how many keys are listed unless somebody asks for more.
const defaultKeys = 20

// Keys implements operator.Service.
func (s running) Keys(_ context.Context, q operator.KeysQuery) ([]operator.Key, error) {
	app, h, err := s.instanceInUse()
	if err != nil {
		return nil, err
	}
	zones, err := app.zonesNamed(q.Zone)
	if err != nil {
		return nil, err
	}
	limits := app.limitsOf(zones)
	wanted := engine.KeysQuery{
		Match: func(id storage.LimitID, _ []byte) bool {
			return limits[id] != nil && !(q.Blocked && limits[id][0].Shadow)
		},
		Blocked: q.Blocked, N: min(cmp.Or(q.N, defaultKeys), operator.MaxItems),
	}
	if q.By == operator.ByRefused {
		wanted.Order = engine.ByRefused
	}
	list, now := []operator.Key{}, time.Now()
	for _, k := range h.Engine.Keys(wanted) {
		listed := listedKey(k, applied(limits[k.Limit.ID], k.Limit), now)
		listed.Tag = h.Tag(k.Key)
		list = append(list, listed)
	}
	if q.By == operator.ByRefused {
		slices.SortStableFunc(list, moreRefused)
	}
	return list, nil
}

// moreRefused orders keys by the requests that were refused, and then by those that would have been.
func moreRefused(a, b operator.Key) int {
	return cmp.Or(cmp.Compare(refusedOf(b), refusedOf(a)), cmp.Compare(b.Refused, a.Refused))
}

// refusedOf returns how many requests of a key were refused, which a shadow limit refuses none of.
func refusedOf(k operator.Key) int64 {
	if k.Shadow {
		return 0
	}
	return k.Refused
}

// listedKey describes a key that a limit counts.
func listedKey(k engine.KeyState, p tierLimit, now time.Time) operator.Key {
	told := operator.Key{
		Zone: p.Zone.Name, Limit: p.Name, Shadow: p.Shadow, Tier: p.tier, Kind: kindOf(k.Key), Client: targetOf(k.Key),
		Text: cmp.Or(identity.KeyText([]byte(k.Key)), "all together"),
		Used: k.Used, Amount: k.Limit.Capacity(), Refused: k.Refused,
	}
	if k.Blocked > 0 {
		until := now.Add(k.Blocked).UTC().Truncate(time.Second)
		told.BlockedUntil = &until
	}
	return told
}

// kindOf returns what kind of client a key is.
func kindOf(key string) string {
	switch key[0] {
	case identity.TagNetwork:
		return "network"
	case identity.TagFingerprint:
		return "client"
	case identity.TagAPIKey:
		return "api_key"
	case identity.TagSession:
		return "session"
	case identity.TagEveryone:
		return "all"
	case identity.TagService:
		return "service"
	case identity.TagUnknown:
		return "unknown"
	}
	return "key"
}
