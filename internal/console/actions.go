package console

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/caddy-tally/caddy-tally/internal/operator"
	"github.com/caddy-tally/caddy-tally/internal/wording"
)

// clientHelp explains the names of clients in help texts.
const clientHelp = `
A client is an address (203.0.113.9), a network (203.0.113.0/24), api-key:NAME,
key:TEXT (the value of a zone's key), session:ID or tag:TAG, as lists show them.`

// action is a method of a service with an effect on a client.
type action func(operator.Service, context.Context, operator.Command) (operator.Done, error)

// act returns a command that acts on a client. said returns the message about the result. nothing
// is the message for an action without effect, or "" if that is impossible.
func (c console) act(cmd *cobra.Command, o *operator.Command, do action, said func(*session, operator.Done) string, nothing string) *cobra.Command {
	cmd.Args = cobra.ExactArgs(1)
	cmd.Long += clientHelp
	cmd.Flags().StringVar(&o.Reason, "reason", "", "Why, for the audit")
	return c.command(cmd, func(s *session, args []string) error {
		o.Client = args[0]
		done, err := do(s.Service, s.ctx, *o)
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
		Use:               "reset <client>",
		Short:             "Forgets what a client has used: its limits start from zero",
		Long:              "Forgets what a client has used, in all zones or in one: its limits start\nfrom zero.\n",
		Example:           "  caddy rate-limit reset 203.0.113.9 --zone login",
		ValidArgsFunction: c.completeClient,
	}
	cmd.Flags().StringVar(&o.Zone, "zone", "", "Only in this zone")
	cmd.RegisterFlagCompletionFunc("zone", c.completeZone(0)) //nolint:errcheck // the flag is there
	return c.act(cmd, &o, operator.Service.Reset, func(_ *session, d operator.Done) string {
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
		Use:               "ban <client>",
		Short:             "Refuses every request of a client",
		Long:              "Refuses every request of a client, until the ban ends or is lifted.\n",
		Example:           "  caddy rate-limit ban 203.0.113.0/24 --for 7d --reason scraper",
		ValidArgsFunction: c.completeClient,
	}
	addFor(cmd, &o, "", "How long: 90m, 24h, 7d (default: until it is lifted)")
	return c.act(cmd, &o, operator.Service.Ban, func(s *session, d operator.Done) string {
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
	return c.act(&cobra.Command{
		Use:               "unban <client>",
		Short:             "Ends the bans of a client",
		Long:              "Ends the bans of a client, by an operator or for what it did, and forgets its\nviolations.\n",
		Example:           "  caddy rate-limit unban 203.0.113.9",
		ValidArgsFunction: c.completeBanned("ban"),
	}, &o, operator.Service.Unban, func(_ *session, d operator.Done) string {
		switch {
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
		Use:               "allow <client>",
		Short:             "Lets every request of a client pass for a while",
		Long:              "Lets every request of a client pass, whatever bans and limits say, until the\nallowance ends: in two hours unless --for says otherwise.\n",
		Example:           "  caddy rate-limit allow 203.0.113.9 --for 2h --reason 'import of old orders'",
		ValidArgsFunction: c.completeClient,
	}
	addFor(cmd, &o, "2h", "How long: 90m, 24h, 7d")
	return c.act(cmd, &o, operator.Service.Allow, func(s *session, d operator.Done) string {
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
		Use:               "disallow <client>",
		Short:             "Ends what allow began",
		Long:              "Ends what allow began: limits and bans hold for the client again.\n",
		Example:           "  caddy rate-limit disallow 203.0.113.9",
		ValidArgsFunction: c.completeBanned("allow"),
	}, &o, operator.Service.Disallow, func(_ *session, d operator.Done) string {
		return "Limits and bans hold for " + d.Client + " again."
	}, "No allowance is in force for %s.")
}
