package tally

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/spf13/cobra"

	"github.com/caddy-tally/caddy-tally/identity/apikeys"
	"github.com/caddy-tally/caddy-tally/internal/textfile"
)

// keyCommand returns `caddy rate-limit key`.
func keyCommand(at *adminEndpoint) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "key",
		Short: "Makes, lists, changes and revokes API keys",
		Long: `Makes, lists and revokes the API keys that the option api_keys tells clients
by. A running Caddy notices within a second. Run it as the user that Caddy runs
as, so that Caddy can read the file.

What the clients of a key have used, and what is left, this says:
caddy rate-limit explain api-key:NAME`,
		RunE: unknownCommand("new, list, tier or revoke"),
	}
	file := cmd.PersistentFlags().StringP("file", "f", defaultKeyFile(), "The file of keys")
	cmd.AddCommand(keyNewCommand(file, at), keyListCommand(file), keyTierCommand(file, at), keyRevokeCommand(file))
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
	var expires string
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
		Example:           "  caddy rate-limit key new acme free --expires 90d",
		ValidArgsFunction: at.completeTier,
		Args:              between(2, 2, "new acme free"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := at.checkTier(cmd.ErrOrStderr(), args[1]); err != nil && !force {
				return err
			}
			end, err := expiry(expires, time.Now())
			if err != nil {
				return err
			}
			key, err := apikeys.New(*file, apikeys.Client{Name: args[0], Tier: args[1], Expires: end})
			if err != nil {
				return err
			}
			fmt.Fprintln(cmd.OutOrStdout(), key)
			fmt.Fprintf(cmd.ErrOrStderr(), "This is the only time the key is shown. Its hash is in %s.\n", *file)
			return nil
		},
	}
	cmd.Flags().StringVar(&expires, "expires", "", "When the key expires: after 90d, or at 2026-12-01 (default: never)")
	cmd.Flags().BoolVar(&force, "force", false, "Make the key also for a tier that the running Caddy doesn't have")
	return cmd
}

// expiry returns the time that the word of --expires means, or the zero time for "".
func expiry(word string, now time.Time) (time.Time, error) {
	if word == "" {
		return time.Time{}, nil
	}
	end, err := textfile.ParseTime(word)
	if d, wrong := caddy.ParseDuration(word); wrong == nil {
		end, err = now.Add(d).UTC().Truncate(time.Second), nil
	}
	switch {
	case err != nil:
		return end, fmt.Errorf("--expires: %w, or a duration such as 90d", err)
	case !end.After(now):
		return end, fmt.Errorf("--expires: got %q, which is not in the future", word)
	}
	return end, nil
}

// keyEntry is a key as `key list --json` has it.
type keyEntry struct {
	Name    string     `json:"name"`
	Tier    string     `json:"tier"`
	ID      string     `json:"id"`
	Expires *time.Time `json:"expires,omitempty"` // missing if it never does
}

func keyListCommand(file *string) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "Lists the keys of the file: name, tier, what tells the keys of a name apart, and until when",
		Example: "  caddy rate-limit key list",
		Args:    between(0, 0, "list"),
	}
	asJSON := cmd.Flags().Bool("json", false, "Print JSON")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		entries, err := apikeys.List(*file)
		if err != nil {
			return err
		}
		if *asJSON {
			return listKeysAsJSON(cmd.OutOrStdout(), entries)
		}
		table := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
		for _, e := range entries {
			fmt.Fprintf(table, "%s\t%s\t%s%s\n", e.Name, e.Tier, e.ID, ending(e.Expires, time.Now()))
		}
		return table.Flush()
	}
	return cmd
}

// ending returns the column that says when a key expires, if it does.
func ending(end, now time.Time) string {
	switch {
	case end.IsZero():
		return ""
	case !now.Before(end):
		return "\texpired " + textfile.FormatTime(end)
	}
	return "\tuntil " + textfile.FormatTime(end)
}

func listKeysAsJSON(w io.Writer, entries []apikeys.Entry) error {
	list := []keyEntry{}
	for _, e := range entries {
		k := keyEntry{Name: e.Name, Tier: e.Tier, ID: e.ID}
		if !e.Expires.IsZero() {
			k.Expires = &e.Expires
		}
		list = append(list, k)
	}
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	return encoder.Encode(list)
}

func keyTierCommand(file *string, at *adminEndpoint) *cobra.Command {
	var force bool
	cmd := &cobra.Command{
		Use:   "tier NAME TIER",
		Short: "Gives the keys of a name another tier",
		Long: `Gives the keys of a name another tier. The keys stay as they are. The keys of its
parts (NAME/…) keep their tier.

TIER is one of the running Caddy, as for key new.`,
		Example:           "  caddy rate-limit key tier acme pro",
		ValidArgsFunction: at.completeTier,
		Args:              between(2, 2, "tier acme pro"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := at.checkTier(cmd.ErrOrStderr(), args[1]); err != nil && !force {
				return err
			}
			changed, err := apikeys.SetTier(*file, args[0], args[1])
			if err != nil {
				return err
			}
			fmt.Fprintf(cmd.ErrOrStderr(), "Changed %d.\n", changed)
			return nil
		},
	}
	cmd.Flags().BoolVar(&force, "force", false, "Also a tier that the running Caddy doesn't have")
	return cmd
}

func keyRevokeCommand(file *string) *cobra.Command {
	return &cobra.Command{
		Use:   "revoke NAME [ID]",
		Short: "Removes the keys of a name from the file, or the one that ID names",
		Long: `Removes the keys of a name from the file, or the one of them that ID names, as
listed. The keys of its parts (NAME/…) stay.`,
		Example:           "  caddy rate-limit key revoke acme 9a41c07e",
		ValidArgsFunction: completeKey(file),
		Args:              between(1, 2, "revoke acme"),
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

// completeKey completes the name of a key of the file, and then what tells its keys apart.
func completeKey(file *string) cobra.CompletionFunc {
	return func(_ *cobra.Command, args []string, _ string) (words []cobra.Completion, _ cobra.ShellCompDirective) {
		entries, _ := apikeys.List(*file) // there are no words then
		for _, e := range entries {
			switch {
			case len(args) == 0 && !slices.Contains(words, e.Name):
				words = append(words, e.Name)
			case len(args) == 1 && args[0] == e.Name:
				words = append(words, e.ID)
			}
		}
		return words, cobra.ShellCompDirectiveNoFileComp
	}
}
