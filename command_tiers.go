package tally

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"

	"github.com/caddy-tally/caddy-tally/internal/caddyconf"
)

// checkTier returns an error if the running Caddy doesn't have a tier: a file with a key of
// such a tier would not be used. If no Caddy can tell, it says so to w.
func (at *adminEndpoint) checkTier(w io.Writer, tier string) error {
	address, err := at.determine()
	if err != nil {
		return err
	}
	names, err := askTiers(address)
	switch {
	case err != nil:
		fmt.Fprintf(w, "No running Caddy could be asked whether there is a tier %q: %v.\n", tier, err)
	case len(names) == 0:
		fmt.Fprintf(w, "The Caddy at %s has no tiers yet: add a tier %q to the global option rate_limit.\n", address, tier)
	case !slices.Contains(names, tier):
		return fmt.Errorf("there is no tier %q in the Caddy at %s: write %s; or add it to the global option rate_limit and reload first; --force makes the key all the same", tier, address, caddyconf.OrList(names))
	}
	return nil
}

// maxAnswer bounds what is read of a running Caddy's answer.
const maxAnswer = 16 << 20

// askTiers returns the names of the tiers of the Caddy with an admin address.
func askTiers(address string) (names []string, err error) {
	response, err := caddycmd.AdminAPIRequest(address, http.MethodGet, "/config/", nil, nil)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	var config struct {
		Apps struct {
			RateLimit struct {
				Tiers []*Tier `json:"tiers"`
			} `json:"rate_limit"`
		} `json:"apps"`
	}
	if err := json.NewDecoder(io.LimitReader(response.Body, maxAnswer)).Decode(&config); err != nil {
		return nil, fmt.Errorf("reading the config of the Caddy at %s: %w", address, err)
	}
	for _, t := range config.Apps.RateLimit.Tiers {
		if t != nil {
			names = append(names, t.Name)
		}
	}
	return names, nil
}

// completeTier completes the tier of a new key.
func (at *adminEndpoint) completeTier(_ *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	address, err := at.determine()
	if err != nil || len(args) != 1 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	names, _ := askTiers(address) // there are no words then
	return names, cobra.ShellCompDirectiveNoFileComp
}
