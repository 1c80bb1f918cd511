package tally

import (
	"context"
	"net/http"
	"time"

	"github.com/caddy-tally/caddy-tally/identity"
	"github.com/caddy-tally/caddy-tally/internal/operator"
	"github.com/caddy-tally/caddy-tally/limiter/engine"
)

// Bans implements operator.Service. Those that memory doesn't hold, because their clients
// haven't been seen since Caddy started, aren't listed.
func (s running) Bans(context.Context) ([]operator.Ban, error) {
	app, h, err := s.instanceInUse()
	if err != nil {
		return nil, err
	}
	statements, err := app.listStatements()
	if err != nil {
		return nil, operator.Errorf(http.StatusConflict, "%v", err)
	}
	bans, now := []operator.Ban{}, time.Now()
	for _, s := range h.Shared.List() {
		if len(bans) < operator.MaxItems {
			bans = append(bans, *ruleOf(&s, byStore))
		}
	}
	for i := range statements {
		s := &statements[i]
		if ended := !s.Until.IsZero() && !now.Before(s.Until); !ended && len(bans) < operator.MaxItems {
			bans = append(bans, *ruleOf(s, byRules))
		}
	}
	earned := h.Engine.Clients(engine.ClientsQuery{
		Banned: true, N: operator.MaxItems - len(bans),
		Match: func(key []byte) bool { return key[0] != identity.TagNetwork }, // a network is squeezed, not banned
	})
	for _, c := range earned {
		ban := app.banOf(c, h.Engine.Now(), now)
		ban.Tag = h.Tag(c.Key)
		bans = append(bans, *ban)
	}
	for i := range bans {
		if bans[i].Tag == "" {
			bans[i].Tag = app.tagOf(h, bans[i].Client)
		}
	}
	return bans, nil
}
