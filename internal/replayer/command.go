package replayer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/caddy-tally/caddy-tally/internal/accesslog"
	"github.com/caddy-tally/caddy-tally/internal/console"
	"github.com/caddy-tally/caddy-tally/internal/replay"
	"github.com/caddy-tally/caddy-tally/internal/wording"
)

// flags are the flags of `caddy rate-limit replay`.
type flags struct {
	format   string
	from, to string
	sites    []string
	zone     string
	top      int
	reveal   bool
	json     bool
	suggest  bool
	html     string
}

// Command returns `caddy rate-limit replay` for the config that load returns.
func Command(load func() (*Config, error)) *cobra.Command {
	f := new(flags)
	cmd := &cobra.Command{
		Use:   "replay LOG...",
		Short: "Shows what the limits of a config would have refused in an access log",
		Long: `Reads access logs and decides about their requests as a Caddy with the config of
--config would have, at their times. It shows who would have been refused, how
often and since when, and how many clients smaller and larger limits would
refuse. Nothing is changed, and no running Caddy is asked.

Logs are Caddy's JSON, Common and Combined, those of nginx and of Traefik,
compressed with gzip or zstd or not; - is the standard input. Rotated files may
come in any order.

The exit status is 0, or 1 if no line can be read or something else fails; the
message says what.`,
		Example: `  caddy rate-limit replay --config Caddyfile /var/log/caddy/access*.log*
  caddy rate-limit replay --config Caddyfile --zone login --from 24h access.log
  journalctl -u caddy -o cat | caddy rate-limit replay --config Caddyfile -`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return errors.New("got no log: expected caddy rate-limit replay --config Caddyfile access.log, or - for the standard input")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, logs []string) error {
			err := f.run(cmd, load, logs)
			if err != nil {
				err = errors.New(wording.Printable(err.Error(), "\n"))
			}
			return err
		},
	}
	set := cmd.Flags()
	set.StringVar(&f.format, "format", "", "The format of the log: caddy, common, combined, nginx, traefik, or a string as in nginx's log_format (default: each line is tried)")
	set.StringVar(&f.from, "from", "",
		"Replay requests from a time on: 2026-12-01, 2026-12-01T10:00:00Z, or 24h for the last 24 hours")
	set.StringVar(&f.to, "to", "", "Replay requests until before a time")
	set.StringSliceVar(&f.sites, "site", nil,
		"Replay the requests of some hosts only, and take the first for the host of lines that name none")
	set.StringVar(&f.zone, "zone", "", "Report one zone. The others still count")
	set.IntVar(&f.top, "top", replay.DefaultTop, "How many clients of each limit to list")
	set.BoolVar(&f.reveal, "reveal", false, "Show whole addresses (default: masked)")
	set.BoolVar(&f.json, "json", false, "Print JSON")
	set.BoolVar(&f.suggest, "suggest", false, "Suggest amounts for the limits of the config")
	set.StringVar(&f.html, "html", "", "Also write a page with plots to a file")
	return cmd
}

// run replays logs and reports.
func (f *flags) run(cmd *cobra.Command, load func() (*Config, error), logs []string) (err error) {
	ctx, stop := signal.NotifyContext(cmp.Or(cmd.Context(), context.Background()), os.Interrupt, syscall.SIGTERM)
	defer stop()
	options, err := f.options(time.Now())
	if err != nil {
		return err
	}
	parser, err := accesslog.NewParser(f.format)
	if err != nil {
		return err
	}
	config, err := load()
	if err != nil {
		return err
	}
	defer config.Close()
	if err := f.checkZone(config); err != nil {
		return err
	}
	log, err := accesslog.NewMerger(parser, logs, cmd.InOrStdin())
	if err != nil {
		return err
	}
	page, err := openPage(f.html, logs)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, page.close()) }()
	report, err := replayUntil(ctx, log, config, options)
	if err != nil {
		return err
	}
	if err := f.write(cmd.OutOrStdout(), page, report); err != nil {
		return err
	}
	return report.Check()
}

// checkZone returns an error if the config doesn't have the zone of --zone.
func (f *flags) checkZone(config *Config) error {
	var known []string
	for _, z := range config.run.AllZones {
		if !slices.Contains(known, z.Name) {
			known = append(known, z.Name)
		}
	}
	switch {
	case f.zone == "" || slices.Contains(known, f.zone):
		return nil
	case len(known) == 0:
		return fmt.Errorf("--zone: got the zone %q, but the config has no zones", f.zone)
	}
	return fmt.Errorf("--zone: the config has no zone %q: expected %s", f.zone, strings.Join(known, ", "))
}

// replayUntil replays a log unless the context ends first. It doesn't wait for the replay then,
// because a log that is a pipe may block for ever: the process ends.
func replayUntil(ctx context.Context, log *accesslog.Merger, config *Config, o replay.Options) (*replay.Report, error) {
	type outcome struct {
		report *replay.Report
		err    error
	}
	done := make(chan outcome, 1)
	go func() {
		defer log.Close()
		report, err := config.Replay(ctx, log, o)
		done <- outcome{report, err}
	}()
	select {
	case replayed := <-done:
		if ctx.Err() == nil {
			return replayed.report, replayed.err
		}
	case <-ctx.Done():
	}
	return nil, errors.New("the replay was interrupted")
}

func (f *flags) write(w io.Writer, page *pageFile, report *replay.Report) error {
	write := func(w io.Writer) error { return report.WriteText(w, console.LookOf(w)) }
	if f.json {
		write = report.WriteJSON
	}
	return errors.Join(write(w), page.write(report))
}

// options returns the options that the flags set.
func (f *flags) options(now time.Time) (o replay.Options, err error) {
	o = replay.Options{Sites: f.sites, Host: append(f.sites, "")[0], Zone: f.zone, Reveal: f.reveal, Top: f.top,
		Suggest: f.suggest}
	if f.top < 1 {
		return o, fmt.Errorf("--top: got %d: expected 1 or more", f.top)
	}
	for _, site := range f.sites {
		if site == "" || strings.ContainsAny(site, "/* ") {
			return o, fmt.Errorf("--site: got %q: expected a host such as example.com", site)
		}
	}
	if o.From, err = timeFlag("--from", f.from, now); err != nil {
		return o, err
	}
	if o.To, err = timeFlag("--to", f.to, now); err != nil {
		return o, err
	}
	if o.To != 0 && o.From >= o.To {
		return o, fmt.Errorf("--from and --to: got %q and %q: expected the earlier time first", f.from, f.to)
	}
	return o, nil
}

// timeFlag parses a time, and returns nanoseconds since the Unix epoch, or 0 for "".
func timeFlag(flag, word string, now time.Time) (int64, error) {
	t, err := console.Past(now, flag, word)
	if t.IsZero() {
		return 0, err
	}
	return t.UnixNano(), err
}

// pageFile is the file of a replay's page. It is opened before a log is read, so that an unwritable
// page fails before a long replay. A page is written beside the file that it replaces, so that no
// symbolic link is followed, whoever puts it there.
type pageFile struct {
	file *os.File // nil if no page is written, or after writing
	path string   // what the file is renamed to; "" if it is a pipe or a device
}

// openPage opens the file for a page at a path, or none for "".
func openPage(path string, logs []string) (p *pageFile, err error) {
	if path == "" {
		return new(pageFile), nil
	}
	before, err := os.Stat(path)
	itself, _ := os.Lstat(path)
	switch {
	case err == nil && slices.ContainsFunc(logs, func(log string) bool { return isFile(log, before) }):
		return nil, fmt.Errorf("--html: %s is one of the logs: expected another file", path)
	case err == nil && before.IsDir():
		return nil, fmt.Errorf("--html: %s is a directory: expected a file", path)
	case err == nil && !before.Mode().IsRegular():
		p = new(pageFile)
		p.file, err = os.OpenFile(path, os.O_WRONLY, 0)
	case itself != nil && itself.Mode()&os.ModeSymlink != 0:
		return nil, fmt.Errorf("--html: %s is a symbolic link: expected a file", path)
	default:
		p = &pageFile{path: path}
		p.file, err = os.CreateTemp(filepath.Dir(path), ".page-*") // with mode 0600: it shows when clients came
		if failed, ok := errors.AsType[*os.PathError](err); ok {
			failed.Path = path
		}
	}
	if err != nil {
		return nil, fmt.Errorf("--html: %w", err)
	}
	return p, nil
}

// isFile reports whether a path is that of a file.
func isFile(path string, file os.FileInfo) bool {
	info, err := os.Stat(path)
	return err == nil && os.SameFile(info, file)
}

// write writes the page, and closes its file.
func (p *pageFile) write(report *replay.Report) (err error) {
	if p.file == nil {
		return nil
	}
	if err = report.WriteHTML(p.file); err == nil {
		err = p.file.Close()
	}
	if err == nil && p.path != "" {
		err = os.Rename(p.file.Name(), p.path)
	}
	if err != nil {
		return fmt.Errorf("--html: %w", err)
	}
	p.file = nil
	return nil
}

// close closes the file if no page was written, and removes it unless it is a pipe or a device.
func (p *pageFile) close() error {
	if p.file == nil {
		return nil
	}
	p.file.Close() // a second time if the file can't be renamed
	if p.path == "" {
		return nil
	}
	return os.Remove(p.file.Name())
}
