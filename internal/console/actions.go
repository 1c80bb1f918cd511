package console

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/caddy-tally/caddy-tally/internal/operator"
	"github.com/caddy-tally/caddy-tally/internal/wording"
)

// clientHelp explains the names of clients in help texts.
const clientHelp = `
A client is an address (203.0.113.9), a network (203.0.113.0/24), api-key:NAME,
key:TEXT (the value of a zone's key), session:ID or tag:TAG, as lists show them.`

// act returns a command that acts on clients, each alone: a mistake in one doesn't keep the others from
// their action. said returns the message about the result. nothing is the message for an action without
// effect, or "" if that is impossible.
func (c console) act(cmd *cobra.Command, o *operator.Command, action operator.Action, said func(*session, operator.Done) string, nothing string) *cobra.Command {
	before := strings.Count(cmd.Use, "<") - 1 // arguments before the clients: a factor
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if o.All {
			return cobra.NoArgs(cmd, args)
		}
		return cobra.MinimumNArgs(before+1)(cmd, args)
	}
	cmd.Long += clientHelp
	cmd.Flags().StringVar(&o.Reason, "reason", "", "Why, for the audit")
	one := func(s *session, client string) error {
		o.Client = client
		done, err := s.Do(s.ctx, action, *o)
		if err != nil {
			return err
		}
		missing := ""
		if done.Changed == 0 && nothing != "" {
			missing = fmt.Sprintf(nothing, done.Client)
		}
		return s.report(done, missing, func() {
			s.printf("%s", printable(said(s, done)))
			s.showNotes(done.Notes)
		})
	}
	return c.command(cmd, func(s *session, args []string) (failed error) {
		if o.All {
			return one(s, "")
		}
		if before == 1 {
			o.Factor = args[0]
		}
		var none error
		for _, client := range args[before:] {
			switch err := one(s, client); {
			case errors.Is(err, errNothing):
				none = err
			case failed != nil && err != nil:
				failed = fmt.Errorf("%w; %w", failed, err)
			default:
				failed = cmp.Or(failed, err)
			}
		}
		return cmp.Or(failed, none)
	})
}

func (s *session) showNotes(notes []string) {
	for _, note := range notes {
		s.printf("%s", printable(note))
	}
}

// reset returns `caddy rate-limit reset`.
func (c console) reset() *cobra.Command {
	var o operator.Command
	cmd := &cobra.Command{
		Use:               "reset <client>...",
		Short:             "Forgets what a client has used: its limits start from zero",
		Long:              "Forgets what a client has used, in all zones or in one: its limits start\nfrom zero.\n",
		Example:           "  caddy rate-limit reset 203.0.113.9 --zone login",
		ValidArgsFunction: c.completeClient(anywhere),
	}
	c.addZone(cmd, &o)
	return c.act(cmd, &o, operator.Reset, func(_ *session, d operator.Done) string {
		return fmt.Sprintf("Reset %s of %s.", wording.Counted(d.Changed, "limit"), d.Client)
	}, "There is nothing to reset: %s has used nothing.")
}

// charge returns `caddy rate-limit charge`.
func (c console) charge() *cobra.Command {
	var o operator.Charge
	cmd := &cobra.Command{
		Use:   "charge <zone>",
		Short: "Charges units to a client, or gives them back",
		Long: `Charges units to a client in a zone, as an application does by the admin
endpoint, if they are free. Units below 0 give back what charges have taken.
` + clientHelp,
		Example:           "  caddy rate-limit charge mails --client key:42 --units 3 --id order-1017\n  caddy rate-limit charge mails --client key:42 --units=-3 --id refund-1017",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: c.completeZone(0),
	}
	cmd.Flags().StringVar(&o.Client, "client", "", "The client")
	cmd.Flags().Int64Var(&o.Units, "units", 1, "How many; below 0 to give back")
	cmd.Flags().StringVar(&o.ID, "id", "", "A name of the charge, which then takes effect once in 24 hours")
	return c.command(cmd, func(s *session, args []string) error {
		o.Zone = args[0]
		done, err := s.Charge(s.ctx, o)
		if err != nil {
			return err
		}
		refused := ""
		if !done.Allowed {
			refused = fmt.Sprintf("Nothing was charged to %s: %s.", done.Client, done.Outcome)
			if done.Retry > 0 {
				refused += " The units are free in " + wording.Wait(done.Retry.Duration()) + "."
			}
		}
		return s.report(done, refused, func() {
			switch units := wording.Counted(int(max(done.Units, -done.Units)), "unit"); {
			case done.Repeats:
				s.printf("The id was used before: nothing has changed.")
			case o.Units < 0:
				s.printf("Gave back %s of %s.", units, printable(done.Client))
			default:
				s.printf("Charged %s to %s.", units, printable(done.Client))
			}
		})
	})
}

// ban returns `caddy rate-limit ban`.
func (c console) ban() *cobra.Command {
	var o operator.Command
	cmd := &cobra.Command{
		Use:               "ban <client>...",
		Short:             "Refuses every request of a client",
		Long:              "Refuses every request of a client, until the ban ends or is lifted.\n",
		Example:           "  caddy rate-limit ban 203.0.113.0/24 198.51.100.7 --for 1w --reason scraper",
		ValidArgsFunction: c.completeClient(anywhere),
	}
	addFor(cmd, &o, "", "How long: 90m, 24h, 1w (default: until it is lifted)")
	return c.act(cmd, &o, operator.Ban, func(s *session, d operator.Done) string {
		return fmt.Sprintf("%s is banned %s%s.", d.Client, until(d.Until, s.now), holds(d.In))
	}, "")
}

// addFor adds the flags of actions that last.
func addFor(cmd *cobra.Command, o *operator.Command, standard, usage string) {
	held := cmd.Flags().String("for", standard, usage)
	cmd.Flags().BoolVar(&o.Force, "force", false, "Also a network wider than /8 (IPv6: /19)")
	cmd.PreRunE = func(*cobra.Command, []string) error { return setFor(o, *held) }
}

// setFor sets the duration of an action.
func setFor(o *operator.Command, held string) error {
	if held == "" {
		return nil
	}
	d, err := duration("--for", held)
	o.For = operator.SecondsOf(d)
	return err
}

// unban returns `caddy rate-limit unban`.
func (c console) unban() *cobra.Command {
	var o operator.Command
	cmd := &cobra.Command{
		Use:   "unban <client>...",
		Short: "Ends the bans of clients, or of all",
		Long: `Ends the bans of clients, by an operator or for what they did, and forgets their
violations. With --all it ends the bans of all clients: it says of how many, and
does it with --force. Block lists stay.
`,
		Example:           "  caddy rate-limit unban 203.0.113.9\n  caddy rate-limit unban --all --force",
		ValidArgsFunction: c.completeBanned(operator.Ban),
	}
	cmd.Flags().BoolVar(&o.All, "all", false, "All clients, instead of one")
	cmd.Flags().BoolVar(&o.Force, "force", false, "With --all: do it")
	return c.act(cmd, &o, operator.Unban, func(_ *session, d operator.Done) string {
		switch {
		case o.All:
			return fmt.Sprintf("Lifted %s of %s.", wording.Counted(d.Bans, "ban"), wording.Counted(d.Changed, "client"))
		case d.Bans == 0:
			return "No ban of " + d.Client + " was found; its violations are forgotten."
		case len(d.Notes) > 0: // Notes name other bans of it
			return fmt.Sprintf("Lifted %s of %s.", wording.Counted(d.Bans, "ban"), d.Client)
		}
		return d.Client + " is no longer banned."
	}, "%s is not banned.")
}

// allow returns `caddy rate-limit allow`.
func (c console) allow() *cobra.Command {
	var o operator.Command
	cmd := &cobra.Command{
		Use:               "allow <client>...",
		Short:             "Lets every request of a client pass for a while",
		Long:              "Lets every request of a client pass, whatever bans and limits say, until the\nallowance ends: in two hours unless --for says otherwise.\n",
		Example:           "  caddy rate-limit allow 203.0.113.9 --for 2h --reason 'import of old orders'",
		ValidArgsFunction: c.completeClient(anywhere),
	}
	addFor(cmd, &o, "2h", "How long: 90m, 24h, 1w")
	return c.act(cmd, &o, operator.Allow, func(s *session, d operator.Done) string {
		return fmt.Sprintf("Every request of %s passes %s%s.", d.Client, until(d.Until, s.now), holds(d.In))
	}, "")
}

// holds describes where a rule of the store or of the rules file applies.
func holds(in string) string {
	switch in {
	case "store":
		return ", on all machines that share the store"
	case "rules":
		return ", on this machine"
	}
	return ""
}

// disallow returns `caddy rate-limit disallow`.
func (c console) disallow() *cobra.Command {
	var o operator.Command
	return c.act(&cobra.Command{
		Use:               "disallow <client>...",
		Short:             "Ends what allow began",
		Long:              "Ends what allow began: limits and bans hold for the client again.\n",
		Example:           "  caddy rate-limit disallow 203.0.113.9",
		ValidArgsFunction: c.completeBanned(operator.Allow),
	}, &o, operator.Disallow, func(_ *session, d operator.Done) string {
		return "Limits and bans hold for " + d.Client + " again."
	}, "No allowance is in force for %s.")
}

// raise returns `caddy rate-limit raise`.
func (c console) raise() *cobra.Command {
	var o operator.Command
	cmd := &cobra.Command{
		Use:   "raise <factor> <client>...",
		Short: "Gives a client larger limits, or smaller ones",
		Long: `Multiplies the amounts of a client's limits, bursts too, until the raise ends or
is lifted: 5x gives it five times as much, 0.2x a fifth. It lifts no ban, and
replaces an earlier raise of the client in the same zone.
`,
		Example: "  caddy rate-limit raise 5x api-key:acme --for 7d --reason 'import of old orders'\n  caddy rate-limit raise 0.2x 203.0.113.0/24 --zone login",
		ValidArgsFunction: func(cmd *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
			if len(args) == 0 {
				return []cobra.Completion{"0.5x", "2x", "5x", "10x"}, cobra.ShellCompDirectiveNoFileComp
			}
			return c.completeClient(anywhere)(cmd, args[1:], begun)
		},
	}
	addFor(cmd, &o, "", "How long: 90m, 24h, 7d (default: until it is lifted)")
	c.addZone(cmd, &o)
	return c.act(cmd, &o, operator.Raise, func(s *session, d operator.Done) string {
		return fmt.Sprintf("Limits of %s are raised %s%s %s%s.", d.Client, o.Factor, o.Where(), until(d.Until, s.now), holds(d.In))
	}, "")
}

// addZone adds the flag of actions in one zone.
func (c console) addZone(cmd *cobra.Command, o *operator.Command) {
	cmd.Flags().StringVar(&o.Zone, "zone", "", "Only in this zone")
	cmd.RegisterFlagCompletionFunc("zone", c.completeZone(anywhere)) //nolint:errcheck // the flag is there
}

// unraise returns `caddy rate-limit unraise`.
func (c console) unraise() *cobra.Command {
	var o operator.Command
	cmd := &cobra.Command{
		Use:               "unraise <client>...",
		Short:             "Ends what raise began",
		Long:              "Ends what raise began: the client has its limits as they are again. A raise in\none zone ends with --zone.\n",
		Example:           "  caddy rate-limit unraise api-key:acme",
		ValidArgsFunction: c.completeBanned(operator.Raise),
	}
	c.addZone(cmd, &o)
	return c.act(cmd, &o, operator.Unraise, func(_ *session, d operator.Done) string {
		return "Limits of " + d.Client + " are no longer raised" + o.Where() + "."
	}, "")
}

// notify returns `caddy rate-limit notify`.
func (c console) notify() *cobra.Command {
	return c.command(&cobra.Command{
		Use:       "notify test",
		Short:     "Sends a message to each webhook, and says what came back",
		Long:      "Sends a message to each webhook of the option notify, and says what came back;\nonce a minute at most.",
		Example:   "  caddy rate-limit notify test",
		Args:      cobra.MatchAll(cobra.ExactArgs(1), cobra.OnlyValidArgs),
		ValidArgs: []cobra.Completion{"test"},
	}, func(s *session, _ []string) error {
		results, err := s.TestNotify(s.ctx)
		if err != nil {
			return err
		}
		failed := 0
		err = list(s, results, []column[operator.Notified]{
			{"WEBHOOK", func(n operator.Notified) cell { return text(n.Webhook) }},
			{"RESULT", func(n operator.Notified) cell { return text(cmp.Or(n.Error, "it has taken the message")) }},
		}, "")
		for _, n := range results {
			failed += min(len(n.Error), 1)
		}
		if err == nil && failed > 0 {
			err = fmt.Errorf("%d of %s failed", failed, wording.Counted(len(results), "webhook"))
		}
		return err
	})
}
