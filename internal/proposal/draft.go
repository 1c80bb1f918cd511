package proposal

import (
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2/caddyconfig"

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
	text  []byte // without the zones
	sites []*site
	notes []string

	before []advice.Advice // about the config without the zones
}

// propose returns the draft for a Caddyfile and logs.
func propose(ctx context.Context, file string, text []byte, open func() (*accesslog.Merger, error)) (*draft, error) {
	d := &draft{file: file, text: text}
	var err error
	if d.sites, err = sitesOf(file, text); err != nil {
		return nil, err
	}
	if d.before, err = d.load(); err != nil {
		return nil, err
	}
	log, err := open()
	if err != nil {
		return nil, err
	}
	if log != nil {
		others, err := readTraffic(ctx, log, d.sites)
		if err != nil {
			return nil, err
		}
		if others > 0 {
			d.notes = append(d.notes, fmt.Sprintf("%d requests of the log are of no site of this config", others))
		}
	}
	for _, s := range d.sites {
		switch {
		case s.file != "":
			s.notes = append(s.notes, "is in an imported file: caddy rate-limit init --config "+s.file)
		case s.limited:
			s.notes = append(s.notes, "has "+names.Handler+" already: caddy rate-limit replay --suggest fits it to a log")
		case !s.serves:
			s.notes = append(s.notes, "serves neither an application nor files")
		default:
			if s.propose(); log != nil && s.traffic.requests == 0 {
				s.notes = append(s.notes, "has no request in the log, so what its visitors want is unknown")
			}
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

// load loads the Caddyfile with the zones of some sites, and returns the warnings about it.
func (d *draft) load(sites ...*site) ([]advice.Advice, error) {
	config, err := loadCaddyfile(d.file, d.insert(sites))
	if err != nil {
		return nil, err
	}
	defer config.Close()
	return config.Advice(), nil
}

func loadCaddyfile(file string, text []byte) (*replayer.Config, error) {
	adapted, _, err := caddyconfig.GetAdapter("caddyfile").Adapt(text, map[string]any{"filename": file})
	if err != nil {
		return nil, err
	}
	return replayer.LoadJSON(adapted)
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
				d.notes = append(d.notes, fmt.Sprintf("Server %s: %s: write %s", strings.Join(a.Server, " "), a.Problem, a.Fix))
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
			sites[0].zones, sites[0].notes = nil, append(sites[0].notes, "can't have limits: "+err.Error())
			return
		case zones == 0:
			return
		}
	}
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
	config, err := loadCaddyfile(d.file, d.insert(d.sites))
	if err != nil {
		return err
	}
	defer config.Close()
	log, err := open()
	if err != nil {
		return err
	}
	defer log.Close()
	report, err := config.Replay(ctx, log, replay.Options{Suggest: true})
	if err != nil {
		return err
	}
	for _, s := range d.sites {
		proposed := s.zones
		if s.traffic.requests == 0 {
			continue
		}
		s.zones = nil
		for _, z := range proposed {
			if z.fit(report.Limits) {
				s.zones = append(s.zones, z)
			}
		}
	}
	return report.Check()
}

// write prints the sites with their zones as a Caddyfile, with the notes as comments.
func (d *draft) write(w io.Writer) {
	for _, s := range d.sites {
		if len(s.zones) > 0 {
			fmt.Fprintf(w, "\n%s {\n%s}\n", s.address, s.directive("\t"))
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
			note(s.address + " " + n)
		}
	}
}

// install replaces a Caddyfile if the new text loads, and says what comes next.
func install(w io.Writer, file string, old, text []byte, zones int, next string) error {
	config, err := loadCaddyfile(file, text)
	if err != nil {
		return fmt.Errorf("%w; nothing was changed", err)
	}
	config.Close()
	backup, err := replaceFile(file, old, text)
	if err == nil {
		fmt.Fprintf(w, next+"\n", wording.Counted(int64(zones), "zone"), file, backup)
	}
	return err
}
