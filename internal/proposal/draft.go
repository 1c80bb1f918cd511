package proposal

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"

	"github.com/caddy-tally/caddy-tally/internal/accesslog"
	"github.com/caddy-tally/caddy-tally/internal/advice"
	"github.com/caddy-tally/caddy-tally/internal/names"
	"github.com/caddy-tally/caddy-tally/internal/replay"
	"github.com/caddy-tally/caddy-tally/internal/replayer"
	"github.com/caddy-tally/caddy-tally/internal/wording"
)

// draft is a Caddyfile with proposed zones.
type draft struct {
	file  string // its path
	old   []byte
	text  []byte // without the zones, perhaps with the option that they need
	sites []*site
	host  string // of log lines that name none; may be ""

	people *people // of the log; nil without one
	notes  []string

	before []advice.Advice // about the config without the zones
}

// propose returns the draft for a Caddyfile and logs. Lines that name no host are of the given one, or else of the
// only site that serves something.
func propose(ctx context.Context, file string, text []byte, host string,
	open func() (*accesslog.Merger, error)) (*draft, error) {
	d := &draft{file: file, old: text, text: text, host: host}
	var err error
	if d.sites, err = sitesOf(file, text); err != nil {
		return nil, err
	}
	if d.before, err = d.load(); err != nil {
		return nil, err
	}
	if host != "" && siteOf(d.sites, host) == nil {
		return nil, fmt.Errorf("--site: no site of the config has the host %q", host)
	}
	log, err := open()
	if err != nil {
		return nil, err
	}
	if log != nil {
		if d.people, err = readPeople(ctx, log); err != nil {
			return nil, err
		}
		if err := d.readSites(ctx, open); err != nil {
			return nil, err
		}
	}
	for _, s := range d.sites {
		whole := cmp.Or(s.whole, s)
		switch {
		case whole.shared:
			s.notes = append(s.notes,
				"is made by an import of lines that make other sites, too, so no limit can be for it alone")
		case s.limited || whole.limited:
			s.notes = append(s.notes,
				"has "+names.Handler+" already: caddy rate-limit replay --suggest fits it to a log")
		case !s.serves && s.only == "":
			s.notes = append(s.notes, "serves neither an application nor files")
		case s.serves:
			if s.open = true; log != nil && s.traffic.requests == 0 {
				s.notes = append(s.notes, "has no request in the log, so what its visitors want is unknown")
			}
		}
	}
	if log != nil {
		if err := d.findCrowds(ctx, open); err != nil {
			return nil, err
		}
	}
	for _, s := range d.sites {
		if s.open {
			s.propose(d.people)
		}
	}
	d.settle(d.sites)
	if log != nil {
		if err := d.fit(ctx, open); err != nil {
			return nil, err
		}
		d.settle(d.sites)
	}
	return d, nil
}

// use replaces the Caddyfile by one that has the same sites, perhaps in other lines.
func (d *draft) use(text []byte) error {
	sites, err := sitesOf(d.file, text)
	if err != nil {
		return err
	}
	d.text = text
	for i, s := range sites {
		d.sites[i].block, d.sites[i].line = s.block, s.line
	}
	return nil
}

// readSites reads what a log says of each site.
func (d *draft) readSites(ctx context.Context, open func() (*accesslog.Merger, error)) error {
	serving := slices.DeleteFunc(slices.Clone(d.sites), func(s *site) bool { return !s.serves })
	if d.host == "" && len(serving) == 1 {
		d.host = serving[0].hosts[0]
	}
	log, err := open()
	if err != nil {
		return err
	}
	others, nameless, err := d.readTraffic(ctx, log)
	if nameless > 0 && len(d.sites) > 0 {
		d.notes = append(d.notes,
			fmt.Sprintf("%d requests of the log name no host: name it with --site, such as --site %s", nameless,
				append(serving, d.sites...)[0].hosts[0]))
	}
	if others > 0 {
		d.notes = append(d.notes, fmt.Sprintf("%d requests of the log are of no site of this config", others))
	}
	return err
}

// load loads the Caddyfile with the zones of some sites, and returns the warnings about it.
func (d *draft) load(sites ...*site) ([]advice.Advice, error) {
	config, err := d.provision(sites)
	if err != nil {
		return nil, err
	}
	defer config.Close()
	return config.Advice(), nil
}

// provision returns the config with the zones of some sites, also of those in imported files.
func (d *draft) provision(sites []*site) (*replayer.Config, error) {
	adapted, err := d.adapted(sites)
	if err != nil {
		return nil, err
	}
	return replayer.LoadJSON(adapted)
}

// adapted is provision, but returns JSON.
func (d *draft) adapted(sites []*site) ([]byte, error) {
	blocks, err := caddyfile.Parse(d.file, d.text)
	if err != nil {
		return nil, err
	}
	for i := range blocks {
		zones := zonesIn(sites, i)
		if len(zones) == 0 {
			continue
		}
		own, err := caddyfile.Parse(d.file, []byte("site {\n"+directive(zones, "\t")+"}\n"))
		if err != nil {
			return nil, err
		}
		blocks[i].Segments = append(own[0].Segments, blocks[i].Segments...)
	}
	config, _, err := httpcaddyfile.ServerType{}.Setup(blocks, map[string]any{"filename": d.file})
	if err != nil {
		return nil, err
	}
	return json.Marshal(config)
}

// adapt returns the JSON of a Caddyfile.
func adapt(file string, text []byte) ([]byte, error) {
	adapted, _, err := caddyconfig.GetAdapter("caddyfile").Adapt(text, map[string]any{"filename": file})
	return adapted, err
}

// settle removes the zones of some sites that the config's checks warn of, until none is warned of. What
// isn't about a zone is looked for in each site alone.
func (d *draft) settle(sites []*site) {
	for {
		found, err := d.load(sites...)
		zones, whole := 0, err != nil
		for _, a := range found {
			switch {
			case slices.ContainsFunc(d.before, func(b advice.Advice) bool { return isSame(a, b) }):
			case len(a.Server) > 0: // limits only make it visible
				d.before = append(d.before, a)
				d.notes = append(d.notes,
					strings.TrimSuffix(fmt.Sprintf("Server %s: %s: write %s", strings.Join(a.Server, " "), a.Problem,
						a.Fix), ": write "))
			case remove(sites, a):
				zones++
			default:
				whole, err = true, errors.New(a.Problem)
			}
		}
		switch {
		case whole && len(sites) > 1:
			for _, s := range sites {
				d.settle([]*site{s})
			}
			return
		case whole:
			sites[0].drop(d, err)
			return
		case zones == 0:
			return
		}
	}
}

// drop removes those zones of the site that don't load alone, or all if each of them does.
func (s *site) drop(d *draft, err error) {
	var kept []zone
	for _, z := range s.zones {
		alone := *s
		alone.zones = []zone{z}
		if _, err := d.load(&alone); err == nil {
			kept = append(kept, z)
		} else {
			s.notes = append(s.notes, fmt.Sprintf("gets no zone %s: %v", z.name, err))
		}
	}
	if len(kept) == len(s.zones) {
		kept, s.notes = nil, append(s.notes, "can't have limits: "+err.Error())
	}
	s.zones = kept
}

// isSame reports whether two warnings say the same, perhaps of lines that were moved by an insertion.
func isSame(a, b advice.Advice) bool {
	return a.Zone == b.Zone && lineNumber.ReplaceAllString(a.Problem, "") == lineNumber.ReplaceAllString(b.Problem, "")
}

var lineNumber = regexp.MustCompile(`:\d+`)

// remove removes the zone that an advice is about, and reports whether one of the sites had it.
func remove(sites []*site, a advice.Advice) bool {
	for _, s := range sites {
		if i := slices.IndexFunc(s.zones, func(z zone) bool { return z.name == a.Zone }); i >= 0 {
			s.zones = slices.Delete(s.zones, i, i+1)
			s.notes = append(s.notes, fmt.Sprintf("gets no zone %s: %s", a.Zone, a.Problem))
			return true
		}
	}
	return false
}

// fit replays the log with the proposed zones, and corrects their amounts.
func (d *draft) fit(ctx context.Context, open func() (*accesslog.Merger, error)) error {
	wants := make(map[limit]peaks)
	err := d.replay(ctx, open, watch(wants, d.people))
	for _, s := range d.sites {
		if err == nil && s.traffic.requests > 0 {
			for i := range s.zones {
				s.zones[i].fit(wants, d.people)
			}
			s.zones = slices.DeleteFunc(s.zones,
				func(z zone) bool { return !slices.ContainsFunc(z.lines, limitLine.MatchString) })
		}
	}
	return err
}

// replay replays the log with the proposed zones.
func (d *draft) replay(ctx context.Context, open func() (*accesslog.Merger, error),
	peak func(*replay.Limit, *accesslog.Record, int64)) error {
	config, err := d.provision(d.sites)
	if err != nil {
		return err
	}
	defer config.Close()
	log, err := open()
	if err != nil {
		return err
	}
	defer log.Close()
	report, err := config.Replay(ctx, log, replay.Options{Host: d.host, Skip: isCrawled, Peak: peak})
	if err != nil {
		return err
	}
	return report.Check()
}

// write prints sites with their zones as a Caddyfile.
func (d *draft) write(w io.Writer, sites []*site) {
	if zonesOf(sites) > 0 && !bytes.Equal(d.old, d.text) {
		fmt.Fprintf(w, "\n# For the puzzles, in the global options:\n{\n\t%s}\n", sessionOption)
	}
	for _, s := range sites {
		if zones := zonesIn(sites, s.block); s.whole == nil && len(zones) > 0 {
			if s.file != "" {
				fmt.Fprintf(w, "\n# In %s:", wording.Printable(s.file, ""))
			}
			fmt.Fprintf(w, "\n%s {\n%s}\n", s.address, directive(zones, "\t"))
		}
	}
}

// writeNotes prints what is missing, and why.
func (d *draft) writeNotes(w io.Writer) {
	note := func(text string) {
		fmt.Fprintf(w, "# %s\n", wording.Printable(strings.ReplaceAll(text, "\n", " "), ""))
	}
	for _, n := range d.notes {
		note(n)
	}
	for _, s := range d.sites {
		for _, n := range s.notes {
			if s.whole != nil {
				note(strings.Join(s.hosts, ", ") + " " + n)
			} else {
				note(s.address + " " + n)
			}
		}
	}
}

// install writes the zones into the Caddyfile, and prints those of sites that can't be written.
func (d *draft) install(w io.Writer) error {
	text, blocks := d.insert()
	rest := slices.DeleteFunc(slices.Clone(d.sites), func(s *site) bool { return blocks[s.block] })
	own := zonesOf(d.sites) - zonesOf(rest)
	if own > 0 {
		if err := install(w, d.file, d.old, text, own, written); err != nil {
			return err
		}
		d.old = d.text
	}
	if zonesOf(rest) > 0 {
		fmt.Fprintln(w, "\n# Imported files are neither written nor enforced, nor are values of the environment. Put these zones at the beginning of their sites:")
		d.write(w, rest)
	}
	switch {
	case own > 0:
		return nil
	case zonesOf(rest) > 0:
		return errors.New("nothing was written: the sites are in imported files, into which the printed zones can be put, or in values of the environment")
	}
	return errors.New("nothing was written: no zone is proposed")
}

// zonesOf returns the number of the zones of sites.
func zonesOf(sites []*site) (n int) {
	for _, s := range sites {
		n += len(s.zones)
	}
	return n
}

// install replaces a Caddyfile if the new text loads, and says what comes next.
func install(w io.Writer, file string, old, text []byte, zones int, next string) error {
	adapted, err := adapt(file, text)
	if err == nil {
		var config *replayer.Config
		if config, err = replayer.LoadJSON(adapted); err == nil {
			config.Close()
		}
	}
	if err != nil {
		return fmt.Errorf("%w; nothing was changed", err)
	}
	backup, err := replaceFile(file, old, text)
	if err == nil {
		fmt.Fprintf(w, next+"\n", wording.Counted(int64(zones), "zone"), file, backup, reload(file), named(file))
	}
	return err
}

// reload returns the command that loads a Caddyfile.
func reload(file string) string {
	if mayBeImported(file) {
		return "caddy reload, with the Caddyfile that imports " + file + ", or with --config " + named(file) +
			" if none does"
	}
	return "caddy reload --config " + file
}

// named returns a Caddyfile as other commands want it named.
func named(file string) string {
	if mayBeImported(file) {
		file += " --adapter caddyfile"
	}
	return file
}

// mayBeImported reports whether a Caddyfile has a name by which Caddy doesn't know it.
func mayBeImported(file string) bool {
	name := strings.ToLower(filepath.Base(file))
	return !strings.HasPrefix(name, "caddyfile") && !strings.HasSuffix(name, ".caddyfile")
}
