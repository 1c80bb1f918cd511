package console

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/spf13/cobra"

	"github.com/caddy-tally/caddy-tally/identity/apikeys"
	"github.com/caddy-tally/caddy-tally/internal/operator"
	"github.com/caddy-tally/caddy-tally/internal/textfile"
	"github.com/caddy-tally/caddy-tally/internal/wording"
)

// KeyOptions are what `caddy rate-limit key` needs to know of Caddy.
type KeyOptions struct {
	Connect Connect
	// CheckTier returns an error if the running Caddy doesn't have a tier. If no Caddy can be asked,
	// it writes a note to w.
	CheckTier func(w io.Writer, tier string) error
	Tiers     func() []string // names of the running Caddy's tiers, as far as they are known
	File      string          // the default file of keys
	ListFile  func(path string) ([]operator.StoredKey, error)
	Unknown   func(*cobra.Command, []string) error
}

// KeyCommand returns `caddy rate-limit key`.
func KeyCommand(o KeyOptions) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "key",
		Short: "Makes, lists, changes and revokes API keys",
		Long: `Makes, lists and revokes the API keys that the option api_keys tells clients
by. A running Caddy notices within a second. Run it as the user that Caddy runs
as, so that Caddy can read the file.

With --store they are in the store that several machines share: a key that is made
or revoked there is so on all machines within a second. The running Caddy does it,
which needs the word store in its block api_keys.

What the clients of a key have used, and what is left, this says:
caddy rate-limit explain api-key:NAME`,
		RunE: o.Unknown,
	}
	in := &keyPlace{KeyOptions: o}
	cmd.PersistentFlags().StringVarP(&in.path, "file", "f", o.File, "The file of keys")
	cmd.PersistentFlags().BoolVar(&in.shared, "store", false,
		"The keys in the store that machines share, instead of those of the file")
	cmd.MarkFlagsMutuallyExclusive("file", "store")
	cmd.AddCommand(keyNewCommand(in), keyListCommand(in), keyTierCommand(in), keyRevokeCommand(in))
	return cmd
}

// keyPlace is the place of keys: a file, or the store of the running Caddy.
type keyPlace struct {
	KeyOptions
	path   string
	shared bool
}

func (k *keyPlace) String() string {
	if k.shared {
		return "the store, for all machines that share it"
	}
	return k.path
}

// add makes a key and returns it. A store gets only its hash.
func (k *keyPlace) add(ctx context.Context, client apikeys.Holder) (string, error) {
	if !k.shared {
		listed, _ := k.ListFile(k.path) // making the key reports any error
		for _, other := range listed {
			if other.Name == client.Name && other.Tier != client.Tier {
				return "", fmt.Errorf("%s has the tier %s already, got %s: a name has one; caddy rate-limit key tier %s %s changes it", client.Name, other.Tier, client.Tier, client.Name, client.Tier)
			}
		}
		key, err := apikeys.New(k.path, client)
		if err == nil {
			// without a running Caddy there is no audit
			_, _ = k.ask(ctx, operator.APIKeyChange{Name: client.Name, Tier: client.Tier, Done: operator.KeyMade})
		}
		return key, err
	}
	key, stored, err := apikeys.NewStored(client)
	if err != nil {
		return "", err
	}
	service, err := k.Connect(nil)
	if err != nil {
		return "", err
	}
	return key, service.AddAPIKey(ctx, stored.String())
}

// list returns all keys.
func (k *keyPlace) list(ctx context.Context) ([]operator.StoredKey, error) {
	if !k.shared {
		return k.ListFile(k.path)
	}
	service, err := k.Connect(nil)
	if err != nil {
		return nil, err
	}
	return service.APIKeys(ctx)
}

// change changes the tier of a name's keys, or revokes them, and returns their number.
func (k *keyPlace) change(ctx context.Context, c operator.APIKeyChange) (changed int, err error) {
	switch {
	case k.shared:
		return k.ask(ctx, c)
	case c.Tier == "":
		c.Done = operator.KeyRevoked
		changed, err = apikeys.Revoke(k.path, c.Name, c.ID)
	default:
		c.Done = operator.KeyTier
		changed, err = apikeys.SetTier(k.path, c.Name, c.Tier)
	}
	if err == nil {
		_, _ = k.ask(ctx, c) // without a running Caddy there is no audit
	}
	return changed, err
}

// ask makes the running Caddy change keys of the store, or note a change of the file in its audit.
func (k *keyPlace) ask(ctx context.Context, change operator.APIKeyChange) (int, error) {
	service, err := k.Connect(nil)
	if err != nil {
		return 0, err
	}
	return service.ChangeAPIKeys(ctx, change)
}

// between returns a check of the number of arguments. Its error shows an example.
func between(least, most int, example string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) < least || len(args) > most {
			return fmt.Errorf("got %q: expected caddy rate-limit key %s", args, example)
		}
		return nil
	}
}

func keyNewCommand(in *keyPlace) *cobra.Command {
	var force bool
	var expires string
	cmd := &cobra.Command{
		Use:   "new NAME TIER",
		Short: "Makes a key, prints it once, and adds its hash to the file or the store",
		Long: `Makes a key, prints it once, and adds its hash to the file, which is made if
there is none.

NAME is a client such as acme, or vendor/product for a part of one with a quota
of its own. Keys of one name share a quota: make another to replace one that is
still in use.

TIER is one of the running Caddy, which is asked for it at its admin endpoint, as
by other commands: see --address and --config. Without a running Caddy the key is
made all the same.`,
		Example:           "  caddy rate-limit key new acme free --expires 90d",
		ValidArgsFunction: in.completeTier,
		Args:              between(2, 2, "new acme free"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := in.CheckTier(cmd.ErrOrStderr(), args[1]); err != nil && !force {
				return err
			}
			end, err := expiry(expires, time.Now())
			if err != nil {
				return err
			}
			key, err := in.add(cmd.Context(), apikeys.Holder{Name: args[0], Tier: args[1], Expires: end})
			if err != nil {
				return err
			}
			fmt.Fprintln(cmd.OutOrStdout(), key)
			fmt.Fprintf(cmd.ErrOrStderr(), "This is the only time the key is shown. Its hash is in %s.\n", in)
			return nil
		},
	}
	cmd.Flags().StringVar(&expires, "expires", "", "When the key expires: after 90d, or at 2026-12-01 (default: never)")
	cmd.Flags().BoolVar(&force, "force", false, "Make the key also for a tier that the running Caddy doesn't have")
	return cmd
}

// expiry parses the value of --expires. It returns the zero time for "".
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

func keyListCommand(in *keyPlace) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "Lists the keys: name, tier, what tells the keys of a name apart, and until when",
		Example: "  caddy rate-limit key list",
		Args:    between(0, 0, "list"),
	}
	asJSON := cmd.Flags().Bool("json", false, "Print JSON")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		keys, err := in.list(cmd.Context())
		if err != nil {
			return err
		}
		if *asJSON {
			return wording.WriteJSON(cmd.OutOrStdout(), keys)
		}
		writeTable(cmd.OutOrStdout(), LookOf(cmd.OutOrStdout()), keyColumns, keys)
		return nil
	}
	return cmd
}

var keyColumns = []column[operator.StoredKey]{
	{"", func(k operator.StoredKey) cell { return text(k.Name) }},
	{"", func(k operator.StoredKey) cell { return text(k.Tier) }},
	{"", func(k operator.StoredKey) cell { return text(k.ID) }},
	{"", func(k operator.StoredKey) cell { return text(ending(k.Expires, time.Now())) }},
}

// ending returns the column about the expiry of a key.
func ending(end *time.Time, now time.Time) string {
	switch {
	case end == nil:
		return ""
	case !now.Before(*end):
		return "expired " + textfile.FormatTime(*end)
	}
	return "until " + textfile.FormatTime(*end)
}

func keyTierCommand(in *keyPlace) *cobra.Command {
	var force bool
	cmd := &cobra.Command{
		Use:   "tier NAME TIER",
		Short: "Gives the keys of a name another tier",
		Long: `Gives the keys of a name another tier. The keys stay as they are. The keys of its
parts (NAME/…) keep their tier.

TIER is one of the running Caddy, as for key new.`,
		Example:           "  caddy rate-limit key tier acme pro",
		ValidArgsFunction: in.completeTier,
		Args:              between(2, 2, "tier acme pro"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := in.CheckTier(cmd.ErrOrStderr(), args[1]); err != nil && !force {
				return err
			}
			if err := apikeys.CheckTier(args[1]); err != nil { // without one, the change would revoke the keys
				return err
			}
			changed, err := in.change(cmd.Context(), operator.APIKeyChange{Name: args[0], Tier: args[1]})
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

func keyRevokeCommand(in *keyPlace) *cobra.Command {
	return &cobra.Command{
		Use:   "revoke NAME [ID]",
		Short: "Removes the keys of a name, or the one that ID names",
		Long: `Removes the keys of a name from the file or the store, or the one of them that ID
names, as listed. The keys of its parts (NAME/…) stay.`,
		Example:           "  caddy rate-limit key revoke acme 9a41c07e",
		ValidArgsFunction: completeKey(in),
		Args:              between(1, 2, "revoke acme"),
		RunE: func(cmd *cobra.Command, args []string) error {
			revoked, err := in.change(cmd.Context(), operator.APIKeyChange{Name: args[0], ID: append(args, "")[1]})
			if err != nil {
				return err
			}
			fmt.Fprintf(cmd.ErrOrStderr(), "Revoked %d.\n", revoked)
			return nil
		},
	}
}

// completeKey completes the name of a key in the file, and then its id.
func completeKey(in *keyPlace) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		var words []string
		keys, _ := in.list(cmd.Context()) // an error: nothing to complete
		for _, k := range keys {
			switch {
			case len(args) == 0:
				words = append(words, k.Name)
			case len(args) == 1 && args[0] == k.Name:
				words = append(words, k.ID)
			}
		}
		return completions(words), cobra.ShellCompDirectiveNoFileComp
	}
}

// completeTier completes the tier of a new key.
func (k *keyPlace) completeTier(_ *cobra.Command, args []string, _ string) ([]cobra.Completion,
	cobra.ShellCompDirective) {
	if len(args) != 1 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return completions(k.Tiers()), cobra.ShellCompDirectiveNoFileComp
}
