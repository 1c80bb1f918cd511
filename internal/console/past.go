package console

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/spf13/cobra"

	"github.com/caddy-tally/caddy-tally/internal/operator"
	"github.com/caddy-tally/caddy-tally/internal/textfile"
)

// resolutions are the possible units of a point of the history, in seconds.
var resolutions = map[string]operator.Seconds{"": 0, "minute": 60, "hour": 3600, "day": 86400}

// history returns `caddy rate-limit history`.
func (c console) history() *cobra.Command {
	var q operator.HistoryQuery
	var since, to, by string
	cmd := &cobra.Command{
		Use:   "history [zone]",
		Short: "Shows what was decided in the past, and who used most",
		Long: `Shows the requests of the past, each counted once, or what one zone decided
about them; and who used most.
Minutes are kept for 48 hours, hours for 90 days, and days for two years.`,
		Example:           "  caddy rate-limit history login --since 24h --by hour",
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: c.completeZone(0),
	}
	cmd.Flags().StringVar(&q.Limit, "limit", "", "Only this limit of the zone")
	cmd.Flags().StringVar(&since, "since", "1h", "When it begins: 24h or 1w ago, or 2026-11-01")
	cmd.Flags().StringVar(&to, "to", "", "When it ends (default: now)")
	cmd.Flags().StringVar(&by, "by", "", "What a row stands for: minute, hour or day (default: by how long it is)")
	return c.command(cmd, func(s *session, args []string) (err error) {
		q.Zone = append(args, "")[0]
		var known bool
		if q.Resolution, known = resolutions[by]; !known {
			return fmt.Errorf("--by: got %q: expected minute, hour or day", by)
		}
		if q.From, err = Past(s.now, "--since", since); err != nil {
			return err
		}
		if q.To, err = Past(s.now, "--to", to); err != nil {
			return err
		}
		past, err := s.History(s.ctx, q)
		if err != nil {
			return err
		}
		nothing := "Nothing was decided in that time, or it is not kept. The last minute comes when it is over."
		return s.report(past, len(past.Points) > 0, nothing, func() { s.showHistory(past, q.Zone) })
	})
}

// Past returns the time that a word names: a date, or a duration for that long before now. It returns the zero
// time for "".
func Past(now time.Time, flag, word string) (time.Time, error) {
	if word == "" {
		return time.Time{}, nil
	}
	if d, err := parseDuration(strings.TrimPrefix(word, "-")); err == nil {
		return now.Add(-d), nil
	}
	t, err := textfile.ParseTime(word)
	if err != nil {
		return t, fmt.Errorf("%s: %w, or a duration such as 24h for that long ago", flag, err)
	}
	return t, nil
}

// duration parses a positive duration.
func duration(flag, value string) (time.Duration, error) {
	d, err := parseDuration(value)
	if err != nil || d <= 0 {
		return 0, fmt.Errorf("%s: got %q: expected a duration such as 30m, 24h or 7d", flag, value)
	}
	return d, nil
}

// parseDuration parses a duration as in a Caddyfile, or a number of weeks.
func parseDuration(text string) (time.Duration, error) {
	weeks, found := strings.CutSuffix(text, "w")
	if !found {
		return caddy.ParseDuration(text)
	}
	n, err := strconv.ParseUint(weeks, 10, 12)
	return time.Duration(n) * 7 * 24 * time.Hour, err
}

func (s *session) showHistory(past operator.History, zone string) {
	writeTable(s.out, s.look, []column[operator.HistoryPoint]{
		{"FROM", func(p operator.HistoryPoint) cell { return text(p.At.Local().Format("2006-01-02 15:04")) }},
		{map[bool]string{true: "LET IN", false: "ALLOWED"}[zone == ""],
			func(p operator.HistoryPoint) cell { return figure(p.Allowed) }},
		{"REFUSED", func(p operator.HistoryPoint) cell { return alarm(p.Refused) }},
		{"BANNED", func(p operator.HistoryPoint) cell { return alarm(p.Banned) }},
		{"WOULD REFUSE", func(p operator.HistoryPoint) cell { return seldom(p.WouldRefuse) }},
		{"UNITS", func(p operator.HistoryPoint) cell { return figure(p.Units) }},
		{"KEYS", func(p operator.HistoryPoint) cell { return figure(p.Keys) }},
	}, past.Points)
	if len(past.Heaviest) > 0 {
		s.printf("\nThose who wanted most, in whole hours:")
		writeTable(s.out, s.look, []column[operator.Heavy]{
			{"ZONE", func(h operator.Heavy) cell { return text(h.Zone) }},
			{"LIMIT", func(h operator.Heavy) cell { return text(h.Limit) }},
			{"TAG", func(h operator.Heavy) cell { return text(h.Tag) }},
			{"KEY", func(h operator.Heavy) cell { return named(h.Client, h.Text) }},
			{"WANTED", func(h operator.Heavy) cell { return figure(h.Units + h.Refused) }},
			{"UNITS", func(h operator.Heavy) cell { return figure(h.Units) }},
			{"REFUSED", func(h operator.Heavy) cell { return alarm(h.Refused) }},
			{"ESTIMATE", func(h operator.Heavy) cell { return text(h.Estimate()) }},
		}, past.Heaviest)
	}
}

// audit returns `caddy rate-limit audit`.
func (c console) audit() *cobra.Command {
	var q operator.AuditQuery
	var ago string
	cmd := &cobra.Command{
		Use:   "audit",
		Short: "Lists what operators did, the newest first",
		Long: `Lists what operators did, the newest first. It doesn't name addresses; with
--client it lists what was done to an address or to networks around it.
` + clientHelp,
		Example: "  caddy rate-limit audit -n 100\n  caddy rate-limit audit --client 203.0.113.9",
		Args:    cobra.NoArgs,
	}
	cmd.Flags().IntVarP(&q.N, "number", "n", 50, "How many acts to list at most")
	cmd.Flags().StringVar(&ago, "before", "", "Only what was done before: 24h or 1w ago, or 2026-11-01")
	cmd.Flags().StringVar(&q.Client, "client", "", "Only what was done to this client")
	cmd.Flags().BoolVar(&q.Charges, "charges", false, "What applications charged and gave back instead")
	return c.command(cmd, func(s *session, _ []string) (err error) {
		if q.Before, err = Past(s.now, "--before", ago); err != nil {
			return err
		}
		acts, err := s.Audit(s.ctx, q)
		if err != nil {
			return err
		}
		return list(s, acts, []column[operator.Act]{
			{"WHEN", func(a operator.Act) cell { return text(moment(a.At, s.now)) }},
			{"BY", func(a operator.Act) cell { return text(a.By) }},
			{"ACTION", func(a operator.Act) cell { return text(a.Action) }},
			{"TARGET", func(a operator.Act) cell { return text(a.Target) }},
			{"REASON", func(a operator.Act) cell { return text(a.Reason) }},
		}, map[bool]string{true: "Nobody has done anything.",
			false: "Nobody has done anything to it that the audit has."}[q.Client == ""])
	})
}
