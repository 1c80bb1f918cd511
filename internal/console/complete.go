package console

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/caddy-tally/caddy-tally/internal/operator"
)

// completeTimeout is how long the shell waits for completions.
const completeTimeout = 2 * time.Second

// completion completes an argument in the shell.
type completion = func(cmd *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective)

// anywhere is the position of an argument of which there may be several.
const anywhere = -1

// complete returns a completion of the argument at a position with words from the running Caddy. It
// returns no words if Caddy can't be reached.
func (c console) complete(position int, words func(context.Context, operator.Service) []string) completion {
	return func(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if position != anywhere && len(args) != position {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		service, err := c.connect(cmd)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ctx, cancel := context.WithTimeout(context.Background(), completeTimeout)
		defer cancel()
		return completions(words(ctx, service)), cobra.ShellCompDirectiveNoFileComp
	}
}

// completions returns completions without those that a shell would take for more than a word: cobra's
// script for bash expands them, and clients choose keys.
func completions(words []string) []cobra.Completion {
	slices.Sort(words)
	return slices.DeleteFunc(slices.Compact(words), func(word string) bool { return !operator.IsWord(word) })
}

// wordOf returns a client's name if that is a word, or else its tag.
func wordOf(client, tag string) string {
	if operator.IsWord(client) {
		return client
	}
	return string(operator.Tag) + ":" + tag
}

// completeZone completes the name of a zone.
func (c console) completeZone(position int) completion {
	return c.complete(position, func(ctx context.Context, s operator.Service) (names []string) {
		zones, _ := s.Zones(ctx)
		for _, z := range zones {
			names = append(names, z.Name)
		}
		return names
	})
}

// completeClient completes one of the clients that are refused most.
func (c console) completeClient(position int) completion {
	return c.complete(position, func(ctx context.Context, s operator.Service) (clients []string) {
		keys, _ := s.Keys(ctx, operator.KeysQuery{By: operator.ByRefused, N: 100})
		for _, k := range keys {
			clients = append(clients, wordOf(k.Client, k.Tag))
		}
		return clients
	})
}

// completeAPIKey completes the name of an API key: of those in the store, and of those that were used.
func (c console) completeAPIKey() completion {
	return c.complete(anywhere, func(ctx context.Context, s operator.Service) (names []string) {
		stored, _ := s.APIKeys(ctx)
		for _, k := range stored {
			names = append(names, k.Name)
		}
		used, _ := s.Keys(ctx, operator.KeysQuery{N: operator.MaxItems})
		for _, k := range used {
			if name, ok := strings.CutPrefix(k.Client, string(operator.APIKey)+":"); ok {
				names = append(names, name)
			}
		}
		return names
	})
}

// completeBanned completes a banned or allowed client.
func (c console) completeBanned(action operator.Action) completion {
	return c.complete(anywhere, func(ctx context.Context, s operator.Service) (clients []string) {
		bans, _ := s.Bans(ctx)
		for _, b := range bans {
			if b.Action == action {
				clients = append(clients, wordOf(b.Client, b.Tag))
			}
		}
		return clients
	})
}

// completeMonth completes one of the last twelve months, the newest first.
func (c console) completeMonth(*cobra.Command, []string, string) (months []cobra.Completion,
	_ cobra.ShellCompDirective) {
	now := c.now().UTC()
	for ago := range 12 {
		months = append(months,
			time.Date(now.Year(), now.Month()-time.Month(ago), 1, 0, 0, 0, 0, time.UTC).Format("2006-01"))
	}
	return months, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
}

// completeRaise completes a factor, and then clients.
func (c console) completeRaise(cmd *cobra.Command, args []string, begun string) ([]cobra.Completion,
	cobra.ShellCompDirective) {
	if len(args) == 0 {
		return []cobra.Completion{"0.5x", "2x", "5x", "10x"}, cobra.ShellCompDirectiveNoFileComp
	}
	return c.completeClient(anywhere)(cmd, args, begun)
}
