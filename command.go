package tally

import (
	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"

	"github.com/caddy-tally/caddy-tally/internal/console"
	"github.com/caddy-tally/caddy-tally/internal/replayer"
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
			cmd.AddCommand(replayer.Command(at.loadReplay), dashboardCommand(at), keyCommand(at), versionCommand())
			cmd.RunE = unknownCommand(namesOf(cmd.Commands()))
		},
	})
}
