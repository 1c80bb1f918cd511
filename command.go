package tally

import (
	"fmt"
	"text/tabwriter"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"

	"github.com/caddy-tally/caddy-tally/identity/apikeys"
	"github.com/caddy-tally/caddy-tally/internal/console"
)

func init() {
	caddycmd.RegisterCommand(caddycmd.Command{
		Name:  "rate-limit",
		Short: "Shows who is limited and why, bans and lets in, and manages API keys",
		Long: `Shows what a running Caddy's rate limiter does, why a client is refused, and what
its next request gets; bans clients, lets them in, and manages API keys.

The running Caddy is asked at its admin endpoint, as by other commands: where that
is, --address says, or the config file that --config names.`,
		CobraFunc: func(cmd *cobra.Command) {
			cmd.SuggestionsMinimumDistance = 2
			at := new(adminEndpoint)
			at.addFlags(cmd)
			cmd.Example = "  caddy rate-limit explain 203.0.113.9"
			cmd.AddCommand(console.Commands(at.connect)...)
			cmd.AddCommand(keyCommand(at))
			cmd.RunE = unknownCommand(namesOf(cmd.Commands()))
		},
	})
}

// namesOf returns the names of commands, for messages.
func namesOf(commands []*cobra.Command) string {
	var names []string
	for _, cmd := range commands {
		names = append(names, cmd.Name())
	}
	return orList(names)
}

// unknownCommand returns what a command runs that only has subcommands: it shows its help,
// or fails if a word follows that is none of them.
func unknownCommand(known string) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 {
			meant := ""
			if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
				meant = fmt.Sprintf("; did you mean %s?", orList(near))
			}
			return fmt.Errorf("unknown command %q: expected %s%s", args[0], known, meant)
		}
		return cmd.Help()
	}
}

// keyCommand returns `caddy rate-limit key`.
func keyCommand(at *adminEndpoint) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "key",
		Short: "Makes, lists and revokes API keys",
		Long: `Makes, lists and revokes the API keys that the option api_keys tells clients
by. A running Caddy notices within a second. Run it as the user that Caddy runs
as, so that Caddy can read the file.`,
		RunE: unknownCommand("new, list or revoke"),
	}
	file := cmd.PersistentFlags().StringP("file", "f", defaultKeyFile(), "The file of keys")
	cmd.AddCommand(keyNewCommand(file, at), keyListCommand(file), keyRevokeCommand(file))
	return cmd
}

// between returns what checks the number of arguments. Its error says with
// example what is expected.
func between(least, most int, example string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) < least || len(args) > most {
			return fmt.Errorf("got %q: expected caddy rate-limit key %s", args, example)
		}
		return nil
	}
}

func keyNewCommand(file *string, at *adminEndpoint) *cobra.Command {
	var force bool
	cmd := &cobra.Command{
		Use:   "new NAME TIER",
		Short: "Makes a key, prints it once, and adds its hash to the file",
		Long: `Makes a key, prints it once, and adds its hash to the file, which is made if
there is none.

NAME is a client such as acme, or vendor/product for a part of one with a quota
of its own. Keys of one name share a quota: make another to replace one that is
still in use.

TIER is one of the running Caddy, which is asked for it at its admin endpoint, as
by other commands: see --address and --config. Without a running Caddy the key is
made all the same.`,
		Args: between(2, 2, "new acme free"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := at.checkTier(cmd.ErrOrStderr(), args[1]); err != nil && !force {
				return err
			}
			key, err := apikeys.New(*file, apikeys.Client{Name: args[0], Tier: args[1]})
			if err != nil {
				return err
			}
			fmt.Fprintln(cmd.OutOrStdout(), key)
			fmt.Fprintf(cmd.ErrOrStderr(), "This is the only time the key is shown. Its hash is in %s.\n", *file)
			return nil
		},
	}
	cmd.Flags().BoolVar(&force, "force", false, "Make the key also for a tier that the running Caddy doesn't have")
	return cmd
}

func keyListCommand(file *string) *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "Lists the keys of the file: name, tier, and what tells the keys of a name apart",
		Args:  between(0, 0, "list"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			entries, err := apikeys.List(*file)
			if err != nil {
				return err
			}
			table := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
			for _, e := range entries {
				fmt.Fprintf(table, "%s\t%s\t%s\n", e.Name, e.Tier, e.ID)
			}
			return table.Flush()
		},
	}
}

func keyRevokeCommand(file *string) *cobra.Command {
	return &cobra.Command{
		Use:   "revoke NAME [ID]",
		Short: "Removes the keys of a name from the file, or the one that ID names",
		Long: `Removes the keys of a name from the file, or the one of them that ID names, as
listed. The keys of its parts (NAME/…) stay.`,
		Args: between(1, 2, "revoke acme"),
		RunE: func(cmd *cobra.Command, args []string) error {
			revoked, err := apikeys.Revoke(*file, args[0], append(args, "")[1])
			if err != nil {
				return err
			}
			fmt.Fprintf(cmd.ErrOrStderr(), "Revoked %d.\n", revoked)
			return nil
		},
	}
}
