package console

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/caddy-tally/caddy-tally/internal/operator"
	"github.com/caddy-tally/caddy-tally/internal/textfile"
	"github.com/caddy-tally/caddy-tally/internal/wording"
)

// clientHelp explains the names of clients in help texts.
const clientHelp = `
A client is an address (203.0.113.9), a network (203.0.113.0/24), api-key:NAME,
key:TEXT (the value of a zone's key), session:ID or tag:TAG, as lists show them.`

// action is a command that acts on clients.
type action struct {
	operator.Action
	short, long, example string
	undoes               operator.Action // whose clients the shell completes; "" for those that are refused most
	nothing              string          // the message if nothing was changed; "" if that is impossible
	zone                 string          // has --zone
	force                string          // usage of --force, if it differs
	lasts, usually       string          // usage and default of --for; "" if the action doesn't last
}

var actions = []action{{
	Action:  operator.Reset,
	short:   "Forgets what a client has used: its limits start from zero",
	long:    "Forgets what a client has used, in all zones or in one: its limits start\nfrom zero.",
	example: "  caddy rate-limit reset 203.0.113.9 --zone login",
	nothing: "There is nothing to reset: %s has used nothing.",
	zone:    "Only in this zone",
}, {
	Action:  operator.Ban,
	short:   "Refuses every request of a client",
	long:    "Refuses every request of a client, until the ban ends or is lifted.",
	example: "  caddy rate-limit ban 203.0.113.0/24 198.51.100.7 --for 1w --reason scraper",
	force:   "Also a network wider than /8 (IPv6: /19), or a trusted proxy",
	lasts:   "How long: 90m, 24h, 1w (default: until it is lifted)",
}, {
	Action: operator.Unban,
	short:  "Ends the bans of clients, or of all",
	long: `Ends the bans of clients, by an operator or for what they did, and forgets their
violations. With --all it ends the bans of all clients: it says of how many, and
does it with --force. Block lists stay.`,
	example: "  caddy rate-limit unban 203.0.113.9\n  caddy rate-limit unban --all --force",
	undoes:  operator.Ban,
	nothing: "%s is not banned.",
}, {
	Action:  operator.Allow,
	short:   "Lets every request of a client pass for a while",
	long:    "Lets every request of a client pass, whatever bans and limits say, until the\nallowance ends: in two hours unless --for says otherwise.",
	example: "  caddy rate-limit allow 203.0.113.9 --for 2h --reason 'import of old orders'",
	lasts:   "How long: 90m, 24h, 1w",
	usually: "2h",
}, {
	Action:  operator.Disallow,
	short:   "Ends what allow began",
	long:    "Ends what allow began: limits and bans hold for the client again.",
	example: "  caddy rate-limit disallow 203.0.113.9",
	undoes:  operator.Allow,
	nothing: "No allowance is in force for %s.",
}, {
	Action: operator.Raise,
	short:  "Gives a client larger limits, or smaller ones",
	long: `Multiplies the amounts of a client's limits, bursts too, until the raise ends or
is lifted: 5x gives it five times as much, 0.2x a fifth. It lifts no ban, and
replaces an earlier raise of the client in the same zone.`,
	example: "  caddy rate-limit raise 5x api-key:acme --until 2026-12-01 --reason 'import of old orders'\n  caddy rate-limit raise 1.5x api-key:acme --zone api/monthly --until 2026-12-01\n  caddy rate-limit raise 0.2x 203.0.113.0/24 --zone login",
	zone:    "Only in this zone, or in one of its limits: ZONE/LIMIT",
	lasts:   "How long: 90m, 24h, 7d (default: until it is lifted)",
}, {
	Action:  operator.Unraise,
	short:   "Ends what raise began",
	long:    "Ends what raise began: the client has its limits as they are again. A raise in\none zone ends with --zone.",
	example: "  caddy rate-limit unraise api-key:acme",
	undoes:  operator.Raise,
	zone:    "Only in this zone, or in one of its limits: ZONE/LIMIT",
}}

// outcome says what an action has done.
func (s *session) outcome(action operator.Action, o *operator.Command, d operator.Done) string {
	switch action {
	case operator.Ban:
		return fmt.Sprintf("%s is banned %s%s.", d.Client, until(d.Until, s.now), holds(d.In))
	case operator.Unban:
		switch {
		case o.All:
			return fmt.Sprintf("Lifted %s of %s.", wording.Counted(d.Bans, "ban"), wording.Counted(d.Changed, "client"))
		case d.Bans == 0:
			return "No ban of " + d.Client + " was found; its violations are forgotten."
		case len(d.Notes) > 0: // Notes name other bans of it
			return fmt.Sprintf("Lifted %s of %s.", wording.Counted(d.Bans, "ban"), d.Client)
		}
		return d.Client + " is no longer banned."
	case operator.Allow:
		return fmt.Sprintf("Every request of %s passes %s%s.", d.Client, until(d.Until, s.now), holds(d.In))
	case operator.Disallow:
		return "Limits and bans hold for " + d.Client + " again."
	case operator.Raise:
		return fmt.Sprintf("Limits of %s are raised %s%s %s%s.", d.Client, o.Factor, o.Where(), until(d.Until, s.now),
			holds(d.In))
	case operator.Unraise:
		return "Limits of " + d.Client + " are no longer raised" + o.Where() + "."
	}
	return fmt.Sprintf("Reset %s of %s.", wording.Counted(d.Changed, "limit"), d.Client)
}

// act returns the command of an action. A word that names no client keeps it from acting. Then it acts on each client
// alone: one that can't be found doesn't keep the others from their action.
func (c console) act(a action) *cobra.Command {
	var o operator.Command
	var held, end string
	cmd := &cobra.Command{Use: string(a.Action) + " <client>...", Short: a.short, Long: a.long + "\n" + clientHelp,
		Example: a.example}
	cmd.ValidArgsFunction = c.completeClient(anywhere)
	cmd.Flags().StringVar(&o.Reason, "reason", "", "Why, for the audit")
	if a.undoes != "" {
		cmd.ValidArgsFunction = c.completeBanned(a.undoes)
	}
	if a.zone != "" {
		cmd.Flags().StringVar(&o.Zone, "zone", "", a.zone)
		cmd.RegisterFlagCompletionFunc("zone", c.completeZone(anywhere)) //nolint:errcheck // the flag is there
	}
	if a.lasts != "" {
		cmd.Flags().StringVar(&held, "for", a.usually, a.lasts)
		cmd.Flags().StringVar(&end, "until", "", "When it ends, in place of --for: 2026-12-01")
		cmd.MarkFlagsMutuallyExclusive("for", "until")
		cmd.Flags().BoolVar(&o.Force, "force", false, cmp.Or(a.force, "Also a network wider than /8 (IPv6: /19)"))
	}
	before := 0 // arguments before the clients
	switch a.Action {
	case operator.Unban:
		cmd.Flags().BoolVar(&o.All, "all", false, "All clients, instead of one")
		cmd.Flags().BoolVar(&o.Force, "force", false, "With --all: do it")
	case operator.Raise:
		before, cmd.Use, cmd.ValidArgsFunction = 1, "raise <factor> <client>...", c.completeRaise
	}
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if o.All {
			return cobra.NoArgs(cmd, args)
		}
		return cobra.MinimumNArgs(before+1)(cmd, args)
	}
	return c.command(cmd, func(s *session, args []string) (failed error) {
		if end != "" {
			t, err := textfile.ParseTime(end)
			if err != nil || !t.After(s.now) {
				return fmt.Errorf(
					"--until: got %q: expected a time to come, such as 2026-12-01 or 2026-12-01T08:00:00Z", end)
			}
			if o.For = operator.SecondsOf(t.Sub(s.now)); o.For > operator.MaxRule {
				return fmt.Errorf("--until: got %q: expected a time within 100 years", end)
			}
		} else if err := setFor(&o, held); err != nil {
			return err
		}
		if o.All {
			return s.act(a, &o)
		}
		if before == 1 {
			o.Factor = args[0]
		}
		for _, client := range args[before:] { // before the first is acted on
			if _, err := operator.ParseTarget(client); err != nil {
				return fmt.Errorf("%w; nothing was done; a text with blanks needs quotes", err)
			}
		}
		var none error
		for _, o.Client = range args[before:] {
			switch err := s.act(a, &o); {
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

// act acts on one client, or on all.
func (s *session) act(a action, o *operator.Command) error {
	done, err := s.Do(s.ctx, a.Action, *o)
	if err != nil {
		return err
	}
	return s.report(done, done.Changed > 0 || a.nothing == "", fmt.Sprintf(a.nothing, done.Client), func() {
		s.printf("%s", printable(s.outcome(a.Action, o, done)))
		s.showNotes(done.Notes)
	})
}

func (s *session) showNotes(notes []string) {
	for _, note := range notes {
		s.printf("%s", printable(note))
	}
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
		refused := fmt.Sprintf("Nothing was charged to %s: %s", done.Client, done.Outcome)
		if o.Units < 0 {
			refused = fmt.Sprintf("Nothing was given back of %s: %s", done.Client, done.Outcome)
		}
		if done.Limit != "" {
			refused += " by limit " + done.Limit
		}
		refused += "."
		if done.Retry > 0 {
			refused += " The units are free in " + wording.Wait(done.Retry.Duration()) + "."
		}
		return s.report(done, done.Allowed, refused, func() {
			switch units := wording.Counted(int(max(done.Units, -done.Units)), "unit"); {
			case done.Repeats:
				s.printf("The id was used before: nothing has changed.")
			case o.Units < 0 && done.Units == 0:
				s.printf("Gave back nothing: no units that charges took from %s still count. To give more, raise its limits.", printable(done.Client))
			case o.Units < 0:
				s.printf("Gave back %s of %s.", units, printable(done.Client))
			default:
				s.printf("Charged %s to %s.", units, printable(done.Client))
			}
		})
	})
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
