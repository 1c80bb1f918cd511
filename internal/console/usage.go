package console

import (
	"cmp"
	"encoding/csv"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/caddy-tally/caddy-tally/internal/operator"
)

// usage returns `caddy rate-limit usage`.
func (c console) usage() *cobra.Command {
	var key, month, zone, format string
	var all bool
	cmd := &cobra.Command{
		Use:   "usage",
		Short: "Shows how much a key has used in a month, by day, zone and limit",
		Long: `Shows how much an API key has used in a month, by day, zone and limit, from the
history.

Units of API keys are counted exactly, for two years; a Caddy that is killed
loses those of its last minute. --all lists all API keys, also those that were
revoked in the last 90 days. Of other keys the history has the 20 that wanted
most of each limit and hour, for 7 days: an estimate from a sample.`,
		Example: "  caddy rate-limit usage --key acme\n  caddy rate-limit usage --key acme --month 2026-11 --format csv >> acme.csv\n  caddy rate-limit usage --all --month 2026-11",
		Args:    cobra.NoArgs,
	}
	cmd.Flags().StringVar(&key, "key", "", "The name of an API key; or key:TEXT, the value of a zone's key")
	cmd.Flags().BoolVar(&all, "all", false, "All API keys, in place of --key")
	cmd.Flags().StringVar(&month, "month", "", "The month, such as 2026-11 (default: the current one)")
	cmd.Flags().StringVar(&zone, "timezone", "", "The time zone of the month and its days, as that of the limit: Europe/Berlin (default: UTC); for the last 90 days")
	cmd.Flags().StringVar(&format, "format", "table", "table, json or csv")
	cmd.RegisterFlagCompletionFunc("key", c.completeAPIKey())                                                                                        //nolint:errcheck // the flag is there
	cmd.RegisterFlagCompletionFunc("month", c.completeMonth)                                                                                         //nolint:errcheck // the same
	cmd.RegisterFlagCompletionFunc("format", cobra.FixedCompletions([]cobra.Completion{"table", "json", "csv"}, cobra.ShellCompDirectiveNoFileComp)) //nolint:errcheck // the same
	return c.command(cmd, func(s *session, _ []string) error {
		if err := checkUsage(key, all, format); err != nil {
			return err
		}
		s.json = s.json || format == "json"
		q := operator.UsageQuery{All: all, Month: month, Timezone: zone}
		if !all {
			q.Client = clientOfKey(key)
		}
		used, err := s.Usage(s.ctx, q)
		if err != nil {
			return err
		}
		nothing := fmt.Sprintf("The history has no usage of %s from %s on. The last minute comes when it is over.",
			clientsOf(used), used.From.Format(time.DateOnly))
		if format == "csv" && !s.json {
			if err := s.writeUsageCSV(used); err != nil || len(used.Days) > 0 {
				return err
			}
			return errNothing
		}
		return s.report(used, len(used.Days) > 0, nothing, func() { s.showUsage(used) })
	})
}

func checkUsage(key string, all bool, format string) error {
	if (key == "") != all {
		return errors.New("--key: expected the name of an API key, such as --key acme; or --all in its place")
	}
	if format != "table" && format != "json" && format != "csv" {
		return fmt.Errorf("--format: got %q: expected table, json or csv", format)
	}
	return nil
}

// clientOfKey returns the client that --key names: an API key unless it says its kind.
func clientOfKey(key string) string {
	for _, kind := range []operator.TargetKind{operator.APIKey, operator.KeyText} {
		if strings.HasPrefix(key, string(kind)+":") {
			return key
		}
	}
	return string(operator.APIKey) + ":" + key
}

// clientsOf names the clients of a usage.
func clientsOf(used operator.Usage) string { return cmp.Or(printable(used.Client), "all API keys") }

func (s *session) showUsage(used operator.Usage) {
	writeTable(s.out, s.look, []column[operator.UsageDay]{
		{"CLIENT", func(d operator.UsageDay) cell { return text(d.Client) }},
		{"DAY", func(d operator.UsageDay) cell { return text(d.Day) }},
		{"ZONE", func(d operator.UsageDay) cell { return text(d.Zone) }},
		{"LIMIT", func(d operator.UsageDay) cell { return text(d.Limit) }},
		{"UNITS", func(d operator.UsageDay) cell { return figure(d.Units) }},
		{"REFUSED", func(d operator.UsageDay) cell { return alarm(d.Refused) }},
		{"ESTIMATE", func(d operator.UsageDay) cell { return text(d.Estimate()) }},
	}, used.Days)
	among := ""
	if strings.HasPrefix(used.Client, string(operator.KeyText)+":") {
		among = ", where it was among the 20 heaviest keys of a limit and hour"
	}
	s.printf("\n%s in %s, as far as the history has it: from %s to %s%s.",
		clientsOf(used), printable(used.Month), used.From.Format(time.DateOnly),
		used.To.Format("2006-01-02 15:04 MST"), among)
}

// writeUsageCSV prints a line for each day and limit, after a line with the names of columns.
func (s *session) writeUsageCSV(used operator.Usage) error {
	rows := [][]string{{"client", "day", "zone", "limit", "units", "refused", "exact"}}
	for _, d := range used.Days {
		rows = append(rows, []string{printable(cmp.Or(d.Client, used.Client)), d.Day, printable(d.Zone), printable(d.Limit),
			strconv.FormatInt(d.Units, 10), strconv.FormatInt(d.Refused, 10), strconv.FormatBool(d.Exact)})
	}
	return csv.NewWriter(s.out).WriteAll(rows)
}
