package replay

import (
	"fmt"
	"math"
	"slices"
	"sort"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/wording"
	"github.com/caddy-tally/caddy-tally/limiter"
)

// Suggestion is an amount for a limit, with its reason.
type Suggestion struct {
	Zone    string `json:"zone"`
	Limit   string `json:"limit"`
	Amount  int64  `json:"amount"`
	Window  string `json:"window"`
	Now     int64  `json:"now,omitempty"`    // the amount that is configured
	Shadow  bool   `json:"shadow,omitempty"` // the limit refuses nothing
	Reason  string `json:"reason"`
	Clients int64  `json:"clients"` // that it would have refused something
}

const (
	// fewClients is the number of clients below which a log doesn't justify a suggestion.
	fewClients = 20
	// spare is the ratio of the suggested amount to honest clients' demand.
	spare = 1.5
)

// suggest suggests an amount for the limit: the demand of 99.9 % of the clients that aren't mostly
// answered with an error, half as much again, and rounded up to 1, 2 or 5. If it can't, the amount
// is 0 and the reason explains that. It returns nil for a limit without clients, such as a ban.
func (s *series) suggest(reveal bool) *Suggestion {
	if s.demand == nil {
		return nil
	}
	honest, attackers := s.honest()
	all := len(honest)
	honest = withoutOutliers(honest)
	switch {
	case s.Shared:
		return s.suggestion(0, "All clients share it, so what a client wants says nothing about it.")
	case len(honest) < fewClients:
		return s.suggestion(0,
			fmt.Sprintf("It takes %d clients that weren't mostly answered with 400, 401, 403 or 404. There were %d.",
				fewClients, len(honest)))
	}
	want := quantile(honest, .999)
	amount, how := RoundUp(float64(want)*spare), "this is half as much again, rounded up"
	if s.Amount < amount && s.Amount >= honest[len(honest)-1] {
		amount, how = s.Amount, "so the present limit is enough"
	}
	sg := s.suggestion(amount, "")
	over := len(honest) - sort.Search(len(honest), func(i int) bool { return honest[i] > amount })
	sg.Reason = fmt.Sprintf("Of %s, 99.9 %% want at most %s in %s; %s. It would refuse %s of them",
		wording.Counted(int64(len(honest)), "client"), wording.Number(want), sg.Window, how,
		wording.Number(int64(over)))
	if attackers > 0 {
		sg.Reason += fmt.Sprintf(
			", and %s of the %s that were left aside because they were mostly answered with 400, 401, 403 or 404",
			wording.Number(sg.Clients-int64(over)-int64(all-len(honest))), wording.Number(int64(attackers)))
	}
	sg.Reason += "."
	if n := all - len(honest); n > 0 {
		sg.Reason += s.peaks.leftOut(n, honest[len(honest)-1], reveal)
	}
	return sg
}

// honest returns the ascending peaks of the honest clients, and the number of other clients.
func (s *series) honest() (ascending []int64, others int) {
	s.demand.clients.each(func(_ uint64, c *client) {
		if c.isHonest() {
			ascending = append(ascending, c.peak)
		} else {
			others++
		}
	})
	slices.Sort(ascending)
	return ascending, others
}

// isHonest reports whether the client wasn't mostly answered with an error.
func (c *client) isHonest() bool { return 2*c.errors <= c.requests }

// suggestion returns a suggestion of an amount.
func (s *series) suggestion(amount int64, reason string) *Suggestion {
	sg := &Suggestion{
		Zone: s.Zone, Limit: s.Name, Amount: amount, Window: windowText(s.demand.limit.Window()), Now: s.Amount,
		Reason: reason, Shadow: s.Shadow,
	}
	s.demand.clients.each(func(_ uint64, c *client) {
		if amount > 0 && c.peak > amount {
			sg.Clients++
		}
	})
	return sg
}

// RoundUp returns the least round number that is at least f.
func RoundUp(f float64) int64 {
	if i := slices.IndexFunc(round, func(n int64) bool { return float64(n) >= f }); i >= 0 {
		return round[i]
	}
	return math.MaxInt64
}

// windowText formats a window as in a Caddyfile: 24h, 10m, 1m30s.
func windowText(d time.Duration) string {
	if d == limiter.Month {
		return "month"
	}
	return wording.Duration(d)
}
