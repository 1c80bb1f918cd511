package tally

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/caddy-tally/caddy-tally/internal/caddyconf"
)

// namesOf returns the names of commands, for messages.
func namesOf(commands []*cobra.Command) string {
	var names []string
	for _, cmd := range commands {
		names = append(names, cmd.Name())
	}
	return caddyconf.OrList(names)
}

// unknownCommand returns what a command runs that only has subcommands: it shows its help,
// or fails if a word follows that is none of them.
func unknownCommand(known string) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 {
			meant := ""
			if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
				meant = fmt.Sprintf("; did you mean %s?", caddyconf.OrList(near))
			}
			return fmt.Errorf("unknown command %q: expected %s%s", args[0], known, meant)
		}
		return cmd.Help()
	}
}
