package tally

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"text/tabwriter"

	"github.com/caddyserver/caddy/v2"
	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"

	"github.com/caddy-tally/caddy-tally/identity/apikeys"
	"github.com/caddy-tally/caddy-tally/internal/caddyconf"
	"github.com/caddy-tally/caddy-tally/internal/config"
	"github.com/caddy-tally/caddy-tally/internal/console"
	"github.com/caddy-tally/caddy-tally/internal/dashboard"
	"github.com/caddy-tally/caddy-tally/internal/names"
	"github.com/caddy-tally/caddy-tally/internal/operator"
	"github.com/caddy-tally/caddy-tally/internal/operator/local"
	"github.com/caddy-tally/caddy-tally/internal/proposal"
	"github.com/caddy-tally/caddy-tally/internal/replayer"
	"github.com/caddy-tally/caddy-tally/internal/wording"
	"github.com/caddy-tally/caddy-tally/storage/sqlite"
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
			cmd.AddCommand(replayer.Command(at.loadReplay), proposal.Command(at.loadProposal), dashboardCommand(at),
				keyCommand(at), versionCommand())
			cmd.RunE = unknownCommand(namesOf(cmd.Commands()))
		},
	})
}

// adminEndpoint is the admin endpoint of the running Caddy, selected by the same flags as in
// Caddy's own commands.
type adminEndpoint struct {
	address, config, adapter string
	determined               string // the result of determine; "" before the first call
}

func (at *adminEndpoint) addFlags(cmd *cobra.Command) {
	flags := cmd.PersistentFlags()
	flags.StringVarP(&at.address, "address", "a", "", "The address of the running Caddy's admin endpoint")
	flags.StringVarP(&at.config, "config", "c", "", "A config file that says that address")
	flags.StringVar(&at.adapter, "adapter", "", "Name of the config adapter for --config")
}

// determine returns the address in Caddy's notation.
func (at *adminEndpoint) determine() (string, error) {
	if at.determined != "" {
		return at.determined, nil
	}
	var config []byte
	var err error
	if at.address == "" && at.config != "" {
		caddy.BufferedLog() // what loading logs
		if config, err = checkAdmin(at.config, at.adapter); err != nil {
			return "", err
		}
	}
	address, err := caddycmd.DetermineAdminAPIAddress(at.address, config, at.config, at.adapter)
	at.determined = strings.TrimSuffix(strings.TrimPrefix(address, "http://"), "/")
	return at.determined, err
}

// knownConfig is what commands read of a config.
type knownConfig struct {
	Admin caddy.AdminConfig          `json:"admin"`
	Apps  map[string]json.RawMessage `json:"apps"`
}

type knownApp struct {
	RulesFile string         `json:"rules_file"`
	Tiers     []*config.Tier `json:"tiers"`
}

// app returns the part of our app, zero if there is none.
func (c *knownConfig) app() (app knownApp) {
	_ = json.Unmarshal(c.Apps[names.App], &app) // Caddy reports invalid configs
	return app
}

// checkAdmin returns a config file as JSON, or an error if it turns the admin endpoint off.
func checkAdmin(file, adapter string) ([]byte, error) {
	text, _, _, err := caddycmd.LoadConfig(file, adapter)
	if err != nil {
		return nil, err
	}
	var parsed knownConfig
	if json.Unmarshal(text, &parsed) != nil || !parsed.Admin.Disabled {
		return text, nil // Caddy reports invalid configs
	}
	rules := cmp.Or(parsed.app().RulesFile, config.DefaultRulesFile())
	return nil, fmt.Errorf("%s turns the admin endpoint off (admin off), so no command can ask this Caddy; its rules file works without: write a line such as ban 203.0.113.9 or allow 203.0.113.9 into %s, which holds within a second; or write admin unix//run/caddy/admin.sock", file, rules)
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
		socket, _, _ := strings.Cut(address.Host, "|") // omits the socket's permissions
		return operator.NewRemote("unix", socket), nil
	}
	return operator.NewRemote("tcp", address.JoinHostPort(0)), nil
}

// loadReplay returns the config of the flags, for a replay.
func (at *adminEndpoint) loadReplay() (*replayer.Config, error) {
	return replayer.Load(at.config, at.adapter)
}

// loadProposal returns the config of the flags, or that of the running Caddy.
func (at *adminEndpoint) loadProposal() (source proposal.Source, err error) {
	if at.config == "" {
		address, err := at.determine()
		if err != nil {
			return source, err
		}
		source.Config, err = askConfig(address)
		return source, err
	}
	return proposal.Load(at.config, at.adapter)
}

// keyCommand returns `caddy rate-limit key`.
func keyCommand(at *adminEndpoint) *cobra.Command {
	return console.KeyCommand(console.KeyOptions{
		Connect: at.connect, CheckTier: at.checkTier, Tiers: at.tiers,
		File: config.DefaultKeyFile(), ListFile: listKeys, Unknown: unknownCommand("new, list, tier or revoke"),
	})
}

// listKeys returns the keys of a file.
func listKeys(path string) ([]operator.StoredKey, error) {
	entries, err := apikeys.List(path)
	return local.DescribeKeys(entries), err
}

// checkTier returns an error if the running Caddy doesn't have a tier: it would reject a file with
// a key of that tier. If no Caddy can be asked, it writes a note to w.
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
		fmt.Fprintf(w, "The Caddy at %s has no tiers yet: add a tier %q to the global option rate_limit.\n",
			address, tier)
	case !slices.Contains(names, tier):
		return fmt.Errorf("there is no tier %q in the Caddy at %s: write %s; or add it to the global option rate_limit and reload first; --force does it all the same", tier, address, caddyconf.OrList(names))
	}
	return nil
}

// maxAnswer bounds the size of a running Caddy's answer.
const maxAnswer = 16 << 20

// askConfig returns the running config of the Caddy at an admin address.
func askConfig(address string) ([]byte, error) {
	response, err := caddycmd.AdminAPIRequest(address, http.MethodGet, "/config/", nil, nil)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	return io.ReadAll(io.LimitReader(response.Body, maxAnswer))
}

// askTiers returns the names of the tiers of the Caddy at an admin address.
func askTiers(address string) (tiers []string, err error) {
	config, err := askConfig(address)
	if err != nil {
		return nil, err
	}
	var running knownConfig
	if err := json.Unmarshal(config, &running); err != nil {
		return nil, fmt.Errorf("reading the config of the Caddy at %s: %w", address, err)
	}
	for _, t := range running.app().Tiers {
		if t != nil {
			tiers = append(tiers, t.Name)
		}
	}
	return tiers, nil
}

// tiers returns the names of the running Caddy's tiers, or nil if it can't be asked.
func (at *adminEndpoint) tiers() []string {
	address, err := at.determine()
	if err != nil {
		return nil
	}
	tiers, _ := askTiers(address) // an error: nothing to complete
	return tiers
}

// dashboardCommand returns `caddy rate-limit dashboard`.
func dashboardCommand(at *adminEndpoint) *cobra.Command {
	var readOnly bool
	var port uint16
	cmd := &cobra.Command{
		Use:   "dashboard",
		Short: "Shows the dashboard in a browser on this machine",
		Long: `Serves the dashboard of a running Caddy to a browser on this machine, until Ctrl-C,
and prints the address to open. The address works once; the browser that opened
it stays in.

From afar, run it on the server over ssh, which forwards the port:

  ssh -t -L 8042:127.0.0.1:8042 server caddy rate-limit dashboard --port 8042

Then open the address on your own machine. Others who are logged in on the server
can't get in: they don't have the address.

What is done here is noted in the audit as done by "admin".`,
		Example: "  caddy rate-limit dashboard --read-only",
		Args:    console.Usage(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := signal.NotifyContext(cmp.Or(cmd.Context(), context.Background()), os.Interrupt,
				syscall.SIGTERM)
			defer stop()
			service, err := at.connect(cmd)
			if err != nil {
				return err
			}
			if _, err := service.Status(ctx); err != nil {
				return err
			}
			served := dashboard.New(dashboard.Options{
				Service: service, Writable: !readOnly,
				Report: func(err error) { fmt.Fprintf(cmd.ErrOrStderr(), "%q\n", err.Error()) },
			})
			return openDoor(ctx, cmd.OutOrStdout(), dashboard.NewDoor(served), port)
		},
	}
	cmd.Flags().BoolVar(&readOnly, "read-only", false, "Show everything and change nothing")
	cmd.Flags().Uint16Var(&port, "port", 0, "The port of 127.0.0.1 to listen on; 0 chooses a free one")
	return cmd
}

// openDoor serves the dashboard on loopback until ctx ends, and prints its URL.
func openDoor(ctx context.Context, out io.Writer, door *dashboard.Door, port uint16) error {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(int(port))))
	if err != nil {
		return err
	}
	_, listening, err := net.SplitHostPort(listener.Addr().String())
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "Open this address. It works once. Ctrl-C ends the dashboard.\n\n%s\n", door.URL(listening))
	return door.Serve(ctx, listener)
}

// namesOf returns the names of commands, for messages.
func namesOf(commands []*cobra.Command) string {
	var names []string
	for _, cmd := range commands {
		names = append(names, cmd.Name())
	}
	return caddyconf.OrList(names)
}

// unknownCommand returns the function of a command that only has subcommands: it shows the help, or
// fails for an unknown subcommand.
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

// versionCommand returns `caddy rate-limit version`.
func versionCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Prints the versions of the rate limiter, of Caddy and of the database",
		Long: `Prints the versions of the rate limiter, of the Caddy that it is built into, of Go
and of the databases that it makes, and whether there can be a journal on this
platform. No running Caddy is asked.`,
		Example: "  caddy rate-limit version --json",
		Args:    console.Usage(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if asJSON {
				return wording.WriteJSON(cmd.OutOrStdout(), runningVersions())
			}
			return runningVersions().write(cmd.OutOrStdout())
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "Print JSON")
	return cmd
}

// write prints the versions for people.
func (v versions) write(w io.Writer) error {
	journal := "none on this platform: each charge is a transaction"
	if v.Journal {
		journal = "possible on this platform"
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(table, "Rate limiter\t%s\n", v.moduleText())
	fmt.Fprintf(table, "Caddy\t%s\n", v.Caddy)
	fmt.Fprintf(table, "Built with\t%s for %s\n", v.Go, v.Platform)
	fmt.Fprintf(table, "Database\tversion %d\n", v.Database)
	fmt.Fprintf(table, "Journal\t%s\n", journal)
	return table.Flush()
}

func (v versions) moduleText() string {
	text := cmp.Or(v.Module, "unknown")
	if v.Revision != "" {
		text += ", revision " + v.Revision[:min(len(v.Revision), 12)] // --json has all of it
	}
	if v.Modified {
		text += " with changes"
	}
	return text
}

// versions are those of a binary and of its parts.
type versions struct {
	Module   string `json:"version,omitempty"`  // "" if the binary doesn't say it
	Revision string `json:"revision,omitempty"` // of the repository, if the binary was built in it
	Modified bool   `json:"modified,omitempty"` // the files weren't those of the revision
	Caddy    string `json:"caddy"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
	Database int    `json:"database"` // of the schema
	Journal  bool   `json:"journal"`  // whether there can be one on this platform
}

// versionsOf returns the versions in a binary's build info, which may be nil.
func versionsOf(info *debug.BuildInfo) versions {
	v := versions{
		Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH,
		Database: sqlite.SchemaVersion(), Journal: sqlite.HasJournal,
	}
	v.Caddy, _ = caddy.Version()
	if info == nil {
		return v
	}
	v.Module = moduleVersion(info)
	if info.Main.Path != caddyconf.ModulePath {
		return v // the revision belongs to another repository
	}
	for _, setting := range info.Settings {
		switch setting.Key {
		case "vcs.revision":
			v.Revision = setting.Value
		case "vcs.modified":
			v.Modified = setting.Value == "true"
		}
	}
	return v
}

// moduleVersion returns the version of this module in a binary, or "" if it is unknown.
func moduleVersion(info *debug.BuildInfo) string {
	for _, module := range append(info.Deps, &info.Main) {
		switch {
		case module.Path != caddyconf.ModulePath:
		case module.Replace == nil:
			return module.Version
		case module.Replace.Version == "":
			return "(devel)" // a folder
		default:
			return module.Replace.Version
		}
	}
	return ""
}

// runningVersions returns the versions of this process.
func runningVersions() versions {
	info, _ := debug.ReadBuildInfo()
	return versionsOf(info)
}
