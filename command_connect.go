package tally

import (
	"cmp"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/caddyserver/caddy/v2"
	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"

	"github.com/caddy-tally/caddy-tally/internal/operator"
	"github.com/caddy-tally/caddy-tally/internal/replayer"
	"github.com/caddy-tally/caddy-tally/internal/stores"
)

// adminEndpoint is where the running Caddy is asked, by flags as Caddy's own commands have
// them.
type adminEndpoint struct{ address, config, adapter string }

func (at *adminEndpoint) addFlags(cmd *cobra.Command) {
	flags := cmd.PersistentFlags()
	flags.StringVarP(&at.address, "address", "a", "", "The address of the running Caddy's admin endpoint")
	flags.StringVarP(&at.config, "config", "c", "", "A config file that says that address")
	flags.StringVar(&at.adapter, "adapter", "", "Name of the config adapter for --config")
}

// determine returns the address as Caddy writes it.
func (at *adminEndpoint) determine() (string, error) {
	if at.address == "" && at.config != "" {
		if err := checkAdmin(at.config, at.adapter); err != nil {
			return "", err
		}
	}
	return caddycmd.DetermineAdminAPIAddress(at.address, nil, at.config, at.adapter)
}

// checkAdmin returns an error if a config file turns the admin endpoint off.
func checkAdmin(file, adapter string) error {
	text, _, _, err := caddycmd.LoadConfig(file, adapter)
	if err != nil {
		return err
	}
	var config struct {
		Admin caddy.AdminConfig `json:"admin"`
		Apps  struct {
			RateLimit struct {
				RulesFile string `json:"rules_file"`
			} `json:"rate_limit"`
		} `json:"apps"`
	}
	if json.Unmarshal(text, &config) != nil || !config.Admin.Disabled {
		return nil // what is wrong with it, Caddy says
	}
	rules := cmp.Or(config.Apps.RateLimit.RulesFile, filepath.Join(caddy.AppDataDir(), stores.DefaultFolder, defaultRulesFile))
	return fmt.Errorf("%s turns the admin endpoint off (admin off), so no command can ask this Caddy; its rules file works without: write a line such as ban 203.0.113.9 or allow 203.0.113.9 into %s, which holds within a second; or write admin unix//run/caddy/admin.sock", file, rules)
}

// connect returns the service of the running Caddy.
func (at *adminEndpoint) connect(*cobra.Command) (operator.Service, error) {
	text, err := at.determine()
	if err != nil {
		return nil, err
	}
	address, err := caddy.ParseNetworkAddress(text)
	if err != nil || address.PortRangeSize() > 1 || address.IsFdNetwork() {
		return nil, fmt.Errorf("the address %q of the admin endpoint can't be used: expected one such as localhost:2019 or unix//run/caddy/admin.sock", text)
	}
	if address.IsUnixNetwork() {
		socket, _, _ := strings.Cut(address.Host, "|") // and its permissions
		return operator.NewClient("unix", socket), nil
	}
	return operator.NewClient("tcp", address.JoinHostPort(0)), nil
}

// loadReplay returns the config of the flags, for a replay.
func (at *adminEndpoint) loadReplay() (*replayer.Config, error) {
	return replayer.Load(at.config, at.adapter)
}
