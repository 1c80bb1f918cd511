package console

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/caddy-tally/caddy-tally/internal/operator"
	"github.com/caddy-tally/caddy-tally/internal/wording"
)

// status returns `caddy rate-limit status`.
func (c console) status() *cobra.Command {
	var check bool
	cmd := &cobra.Command{
		Use:     "status",
		Short:   "Shows whether counts can be stored, who is over a limit, and what happened in the last hour",
		Example: "  caddy rate-limit status\n  caddy rate-limit status --check > /dev/null || echo degraded",
		Args:    cobra.NoArgs,
	}
	cmd.Flags().BoolVar(&check, "check", false, "Fail while a store can't be used or written, for monitoring")
	return c.command(cmd, func(s *session, _ []string) error {
		status, err := s.Status(s.ctx)
		if err != nil {
			return err
		}
		err = s.report(status, true, "", func() {
			s.showStatus(status)
			s.showLately(status.History)
		})
		if check && slices.ContainsFunc(status.Stores, func(o operator.Store) bool { return o.Degraded }) {
			return errors.New("a store can't be used: memory decides, with reduced limits")
		}
		if check && slices.ContainsFunc(status.Stores, func(o operator.Store) bool { return o.History != nil }) {
			return errors.New("a store can't be written: the history waits in memory")
		}
		return err
	})
}

// countRules describes how many rules are in force.
func countRules(r operator.RuleCounts) string {
	text := wording.Counted(r.Bans, "ban") + " and " + wording.Counted(r.Allowances, "allowance")
	if r.Raises > 0 {
		text += ", and " + wording.Counted(r.Raises, "raise")
	}
	return text
}

func (s *session) showStatus(status operator.Status) {
	version := ""
	if status.Version != "" {
		version = ", rate limiter " + printable(status.Version)
	}
	s.printf("Caddy has run for %s%s.", span(s.now.Sub(status.Started)), version)
	if r := status.Rules; r.Path != "" {
		s.printf("Rules: %s in %s.", countRules(r.RuleCounts), printable(r.Path))
		if r.Store != nil {
			s.printf("       %s in the store, for all machines.", countRules(*r.Store))
		} else if slices.ContainsFunc(status.Stores, func(o operator.Store) bool { return o.Network != nil }) {
			s.printf("       Those in the store, for all machines, are not known.")
		}
	}
	if c := status.Conduct; c != nil {
		s.printf("%s", s.describeConduct(c))
	}
	for _, list := range status.Rules.Lists {
		s.showBlockList(list)
	}
	if c := status.Challenges; c.Shown > 0 {
		s.printf("%s since the start: %s solved, %s wrongly, and %s not (yet).", wording.Counted(int(c.Shown), "challenge"),
			wording.Number(c.Solved), wording.Number(c.Wrong), wording.Number(c.GivenUp))
	}
	if !status.History {
		s.printf("History is not kept.")
	}
	s.showFacts(status.Facts())
	s.showAdvice(status.Advice)
	if len(status.Stores) == 0 {
		s.printf("No request has been counted: the running config has no zone.")
		return
	}
	writeTable(s.out, s.look, []column[operator.Store]{
		{"STORE", func(o operator.Store) cell { return text(o.Kind) }},
		{"STATE", s.stateOf},
		{"KEYS", func(o operator.Store) cell { return figure(o.Keys) }},
		{"MOST KEYS", func(o operator.Store) cell { return figure(int64(o.MaxKeys)) }},
		{"EVICTED", func(o operator.Store) cell { return alarm(o.Evicted) }},
		{"SIZE", func(o operator.Store) cell { return cell{Text: wording.Bytes(o.Bytes), Right: true} }},
		{"PATH", func(o operator.Store) cell { return text(o.Path) }},
	}, status.Stores)
	for _, o := range status.Stores {
		if o.Journal > 0 {
			s.printf("%s of %s are the journal: a file of fixed size that isn't held in memory.", wording.Bytes(o.Journal), wording.Bytes(o.Bytes))
		}
		s.showNetwork(o)
		s.showRegion(o.Region)
	}
}

// showFacts shows what isn't as usual.
func (s *session) showFacts(facts []operator.Fact) {
	for _, f := range facts {
		style, text := red, f.Text
		if f.Severity == operator.Notice {
			style = yellow
		}
		if f.Since != nil {
			text += ", since " + moment(*f.Since, s.now)
		}
		for _, more := range [...]struct{ before, text string }{{": ", f.Reason}, {". ", f.Do}} {
			if more.text != "" {
				text += more.before + more.text
			}
		}
		s.mark(style, text+".")
	}
}

// showAdvice shows advice about the running config.
func (s *session) showAdvice(all []operator.Advice) {
	for _, a := range all {
		text := "Advice"
		if a.Zone != "" {
			text += " about zone " + a.Zone
		}
		text += ": " + a.Problem
		if a.Write != "" {
			text += "; write " + a.Write
		}
		if a.At != "" {
			text += ", at " + a.At
		}
		s.mark(yellow, text+".")
	}
}

// describeConduct returns how many clients are banned for violations.
func (s *session) describeConduct(c *operator.ConductBans) string {
	text := "Banned for violations: " + wording.Counted(c.Bans, "client")
	if c.Missing != "" {
		text += " known"
	}
	if c.Last != nil {
		text += ", the last one " + span(s.now.Sub(*c.Last)) + " ago"
	}
	if c.Missing != "" {
		text += "; " + c.Missing
	}
	return printable(text + ".")
}

// showNetwork shows the connection to a store on a network.
func (s *session) showNetwork(o operator.Store) {
	n := o.Network
	if n == nil {
		return
	}
	use, compared, call := "use", "ahead of", "No request has called it yet"
	if o.Processes == 1 {
		use = "uses"
	}
	if n.Ahead < 0 {
		compared = "behind"
	}
	if n.RoundTrip > 0 {
		call = fmt.Sprintf("A call takes %v", rounded(n.RoundTrip))
	}
	if o.Processes > 0 { // the store was read once
		s.printf("%s %s this store. %s. The clock of this machine is %v %s the store's. Keys are those in the memory of this machine.", wording.Counted(o.Processes, "machine"), use,
			call, rounded(max(n.Ahead, -n.Ahead)), compared)
	}
	switch later := n.LaterLines; {
	case later == nil:
		s.printf("Whether values in the store need a line of secret_file after the first is not known. Don't remove a line yet.")
	case *later > 0:
		s.printf("%s in the store still need a line of secret_file after the first. Don't remove that line yet. If you have, add it again behind the first, and restart.", wording.Counted(*later, "value"))
	default:
		s.printf("No value in the store needs a line of secret_file after the first.")
	}
}

// rounded returns a duration in readable precision.
func rounded(s operator.Seconds) time.Duration {
	d := s.Duration()
	if d < 10*time.Millisecond {
		return d.Round(10 * time.Microsecond)
	}
	return d.Round(time.Millisecond)
}

// showRegion shows the sharing of counts with other regions, if configured.
func (s *session) showRegion(r *operator.Region) {
	if r == nil {
		return
	}
	s.printf("Region %s: counts were exchanged %s ago at %s.", printable(r.Name), span(r.Lag.Duration()), printable(r.Exchange))
	for _, o := range r.Others {
		gone := ""
		if o.Gone > 0 {
			gone = fmt.Sprintf(" and %d that went without a word", o.Gone)
		}
		s.printf("Region %s: %s%s, heard of %s ago.", printable(o.Name), wording.Counted(o.Machines, "machine"), gone, span(o.Lag.Duration()))
	}
	if len(r.Others) == 0 {
		s.printf("No other region was heard of.")
	}
}

func (s *session) stateOf(o operator.Store) cell {
	switch {
	case !o.Degraded:
		return cell{Text: "in use", Style: green}
	case o.Since == nil:
		return cell{Text: "degraded", Style: red}
	}
	return cell{Text: "degraded for " + span(s.now.Sub(*o.Since)), Style: red}
}

func (s *session) showBlockList(list operator.BlockList) {
	read := "not read since the start"
	if list.Read != nil {
		read = "read " + span(s.now.Sub(*list.Read)) + " ago"
	}
	s.printf("Block list %s: %s, %s.", printable(list.Name), wording.Counted(list.Bans, "ban"), read)
}

// zoneLimit is a row of the table of zones.
type zoneLimit struct {
	zone operator.Zone
	operator.Limit
	counted bool // in the row of another tier
}

// once returns a cell of a count of all tiers, in one of their rows.
func (r zoneLimit) once(c cell) cell {
	if r.counted {
		return cell{}
	}
	return c
}

// zones returns `caddy rate-limit zones`.
func (c console) zones() *cobra.Command {
	return c.command(&cobra.Command{
		Use:     "zones",
		Short:   "Lists the zones that run, their limits and what these have decided",
		Example: "  caddy rate-limit zones",
		Args:    cobra.NoArgs,
	}, func(s *session, _ []string) error {
		zones, err := s.Zones(s.ctx)
		if err != nil {
			return err
		}
		if s.json || len(zones) == 0 {
			return list(s, zones, nil, "The running config has no zone.")
		}
		var rows []zoneLimit
		for _, z := range zones {
			for i, l := range z.Limits {
				counted := slices.ContainsFunc(z.Limits[:i], func(other operator.Limit) bool { return other.Name == l.Name })
				rows = append(rows, zoneLimit{z, l, counted})
			}
		}
		return list(s, rows, zoneColumns, "")
	})
}

var zoneColumns = []column[zoneLimit]{
	{"ZONE", func(r zoneLimit) cell { return zoneCell(r.zone) }},
	{"PER", func(r zoneLimit) cell { return text(r.zone.Per) }},
	{"LIMIT", func(r zoneLimit) cell { return limitCell(r.Name, r.Shadow) }},
	{"TIER", func(r zoneLimit) cell { return text(r.Tier) }},
	{"UNITS", func(r zoneLimit) cell { return text(r.Text) }},
	{"KEYS", func(r zoneLimit) cell { return figure(r.Keys) }},
	{"ALLOWED", func(r zoneLimit) cell { return r.once(figure(r.Allowed)) }},
	{"REFUSED", func(r zoneLimit) cell { return r.once(alarm(r.Refused)) }},
	{"WOULD REFUSE", func(r zoneLimit) cell { return r.once(seldom(r.WouldRefuse)) }},
}

// zoneCell names a zone and its load conditions.
func zoneCell(z operator.Zone) cell {
	if len(z.When) == 0 {
		return text(z.Name)
	}
	conditions := make([]string, len(z.When))
	for i, c := range z.When {
		conditions[i] = c.Text
	}
	applies := "when"
	if z.Applies() {
		applies = "applies now, when"
	}
	return text(fmt.Sprintf("%s (%s %s)", z.Name, applies, strings.Join(conditions, " or ")))
}

// limitCell names a limit, and marks a shadow limit.
func limitCell(name string, shadow bool) cell {
	if shadow {
		return text(name + " (shadow)")
	}
	return text(name)
}

// top returns `caddy rate-limit top`.
func (c console) top() *cobra.Command {
	var q operator.KeysQuery
	var by string
	cmd := &cobra.Command{
		Use:   "top [zone]",
		Short: "Lists the keys that have used most of their limits",
		Long: `Lists the keys that memory holds and that have used most of their limits, or
with --by refused, those of which most requests were refused.`,
		Example:           "  caddy rate-limit top login --by refused",
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: c.completeZone(0),
	}
	cmd.Flags().StringVar(&by, "by", string(operator.ByUsed), "What to order by: used or refused")
	cmd.Flags().IntVarP(&q.N, "number", "n", 20, "How many keys to list at most")
	return c.command(cmd, func(s *session, args []string) error {
		q.Zone, q.By = append(args, "")[0], operator.By(by)
		return s.listKeys(q)
	})
}

// blocked returns `caddy rate-limit blocked`.
func (c console) blocked() *cobra.Command {
	q := operator.KeysQuery{Blocked: true, By: operator.ByRefused}
	cmd := &cobra.Command{
		Use:               "blocked [zone]",
		Short:             "Lists the keys that are over a limit at the moment",
		Example:           "  caddy rate-limit blocked login",
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: c.completeZone(0),
	}
	cmd.Flags().IntVarP(&q.N, "number", "n", 20, "How many keys to list at most")
	return c.command(cmd, func(s *session, args []string) error {
		q.Zone = append(args, "")[0]
		return s.listKeys(q)
	})
}

func (s *session) listKeys(q operator.KeysQuery) error {
	keys, err := s.Keys(s.ctx, q)
	if err != nil {
		return err
	}
	nothing := "Nobody has been counted."
	if q.Blocked {
		nothing = "Nobody is over a limit."
	}
	return list(s, keys, topColumns(s.now), nothing)
}

// topColumns are the columns of a table of keys.
func topColumns(now time.Time) []column[operator.Key] {
	return []column[operator.Key]{
		{"ZONE", func(k operator.Key) cell { return text(k.Zone) }},
		{"LIMIT", func(k operator.Key) cell { return limitCell(k.Shown(), k.Shadow) }},
		{"TAG", func(k operator.Key) cell { return text(k.Tag) }},
		{"KEY", func(k operator.Key) cell { return named(k.Client, k.Text) }},
		{"TIER", func(k operator.Key) cell { return text(k.Tier) }},
		{"USED", func(k operator.Key) cell { return figure(k.Used) }},
		{"OF", func(k operator.Key) cell { return figure(k.Amount) }},
		{"%", func(k operator.Key) cell { return figure(100 * k.Used / max(k.Amount, 1)) }},
		{"REFUSED", func(k operator.Key) cell {
			if k.Shadow {
				return figure(0)
			}
			return alarm(k.Refused)
		}},
		{"WOULD REFUSE", func(k operator.Key) cell {
			if k.Shadow {
				return figure(k.Refused)
			}
			return seldom(0)
		}},
		{"FREE", func(k operator.Key) cell {
			if k.BlockedUntil == nil {
				return text("")
			}
			return cell{Text: fromNow(*k.BlockedUntil, now), Style: yellow}
		}},
	}
}

// refusals returns `caddy rate-limit refusals`.
func (c console) refusals() *cobra.Command {
	var q operator.RefusalsQuery
	cmd := &cobra.Command{
		Use:   "refusals [zone]",
		Short: "Lists the latest refusals, and what the refused requests have in common",
		Long: `Lists the latest refusals, and the clients, paths, User-Agents and networks that
were refused most in the last 15 minutes, beside how many of their requests were
let in. Flags restrict both. It is a sample of at most ten refusals and ten
other requests a second, which only memory holds. Addresses are shown as
networks.`,
		Example:           "  caddy rate-limit refusals login\n  caddy rate-limit refusals --path /login --country DE\n  caddy rate-limit refusals --client tag:3fa9c1",
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: c.completeZone(0),
	}
	for _, f := range []struct {
		to          *string
		name, usage string
	}{
		{&q.Path, "path", "Only this path, as listed"},
		{&q.Agent, "agent", "Only this User-Agent, as listed"},
		{&q.Network, "network", "Only clients of this network, as listed"},
		{&q.Country, "country", "Only clients of this country"},
		{&q.Provider, "provider", "Only clients of this provider, such as AS64496"},
		{&q.Client, "client", "Only this client"},
		{&q.Text, "text", "Only where one of those, or the host, has this in it"},
	} {
		cmd.Flags().StringVar(f.to, f.name, "", f.usage)
	}
	return c.command(cmd, func(s *session, args []string) error {
		q.Zone = append(args, "")[0]
		refusals, err := s.Refusals(s.ctx, q)
		if err != nil {
			return err
		}
		nothing := "Nothing was refused in the last 15 minutes."
		switch sampled := wording.Counted(refusals.LetIn, "sampled request"); {
		case q == (operator.RefusalsQuery{}) && refusals.LetIn > 0:
			nothing = fmt.Sprintf("Nothing was refused in the last 15 minutes; of %s, all were let in.", sampled)
		case refusals.LetIn > 0: // others like that may have been refused
			nothing = fmt.Sprintf("Of %s like that in the last 15 minutes, all were let in.", sampled)
		case q != (operator.RefusalsQuery{}):
			nothing = "No sampled request of the last 15 minutes is like that."
		}
		err = s.report(refusals, refusals.Sampled > 0, nothing, func() {
			writeTable(s.out, s.look, refusedColumns(s.now), refusals.Latest)
			s.showShares(refusals)
		})
		if err == errNothing && !s.json {
			s.showShares(refusals)
		}
		return err
	})
}

// refusedColumns are the columns of a table of refusals.
func refusedColumns(now time.Time) []column[operator.Refused] {
	return []column[operator.Refused]{
		{"LAST", func(r operator.Refused) cell { return text(fromNow(r.At, now)) }},
		{"TIMES", func(r operator.Refused) cell { return figure(int64(max(r.Times, 1))) }},
		{"ZONE", func(r operator.Refused) cell { return text(r.Zone) }},
		{"LIMIT", func(r operator.Refused) cell { return text(r.Limit) }},
		{"TAG", func(r operator.Refused) cell { return text(r.Tag) }},
		{"KEY", func(r operator.Refused) cell { return named(r.Client, r.Text) }},
		{"REASON", func(r operator.Refused) cell { return text(r.Reason) }},
	}
}

// showShares shows what requests share.
func (s *session) showShares(r operator.Refusals) {
	for _, list := range []struct {
		head   string
		shares []operator.RefusedShare
	}{{"CLIENT", r.Clients}, {"PATH", r.Paths}, {"USER-AGENT", r.Agents}, {"NETWORK", r.Networks}, {"COUNTRY", r.Countries}, {"PROVIDER", r.Providers}} {
		if len(list.shares) == 0 {
			continue
		}
		s.printf("")
		writeTable(s.out, s.look, []column[operator.RefusedShare]{
			{"REFUSED", func(r operator.RefusedShare) cell { return figure(int64(r.Refused)) }},
			{"LET IN", func(r operator.RefusedShare) cell { return figure(int64(r.LetIn)) }},
			{"TAG", func(r operator.RefusedShare) cell { return text(r.Tag) }},
			{list.head, func(r operator.RefusedShare) cell {
				if r.Client == "" {
					return text(r.Text)
				}
				return named(r.Client, r.Text)
			}},
		}, list.shares)
	}
}
