package sample

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"math"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/operator"
)

func (s *Service) fill() {
	now := s.now()
	at := func(d time.Duration) *time.Time { t := now.Add(d); return &t }
	s.status = operator.Status{
		Version: "v0.4.0", Started: now.Add(-9*24*time.Hour - 3*time.Hour), History: true,
		Requests:   operator.Counts{Allowed: 14_136_514, Refused: 68_251, Blocked: 59_931, Banned: 2_022, WouldRefuse: 18_204},
		Challenges: operator.Challenges{Shown: 912, Solved: 655, Wrong: 31, GivenUp: 226},
		Stores: []operator.Store{{
			Kind: "sqlite", Path: "/var/lib/caddy/.local/share/caddy/rate_limit/tally.db",
			Keys: 48211, MaxKeys: 1_000_000, Bytes: 37 << 20, Processes: 2,
		}},
		Rules: operator.RulesFile{Path: "/var/lib/caddy/.local/share/caddy/rate_limit/rules", RuleCounts: operator.RuleCounts{Bans: 2, Allowances: 1}},
	}
	s.zones = []operator.Zone{
		{Name: "login", Per: "client", Counts: operator.Counts{Allowed: 61_204, Refused: 9_871, Blocked: 8_040, Banned: 1_120}, Limits: []operator.Limit{{Name: "login", Text: "5/10m"}}},
		{Name: "api", Per: "api_key", Counts: operator.Counts{Allowed: 4_018_332, Refused: 22_410, Blocked: 20_177}, Limits: []operator.Limit{{Name: "api-free", Text: "60/1m", Tier: "free"}, {Name: "api-pro", Text: "1000/1m", Tier: "pro"}}},
		{Name: "search", Per: "ip", Counts: operator.Counts{Allowed: 812_960, Refused: 4_093, Blocked: 3_300, WouldRefuse: 18_204}, Limits: []operator.Limit{{Name: "search", Text: "30/1m burst 10"}, {Name: "search-20/1m", Text: "20/1m", Shadow: true}}},
		{Name: "site", Per: "client", Counts: operator.Counts{Allowed: 9_244_018, Refused: 31_877, Blocked: 28_414, Banned: 902}, Limits: []operator.Limit{{Name: "site", Text: "600/1m"}}},
	}
	s.keys = []operator.Key{
		{Zone: "login", Limit: "5/10m", Text: "203.0.113.77", Kind: "ip", Client: "203.0.113.77", Used: 5, Amount: 5, Refused: 412, BlockedUntil: at(6 * time.Minute)},
		{Zone: "api", Limit: "60/1m", Text: "acme/web", Kind: "api_key", Client: "api-key:acme/web", Tier: "free", Used: 60, Amount: 60, Refused: 238, BlockedUntil: at(21 * time.Second)},
		{Zone: "search", Limit: "30/1m burst 10", Text: "2001:db8:4c1:9::/64", Kind: "ip", Client: "2001:db8:4c1:9::/64", Used: 10, Amount: 10, Refused: 97, BlockedUntil: at(2 * time.Second)},
		{Zone: "site", Limit: "600/1m", Text: "198.51.100.24", Kind: "ip", Client: "198.51.100.24", Used: 600, Amount: 600, Refused: 41, BlockedUntil: at(33 * time.Second)},
		{Zone: "api", Limit: "1000/1m", Text: "globex", Kind: "api_key", Client: "api-key:globex", Tier: "pro", Used: 804, Amount: 1000, Refused: 0},
		{Zone: "site", Limit: "600/1m", Text: "session 9f31c07a", Kind: "session", Client: "session:9f31c07a", Used: 377, Amount: 600},
		{Zone: "site", Limit: "600/1m", Text: "192.0.2.146", Kind: "client", Client: "192.0.2.146", Used: 212, Amount: 600},
		{Zone: "api", Limit: "60/1m", Text: "initech", Kind: "api_key", Client: "api-key:initech", Tier: "free", Used: 17, Amount: 60},
		{Zone: "search", Limit: "30/1m burst 10", Text: "198.51.100.201", Kind: "ip", Client: "198.51.100.201", Used: 3, Amount: 10},
		{Zone: "login", Limit: "5/10m", Text: "192.0.2.9", Kind: "ip", Client: "192.0.2.9", Used: 1, Amount: 5},
	}
	s.bans = []operator.Rule{
		{Action: "ban", Client: "203.0.113.0/24", Text: "203.0.113.0/24", By: "rules", Reason: "scraper, see ticket 4711", Since: at(-26 * time.Hour), Until: at(5*24*time.Hour + time.Hour)},
		{Action: "ban", Client: "198.51.100.81", Text: "198.51.100.81", By: "conduct", Reason: "asked for a trap: /wp-login.php", Zone: "site", Since: at(-14 * time.Minute), Until: at(46 * time.Minute)},
		{Action: "ban", Client: "2001:db8:77:1::/64", Text: "2001:db8:77:1::/64", By: "conduct", Reason: "20 violations in 10 minutes", Zone: "login", Since: at(-3 * time.Hour), Until: at(21 * time.Hour)},
		{Action: "ban", Client: "api-key:umbrella", Text: "umbrella", By: "rules", Reason: "unpaid", Since: at(-12 * 24 * time.Hour)},
		{Action: "allow", Client: "192.0.2.146", Text: "192.0.2.146", By: "rules", Reason: "load test on Tuesday", Since: at(-40 * time.Minute), Until: at(80 * time.Minute)},
	}
	for i := range s.keys {
		s.keys[i].Tag = tagOf(s.keys[i].Client)
	}
	for i := range s.bans {
		s.bans[i].Tag = tagOf(s.bans[i].Client)
	}
	s.acts = []operator.Act{
		{At: now.Add(-40 * time.Minute), By: "maria", Action: "allow", Target: "client 5d0c1e22", Reason: "load test on Tuesday"},
		{At: now.Add(-95 * time.Minute), By: "maria", Action: "reveal", Target: "blocked"},
		{At: now.Add(-2 * time.Hour), By: "admin", Action: "reset", Target: "client a41b7c09", Reason: "support case"},
		{At: now.Add(-26 * time.Hour), By: "jon", Action: "ban", Target: "203.0.113.0/24", Reason: "scraper, see ticket 4711"},
		{At: now.Add(-50 * time.Hour), By: "config", Action: "reload", Target: "4 zones"},
	}
}

var exact = operator.Precision{Exact: true}

// History implements operator.Service: days with more traffic than nights, and an attack.
func (s *Service) History(_ context.Context, q operator.HistoryQuery) (operator.History, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if q.To.IsZero() {
		q.To = s.now()
	}
	if q.From.IsZero() {
		q.From = q.To.Add(-time.Hour)
	}
	q.Resolution = cmp.Or(q.Resolution, 60)
	h := operator.History{Resolution: q.Resolution}
	if s.err != nil || len(s.zones) == 0 {
		return h, s.err
	}
	step := q.Resolution.Duration()
	for at := q.From; at.Before(q.To); at = at.Add(step) {
		allowed, refused := rateAt(at, q.To)
		seconds := step.Seconds()
		h.Points = append(h.Points, operator.HistoryPoint{At: at, Counts: operator.Counts{
			Allowed: int64(allowed * seconds), Refused: int64(refused * seconds), Banned: int64(refused * seconds / 9), WouldRefuse: int64(allowed * seconds / 80),
		}, Keys: int64(allowed * 3)})
	}
	h.Heaviest = []operator.Heavy{
		{Zone: "api", Limit: "1000/1m", Text: "globex", Tag: "3e4467", Units: 1_204_551, Refused: 0, Precision: exact},
		{Zone: "site", Limit: "600/1m", Text: "203.0.113.77", Tag: "3fa9c1", Units: 88_310, Refused: 130_118, Precision: exact},
		{Zone: "search", Limit: "30/1m burst 10", Text: "4f1a90bd51c7e002", Units: 21_004, Refused: 1_207},
	}
	return h, nil
}

// rateAt returns requests per second, which repeat every day.
func rateAt(at, end time.Time) (allowed, refused float64) {
	t := float64(at.UnixMilli()) / 1000
	hour := math.Mod(t/3600, 24)
	allowed = 120 + 70*math.Sin((hour-8)/24*2*math.Pi) + 9*math.Sin(t/37) + 6*math.Sin(t/11) + 7*math.Sin(t/191)
	refused = 7 + 3*math.Sin(t/53) + 2*math.Sin(t/17)
	if before := end.Sub(at); before < 9*time.Minute && before > 4*time.Minute {
		refused += 58 * math.Sin(math.Pi*(before-4*time.Minute).Minutes()/5)
	}
	return math.Max(allowed, 1), math.Max(refused, 0)
}

// Usage implements operator.Service: two days of one key.
func (s *Service) Usage(_ context.Context, q operator.UsageQuery) (operator.Usage, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	day := s.now().UTC().Truncate(24 * time.Hour)
	used := operator.Usage{Client: q.Client, Month: q.Month, From: day.AddDate(0, 0, -1), To: s.now().UTC(), Days: []operator.UsageDay{}}
	if s.err != nil || len(s.zones) == 0 {
		return used, s.err
	}
	for i, units := range []int64{41_200, 18_350} {
		used.Days = append(used.Days, operator.UsageDay{
			Day: used.From.AddDate(0, 0, i).Format(time.DateOnly), Zone: "api", Limit: "100/1m", Units: units, Refused: units / 400, Precision: exact,
		})
	}
	return used, nil
}

// Explain implements operator.Service.
func (s *Service) Explain(_ context.Context, q operator.Question) (operator.Explanation, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	target, err := operator.ParseTarget(q.Client)
	if err != nil || s.err != nil {
		return operator.Explanation{}, firstOf(s.err, err)
	}
	if target.Kind == operator.Reference {
		return operator.Explanation{}, operator.Errorf(http.StatusNotFound, "This reference is not one of this server, or it is too old.")
	}
	name := target.String()
	x := operator.Explanation{
		Client: name, Text: strings.TrimPrefix(name, "api-key:"), Kind: string(target.Kind), Tag: tagOf(name), Tier: "free", TierReason: "no tier says otherwise",
		Next: operator.Forecast{Outcome: "allowed", Text: "passes"},
	}
	for _, key := range s.keys {
		if key.Client != name {
			continue
		}
		x.Limits = append(x.Limits, operator.LimitState{
			Zone: key.Zone, Limit: key.Limit, Text: key.Limit, Counts: key.Text, Tag: key.Tag, Amount: key.Amount, Used: key.Used, Left: key.Amount - key.Used,
			Cost: 1, Refuses: key.BlockedUntil != nil, FreeAt: key.BlockedUntil,
		})
		if key.BlockedUntil != nil {
			x.Reputation = &operator.Reputation{Score: 31, Level: "medium", Violations: []operator.Violation{{At: s.now().Add(-2 * time.Minute), Zone: key.Zone, Reason: "over_limit"}}}
			x.Next = operator.Forecast{Outcome: "over_limit", Status: 429, Zone: key.Zone, Limit: key.Limit, Retry: operator.SecondsOf(key.BlockedUntil.Sub(s.now())), Text: "is refused by limit " + key.Limit + " of zone " + key.Zone}
		}
	}
	if ban := s.ruleLocked(name, "ban"); ban != nil {
		x.Rule = ban
		x.Next = operator.Forecast{Outcome: "banned", Status: 429, Text: "is refused because the client is banned"}
	}
	if allowance := s.ruleLocked(name, "allow"); allowance != nil {
		x.Rule = allowance
		x.Next = operator.Forecast{Outcome: "allowed", Text: "passes: an operator allows it"}
	}
	return x, nil
}

// tagOf returns a tag that a client of the sample could have.
func tagOf(client string) string {
	switch client {
	case "203.0.113.77":
		return "3fa9c1"
	case "203.0.113.0/24":
		return ""
	}
	sum := sha256.Sum256([]byte(client))
	return hex.EncodeToString(sum[:3])
}

func firstOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// tell sends totals each second, and a refusal every two seconds.
func (s *Service) tell(ctx context.Context, events chan<- operator.Event) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	totals := operator.Totals{Counts: operator.Counts{Allowed: 14_136_514, Refused: 68_251, Banned: 2_022, WouldRefuse: 18_204}, Zones: map[string]operator.Counts{}}
	s.mu.Lock()
	for _, zone := range s.zones {
		totals.Zones[zone.Name] = zone.Counts
	}
	s.mu.Unlock()
	for n := 0; ; n++ {
		totals.At = s.now()
		allowed, refused := rateAt(totals.At, totals.At)
		totals.Allowed += int64(allowed)
		totals.Refused += int64(refused)
		totals.Banned += int64(refused / 9)
		totals.WouldRefuse += int64(allowed / 80)
		sent := totals
		sent.Zones = shares(totals.Zones, int64(allowed), int64(refused))
		totals.Zones = sent.Zones
		select {
		case events <- operator.Event{Totals: &sent}:
		case <-ctx.Done():
			return
		}
		if n%2 == 0 {
			refusal := refusals[n/2%len(refusals)]
			refusal.At = totals.At
			select {
			case events <- operator.Event{Refused: &refusal}:
			default:
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

func shares(zones map[string]operator.Counts, allowed, refused int64) map[string]operator.Counts {
	next := make(map[string]operator.Counts)
	for name, counts := range zones {
		counts.Allowed += allowed / int64(len(zones))
		counts.Refused += refused / int64(len(zones))
		next[name] = counts
	}
	return next
}

var refusals = []operator.Refused{
	{Zone: "login", Limit: "5/10m", Text: "203.0.113.0/24", Tag: "3fa9c1", Reason: "blocked", Path: "/login", Agent: "python-requests/2.32.3"},
	{Zone: "api", Limit: "60/1m", Text: "acme/web", Tag: "48eb88", Reason: "over_limit", Path: "/api/v2/*", Agent: "axios/1.7.9"},
	{Zone: "search", Limit: "30/1m burst 10", Text: "2001:db8:4c1::/48", Tag: "2aee12", Reason: "over_limit", Path: "/search", Agent: "Mozilla/5.0 (compatible; ExampleBot/1.2; +https://bot.example/)"},
	{Zone: "site", Limit: "600/1m", Text: "198.51.100.0/24", Tag: "354133", Reason: "banned", Path: "/wp-login.php", Agent: "curl/8.15.0"},
}

// Refusals implements operator.Service. What is asked for besides a zone, a path and a text is ignored.
func (s *Service) Refusals(_ context.Context, q operator.RefusalsQuery) (operator.Refusals, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil || len(s.zones) == 0 {
		return operator.Refusals{}, s.err
	}
	result := operator.Refusals{}
	for i, r := range slices.Concat(s.refused, refusals) {
		if q.Zone != "" && q.Zone != r.Zone || q.Path != "" && q.Path != r.Path || !strings.Contains(r.Path+r.Agent+r.Text, q.Text) {
			continue
		}
		r.At, r.Times = s.now().Add(-time.Duration(i*47+3)*time.Second), 412/(i*i*3+1)
		letIn := r.Times * i
		result.Sampled += r.Times
		result.LetIn += letIn
		result.Latest = append(result.Latest, r)
		share := func(to *[]operator.RefusedShare, text, client, tag string) {
			*to = append(*to, operator.RefusedShare{Text: text, Client: client, Tag: tag, Refused: r.Times, LetIn: letIn})
		}
		share(&result.Paths, r.Path, "", "")
		share(&result.Agents, r.Agent, "", "")
		share(&result.Clients, r.Text, r.Client, r.Tag)
		share(&result.Networks, []string{"203.0.113.0/24", "192.0.2.0/24", "2001:db8:4c1::/48", "198.51.100.0/24"}[i%4], "", "")
		share(&result.Countries, []string{"DE", "AT", "JP", "BR"}[i%4], "", "")
		share(&result.Providers, []string{"AS64496", "AS64497", "AS64498", "AS64499"}[i%4], "", "")
	}
	if q.Path == "" {
		result.Paths = append(result.Paths, operator.RefusedShare{Text: "/about", LetIn: 3})
	}
	return result, nil
}
