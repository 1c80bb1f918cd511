package local

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/caddy-tally/caddy-tally/identity"
	"github.com/caddy-tally/caddy-tally/internal/advice"
	"github.com/caddy-tally/caddy-tally/internal/enforce"
	"github.com/caddy-tally/caddy-tally/internal/engine"
	"github.com/caddy-tally/caddy-tally/internal/instance"
	"github.com/caddy-tally/caddy-tally/internal/listener"
	"github.com/caddy-tally/caddy-tally/internal/meter"
	"github.com/caddy-tally/caddy-tally/internal/operator"
	"github.com/caddy-tally/caddy-tally/internal/rules"
	"github.com/caddy-tally/caddy-tally/internal/wording"
	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/storage"
)

// Explain implements operator.Service.
func (r running) Explain(ctx context.Context, q operator.Question) (operator.Explanation, error) {
	t, err := r.target(ctx, q.Client)
	if err != nil {
		return operator.Explanation{}, err
	}
	x := &explainer{subject: t, Now: time.Now(), Answer: operator.Explanation{
		Client: t.String(), Text: t.String(), Kind: string(t.Kind), Limits: []operator.LimitState{},
	}}
	x.Answer.Advice = adviceOf(t.Config.Config, advice.UntrustedProxy)
	x.explainReference()
	x.Answer.Tag = x.tag()
	x.explainRecord()
	x.explainRule()
	if err := x.note(ctx, q); err != nil {
		return operator.Explanation{}, err
	}
	if x.isUnknown() {
		return operator.Explanation{}, operator.Errorf(http.StatusNotFound, "%s: nothing is known of it%s", t, t.unknownHint())
	}
	if q.URL != "" {
		err = x.explainRequest(ctx, q)
	} else {
		x.explainCounts(ctx)
	}
	x.explainConnections()
	if t.Instance.Engine.Degraded() && len(x.Answer.Limits) > 0 {
		x.Answer.Next.Text += "; the store can't be used, so memory decides, with smaller limits"
	}
	return x.Answer, err
}

// explainConnections says if the target's requests don't get as far as to a handler.
func (ex *explainer) explainConnections() {
	if ex.Kind != operator.Address {
		return
	}
	for _, d := range ex.Config.Doors {
		o := d.Forecast(ex.Network.Addr(), ex.Now)
		if o < listener.Banned {
			continue
		}
		outcome, why := meter.Outcomes[engine.OverLimit], fmt.Sprintf("because it has %d open", d.Most)
		switch o {
		case listener.Banned:
			outcome, why = meter.Outcomes[engine.Banned], "because its address is banned"
		case listener.TooManyNew:
			why = "because it opened too many: the limit is " + enforce.LimitText(d.Limit)
		}
		ex.Answer.Next = operator.Forecast{Outcome: outcome, Zone: enforce.BeforeTLS,
			Limit: enforce.BeforeTLSLimits[o-listener.Banned],
			Text:  "doesn't get that far: its connections are closed before TLS, " + why}
		return
	}
}

// note writes a question to the audit, if it asks for that.
func (ex *explainer) note(ctx context.Context, q operator.Question) error {
	if !q.Note {
		return nil
	}
	return noted(ex.Instance.Audit.Write(ctx, instance.AuditEntry{By: q.By, Action: "explain", Target: &ex.Target}))
}

// explainReference explains the content of a reference. It continues with the client of the
// reference, if memory still knows it.
func (ex *explainer) explainReference() {
	r := ex.Referred
	if r == nil {
		return
	}
	ex.Answer.Refusal = r.Describe()
	var limit *engine.Limit
	if r.Policy != nil {
		limit = &r.Policy.Limit
	}
	key, ok := ex.Instance.Engine.KeyNamed(limit, r.Name)
	if !ok {
		return
	}
	r.Key, ex.Answer.Text = key, identity.KeyText([]byte(key))
	if named := targetOf(key); named != "" {
		if t, err := operator.ParseTarget(named); err == nil {
			ex.Target, ex.Referred = t, nil
			ex.Answer.Client, ex.Answer.Kind = t.String(), string(t.Kind)
		}
	}
}

// isUnknown reports whether there is no trace of the target. An address may make a first request,
// and so may the owner of a new key, but an API key or a session must be in force.
func (ex *explainer) isUnknown() bool {
	if ex.Answer.Rule != nil || ex.Answer.Reputation != nil || ex.Answer.Refusal != nil {
		return false
	}
	switch ex.Kind {
	case operator.KeyText:
		return !slices.ContainsFunc(ex.Config.AllZones, func(z *enforce.Zone) bool { return z.Per == enforce.PerKey })
	case operator.APIKey, operator.Session:
		return ex.keyTier() == "" &&
			len(
				ex.Instance.Engine.Keys(engine.KeysQuery{N: 1,
					Match: func(_ storage.LimitID, key []byte) bool { return ex.isIn(string(key)) }})) == 0
	}
	return false
}

// explainRecord adds the worst record of the target's clients.
func (ex *explainer) explainRecord() {
	list := ex.clients(1)
	if len(list) == 0 || list[0].Record.At == 0 {
		return
	}
	c, now := list[0], ex.Instance.Engine.Now()
	if c.Key[0] == identity.TagNetwork { // the record of a network means throttling
		ex.Answer.Squeezed = ex.in(c.Banned)
		return
	}
	reputation := &operator.Reputation{Score: c.Record.Score(now), Level: c.Record.LevelAt(now).String()}
	ex.share = c.Record.LevelAt(now).Share()
	for _, v := range slices.Backward(c.Record.Past) {
		reputation.Violations = append(reputation.Violations, operator.Violation{
			At: ex.Now.Add(time.Duration(v.At - now)).UTC().Truncate(time.Second), Zone: ex.Config.ZoneNames[v.Zone],
			Reason: v.Reason.String(),
		})
	}
	ex.Answer.Reputation = reputation
	if c.Banned > 0 {
		ex.Answer.Ban = ex.Config.banOf(c, now, ex.Now)
	}
}

// banOf describes the automatic ban of a client. now is the engine's time and wall the clock's.
func (cfg runningConfig) banOf(c engine.ClientRecord, now int64, wall time.Time) *operator.Rule {
	ban := &operator.Rule{
		Action: operator.Ban, By: "conduct", Client: targetOf(c.Key),
		Text:  cmp.Or(identity.KeyText([]byte(c.Key)), "a client that isn't known by a name"),
		Until: ends(wall.Add(c.Banned)),
	}
	if n := len(c.Record.Past); n > 0 {
		last := c.Record.Past[n-1]
		ban.Reason, ban.Zone = last.Reason.String(), cfg.ZoneNames[last.Zone]
		ban.Since = new(wall.Add(time.Duration(last.At - now)).UTC().Truncate(time.Second))
	}
	return ban
}

// explainRule adds the operator's rule about the target.
func (ex *explainer) explainRule() {
	found := ex.ruleIn(ex.Config.Stated.Now(), ex.Now)
	if found == nil && ex.Kind == operator.Address {
		ex.Answer.Rule = ruleOf(ex.Config.Listed(ex.Network.Addr(), ex.Now), byList)
		return
	}
	ex.Answer.Rule = ruleOf(found, byRules)
	if found != nil && ex.Instance.Shared.Has(found) {
		ex.Answer.Rule.By = byStore
	}
}

// The places of operators' rules.
const (
	byRules = "rules" // in the file of this machine
	byStore = "store" // in the store, for all machines that share it
	byList  = "list"  // in a block list, which the reason names
)

// ruleOf describes an operator's rule. It returns nil for nil.
func ruleOf(s *rules.Rule, by string) *operator.Rule {
	if s == nil {
		return nil
	}
	client := s.Target.In("").String()
	ban := &operator.Rule{Action: operator.Action(s.Action.String()), Factor: rules.FormatFactor(s.Percent),
		Zone: s.Target.Zone, Client: client, Text: client, By: by, Reason: s.Reason}
	if !s.Until.IsZero() {
		ban.Until = new(s.Until.UTC())
	}
	return ban
}

// explainCounts adds the state of each limit that counts the target. It assumes that the next
// request costs as much as the refused one, if that is known, or else the zone's default cost.
func (ex *explainer) explainCounts(ctx context.Context) {
	if ex.Answer.Tier = ex.keyTier(); ex.Answer.Tier != "" {
		ex.Answer.TierReason = ofItsKey
	}
	worst := engine.Decision{Allowed: true}
	var by *enforce.Policy
	var shadows []*enforce.Policy
	var explained []countedKey
	for _, c := range ex.countedKeys(ex.Config.AllZones, maxExplained) {
		if c.key == "" || !ex.applies(c) {
			continue // the counts of a reference's client are unknown
		}
		debit := engine.Debit{Limit: &c.Limit, Penalty: c.Penalty, Key: []byte(c.key), Cost: ex.nextCost(c.Zone)}
		if c.Scaling != nil {
			debit.Scaling, debit.Client = c.Scaling, &engine.Client{Key: debit.Key}
		}
		ex.raise(c.Policy, &debit)
		explained = append(explained, c)
		switch d := ex.explainLimit(ctx, c.Policy, debit); {
		case d.Allowed:
		case c.Shadow:
			shadows = append(shadows, c.Policy)
		case worst.Allowed || d.Retry == limiter.Never || d.Retry > worst.Retry && worst.Retry != limiter.Never:
			worst, by = d, c.Policy
		}
	}
	ex.Answer.Limits = ex.inUse(explained, ex.Answer.Limits)
	switch {
	case ex.Kind == operator.APIKey && ex.Answer.Tier == "": // an allowance is no key
		ex.Answer.Next = ex.withoutKey()
	case ex.Answer.Rule != nil && ex.Answer.Rule.Action == operator.Allow:
		ex.Answer.Next = operator.Forecast{Outcome: "allowed", Text: "passes: an operator allows it"}
	case ex.Answer.Rule != nil:
		ex.Answer.Next = ex.refuses("banned", enforce.BanName, enforce.BanName,
			time.Until(*cmp.Or(ex.Answer.Rule.Until, &time.Time{})), ex.bannedBy())
	case ex.Answer.Ban != nil:
		ex.Answer.Next = ex.refuses("banned", enforce.BanName, enforce.BanName, time.Until(*ex.Answer.Ban.Until),
			"because the client is banned for what it did")
	case by != nil:
		ex.Answer.Next = ex.refusedByDebit(worst, by, ex.nextCost(by.Zone))
	case ex.Answer.Refusal != nil && len(explained) == 0:
		ex.Answer.Next = operator.Forecast{Outcome: "unknown",
			Text: "isn't known: memory doesn't hold the client any more; ask with its address, api-key:NAME or key:TEXT"}
	default:
		ex.Answer.Next = addShadows(operator.Forecast{Outcome: "allowed", Text: "passes" + ex.assumption(explained) + ex.placesText()},
			shadows)
	}
}

// withoutKey returns the forecast for the name of API keys of which none is in force.
func (ex *explainer) withoutKey() operator.Forecast {
	const why = ": no API key of that name is in force"
	asks := func(z *enforce.Zone) bool { return z.Tiers || z.Per == enforce.PerAPIKey }
	c := ex.Config.APIKeys.CredentialsOf(ex.Value, ex.Now)
	if c.Denied == nil || !slices.ContainsFunc(ex.Config.AllZones, asks) {
		return operator.Forecast{Outcome: "unknown", Text: "counts as without a key" + why}
	}
	return operator.Forecast{Outcome: "denied", Status: c.Denied.Status, Text: "is denied" + why}
}

// bannedBy says whose rule bans the client.
func (ex *explainer) bannedBy() string {
	switch rule := ex.Answer.Rule; {
	case rule == nil || rule.Action != operator.Ban: // by a key of the request
		return "because an operator or a block list has banned the client"
	case rule.By == byList:
		return "because the client is in a block list"
	}
	return "because an operator has banned the client"
}

// nextCost returns the assumed cost of the next request in a zone.
func (ex *explainer) nextCost(z *enforce.Zone) int64 {
	if r := ex.Answer.Refusal; r != nil && r.Zone == z.Name && r.Cost > 0 {
		return r.Cost
	}
	return max(z.Cost.Fixed, 1)
}

// assumption describes the assumed cost of the next request, if costs vary, and names zones that count an
// address's requests by something else.
func (ex *explainer) assumption(keys []countedKey) string {
	var others []string
	for _, z := range ex.Config.AllZones {
		if !ex.tellsKey(z) && !slices.ContainsFunc(ex.Answer.Limits,
			func(l operator.LimitState) bool { return l.Zone == z.Name }) {
			others = append(others, z.Name)
		}
	}
	if len(others) > 0 {
		return ", unless zone " + strings.Join(others, " or ") +
			" refuses it, which doesn't count by address: ask with a URL"
	}
	for _, c := range keys {
		if z := c.Zone; len(z.Costs) > 0 || z.Cost.From != "" {
			return fmt.Sprintf(" if it costs %d in zone %s, where costs differ", ex.nextCost(z), z.Name)
		}
	}
	return ""
}

// placesText describes how many of the target's requests may be in flight, or "".
func (ex *explainer) placesText() (text string) {
	for _, z := range ex.Config.AllZones {
		if z.Concurrency != nil && len(ex.keysIn(z)) > 0 {
			text += placesText(z)
		}
	}
	return text
}

// tellsKey reports whether the target's name tells its key in a zone. An address doesn't tell what a key of the
// request is, nor how many requests of everyone there are.
func (ex *explainer) tellsKey(z *enforce.Zone) bool {
	switch {
	case ex.Kind != operator.Address:
		return true
	case z.Per == enforce.PerKey && !isAddress(z):
		_, ok := ex.Config.KeyOf(z, ex.Network.Addr())
		return ok
	}
	return z.Per != enforce.PerEveryone
}

// applies reports whether a limit applies to the target: those of other tiers don't.
func (ex *explainer) applies(c countedKey) bool {
	tier, known := ex.tierIn(c.Zone)
	return !known || c.tier == tier || c.held && ex.Kind != operator.APIKey
}

// inUse returns the states of keys. It omits keys that only follow from the target's name and have
// no counts, if there is another key of the same limit, or if requests may have other keys.
func (ex *explainer) inUse(keys []countedKey, states []operator.LimitState) (kept []operator.LimitState) {
	shown := make(map[storage.LimitID]bool)
	for i, c := range keys {
		shown[c.ID] = shown[c.ID] || c.held || states[i].Used > 0
	}
	kept = []operator.LimitState{}
	for i, c := range keys {
		if c.held || states[i].Used > 0 || !shown[c.ID] && ex.tellsKey(c.Zone) {
			kept, shown[c.ID] = append(kept, states[i]), true
		}
	}
	return kept
}

// explainer collects the explanation of a target.
type explainer struct {
	*subject
	Now    time.Time
	Answer operator.Explanation

	share   int               // of its limits in percent, because of its score
	shadows []*enforce.Policy // that would refuse the request, of all handlers
}

// in returns the time after the engine's wait.
func (ex *explainer) in(wait time.Duration) *time.Time {
	if wait <= 0 || wait == limiter.Never {
		return nil
	}
	return ends(ex.Now.Add(wait))
}

// ends returns when something that refuses ends: rounded up to a second, so that it has ended then.
func ends(t time.Time) *time.Time { return new(t.Add(time.Second - 1).UTC().Truncate(time.Second)) }

// maxExplained bounds the limits of an explanation.
const maxExplained = 100

// refusedByDebit returns the forecast of a request that one of its debits refuses.
func (ex *explainer) refusedByDebit(d engine.Decision, p *enforce.Policy, cost int64) operator.Forecast {
	f := ex.refuses(meter.Outcomes[d.Reason], p.Zone.Name, p.Name, d.Retry, "by limit "+p.Name+" of zone "+p.Zone.Name)
	if p.Penalty != nil {
		f.Text += ", which has block " + wording.Duration(p.Penalty.For)
	}
	if r := (&enforce.Refusal{Policy: p, Cost: cost}); r.NeverPasses() {
		f.Status = r.Status()
		f.Text += fmt.Sprintf(": it costs %d, and the limit is %d, so it never passes", cost, p.Capacity())
	}
	return f
}

// refuses returns the forecast of a refusal.
func (ex *explainer) refuses(outcome, zone, limit string, retry time.Duration, why string) operator.Forecast {
	f := operator.Forecast{Outcome: outcome, Status: http.StatusTooManyRequests, Zone: zone, Limit: limit,
		Text: "is refused " + why}
	if retry > 0 && retry != limiter.Never {
		f.Retry = operator.SecondsOf(retry)
	}
	return f
}

// explainLimit adds the state of a debit's limit, and returns the decision of that limit alone.
func (ex *explainer) explainLimit(ctx context.Context, p *enforce.Policy, debit engine.Debit) engine.Decision {
	cost, whole, text := debit.Cost, p.Rate, p.Text()
	if r := debit.Raise; r != nil {
		if whole = whole.Raise(r.Percent); debit.Penalty == nil {
			text = enforce.LimitText(p.Rate)
		}
		text += ", raised " + rules.FormatFactor(r.Percent) + " by a rule"
		if debit.RaisedUntil != 0 {
			text += " until " + time.Unix(0, debit.RaisedUntil).UTC().Format(time.RFC3339)
		}
	}
	debits := []engine.Debit{debit}
	d := ex.Instance.Forecast(ctx, nil, debits)
	limit := debits[0].Whole()
	amount := ex.Instance.Engine.InForce(limit)
	if amount < limit.Capacity() {
		text += fmt.Sprintf(", at present %d, as the store can't be used", amount)
	}
	state := operator.LimitState{
		Zone: p.Zone.Name, Limit: p.Name, Text: text, Counts: cmp.Or(identity.KeyText(debit.Key), "all together"),
		Client: unlessAddress(string(debit.Key)), Tag: ex.Instance.Names.Tag(string(debit.Key)),
		Amount: amount, Cost: cost, Refuses: !d.Allowed, FreeAt: ex.in(d.Retry), Shadow: p.Shadow,
	}
	switch {
	case debits[0].Known && d.Allowed && debit.Counting == engine.Always:
		state.Left = debits[0].Quota.Remaining + cost
	case debits[0].Known:
		state.Left = debits[0].Quota.Remaining
	default:
		state.Left = limit.Capacity()
	}
	state.Left = min(state.Left, state.Amount)
	state.Used = state.Amount - state.Left
	ex.Answer.Limits = append(ex.Answer.Limits, state)
	if r := ex.Answer.Reputation; r != nil && limit.Capacity() < whole.Capacity() && ex.share < 100 {
		r.Reduces = fmt.Sprintf("%d %% of each limit, because of its score", ex.share)
	}
	return d
}

// addShadows adds the shadow limits that would refuse a request to the forecast that it passes.
func addShadows(f operator.Forecast, by []*enforce.Policy) operator.Forecast {
	for i, p := range by {
		if i == 0 {
			f.Text += "; in shadow, it would be refused by "
		} else {
			f.Text += ", and by "
		}
		f.Text += "limit " + p.Name + " of zone " + p.Zone.Name
		f.WouldRefuse = append(f.WouldRefuse, p.Zone.Name+": "+p.Name)
	}
	return f
}
