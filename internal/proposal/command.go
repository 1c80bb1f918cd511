package proposal

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/caddyserver/caddy/v2"
	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"

	"github.com/caddy-tally/caddy-tally/internal/accesslog"
	"github.com/caddy-tally/caddy-tally/internal/advice"
	"github.com/caddy-tally/caddy-tally/internal/console"
	"github.com/caddy-tally/caddy-tally/internal/wording"
)

// Source is the config that limits are proposed for.
type Source struct {
	File   string // the path of a Caddyfile; "" for another config, and for that of a running Caddy
	Config []byte // in JSON
}

// flags are the flags of `caddy rate-limit init`.
type flags struct {
	logs           []string
	format, site   string
	write, enforce bool
}

// Command returns `caddy rate-limit init` for the config that load returns.
func Command(load func() (Source, error)) *cobra.Command {
	f := new(flags)
	cmd := &cobra.Command{
		Use:   "init",
		Short: "Proposes limits for a config and its access log, in shadow",
		Long: `Reads the Caddyfile of --config, or the config of the running Caddy, and the access
log that it says, and prints a rate_limit for each site that has none: for
programs that it recognizes, sign-ins, APIs, heavy paths, crawlers and crowds of
many networks. A comment says why each number is what it is: a recipe's, or several
times what most of the log's people want. What a few clients do is noted, and
decides nothing. All zones are in shadow: they count, and refuse nothing.

With --write they are put into the Caddyfile, with a copy of it beside; then reload
Caddy. When caddy rate-limit zones shows that they refuse who they should, --enforce
takes the shadow away.`,
		Example: `  caddy rate-limit init --config Caddyfile --log '/var/log/caddy/access.log'
  caddy rate-limit init --config Caddyfile --write
  caddy rate-limit init --config Caddyfile --enforce`,
		Args: console.Usage(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			caddy.BufferedLog() // what loading logs
			err := f.run(cmd, load)
			if err != nil {
				err = errors.New(wording.Printable(err.Error(), "\n"))
			}
			return err
		},
	}
	set := cmd.Flags()
	set.StringArrayVarP(&f.logs, "log", "l", nil, "An access log (default: those that the config writes to files)")
	set.StringVar(&f.format, "format", "", "The format of the log, as for replay")
	set.StringVar(&f.site, "site", "", "The host of log lines that name none (default: that of the only site)")
	set.BoolVarP(&f.write, "write", "w", false, "Write the zones into the Caddyfile of --config")
	set.BoolVar(&f.enforce, "enforce", false, "Take the shadow of the written zones away")
	cmd.MarkFlagsMutuallyExclusive("write", "enforce")
	return cmd
}

func (f *flags) run(cmd *cobra.Command, load func() (Source, error)) error {
	ctx, stop := signal.NotifyContext(cmp.Or(cmd.Context(), context.Background()), os.Interrupt, syscall.SIGTERM)
	defer stop()
	source, err := load()
	if err != nil {
		return err
	}
	if (f.write || f.enforce) && source.File == "" {
		return errors.New("only a Caddyfile can be written: name it with --config Caddyfile")
	}
	var text []byte
	if source.File != "" {
		text, err = os.ReadFile(source.File)
	} else {
		text, err = describe(source.Config)
	}
	if err != nil {
		return err
	}
	out := cmd.OutOrStdout()
	if f.enforce {
		zones := len(shadowLines.FindAll(text, -1))
		if zones == 0 {
			others := strings.Join(otherShadows(text), ", ")
			return fmt.Errorf("%s has no line %q: to enforce other zones, and those in imported files, remove the word shadow; in shadow are %s", source.File, shadowLine, cmp.Or(others, "no zones of this file"))
		}
		rest := shadowLines.ReplaceAll(text, nil)
		err := install(out, source.File, text, rest, zones, enforced)
		if zones := otherShadows(rest); err == nil && len(zones) > 0 {
			fmt.Fprintf(out, "Still in shadow: %s. Remove the word shadow there, to let them refuse, too.\n",
				strings.Join(zones, ", "))
		}
		return err
	}
	paths := f.logs
	if len(paths) == 0 {
		paths = logsOf(source.Config)
	}
	open := func() (*accesslog.Merger, error) {
		if len(paths) == 0 {
			return nil, nil
		}
		parser, err := accesslog.NewParser(f.format)
		if err != nil {
			return nil, err
		}
		for _, path := range paths {
			if err := checkFile("log", path); err != nil {
				return nil, err
			}
		}
		return accesslog.NewMerger(parser, paths, cmd.InOrStdin())
	}
	d, err := propose(ctx, source.File, text, f.site, open)
	if err != nil {
		return err
	}
	if source.File == "" {
		d.notes = append(
			[]string{"The config isn't a Caddyfile. These lines are for one; the fields of JSON are in docs/json.md."},
			d.notes...)
	}
	if len(paths) == 0 {
		d.notes = append(d.notes, "There is no access log, in a file that the config names or in --log. So what visitors want is unknown, and nothing is proposed for pages, APIs, heavy paths and crawlers; nor is known whether a proxy stands in front.")
	}
	if zonesOf(d.sites) > 0 && slices.ContainsFunc(d.sites, func(s *site) bool { return s.tls }) &&
		!bytes.Contains(source.Config, []byte(`"listener_wrappers"`)) {
		d.notes = append(d.notes, "Connections of addresses that rules and block lists ban can end before TLS, where that costs a tenth: write "+advice.ListenerWrapper+".")
	}
	d.writeNotes(out)
	if !f.write {
		if d.write(out, d.sites); zonesOf(d.sites) == 0 {
			fmt.Fprintln(out, "# No zone is proposed.")
		}
		return nil
	}
	return d.install(out)
}

// Load returns the config of a file, which is a Caddyfile unless its name, its text or the adapter says otherwise.
func Load(file, adapter string) (source Source, err error) {
	if err := checkFile("config", file); err != nil {
		return source, err
	}
	text, err := os.ReadFile(file)
	if adapter == "" && err == nil && filepath.Ext(file) != ".json" && !json.Valid(text) {
		adapter = "caddyfile"
	}
	adapts := adapter == "caddyfile"
	source.Config, _, adapter, err = caddycmd.LoadConfig(file, adapter)
	if adapter == "caddyfile" {
		source.File = file
	}
	if err != nil && adapts && mayBeImported(file) {
		err = fmt.Errorf("%w; if another Caddyfile imports this file, name that one with --config", err)
	}
	return source, err
}

// checkFile returns an error if what a flag names can be read only once, such as a pipe.
func checkFile(flag, path string) error {
	info, err := os.Stat(path)
	switch {
	case path == "-":
		path = "the standard input"
	case err != nil || info.Mode().IsRegular() || info.IsDir(): // which has errors of its own
		return nil
	}
	return fmt.Errorf("--%s: %s can be read only once, and is needed twice: expected a file, so write it to one first",
		flag, path)
}

// What comes after writing a Caddyfile.
const (
	written = `Added %[1]s in shadow to %[2]s. The file before is %[3]s. Next:
  %[4]s
  caddy rate-limit zones --config %[5]s    shows what they would refuse
  caddy rate-limit init --config %[2]s --enforce    once that is right`
	enforced = `%[1]s will refuse after: %[4]s
The file before is %[3]s.`
)
