package tally

import (
	"fmt"
	"slices"

	"go.uber.org/zap"

	"github.com/caddy-tally/caddy-tally/internal/caddyconf"
)

// Advice is what is wrong with a config, and what to write instead. Checks return it.
type Advice struct {
	Problem string   // what is wrong, and what comes of it
	Fix     string   // what to write instead
	Zone    string   // the name of the zone that it is about, or ""
	Handler string   // the name of the handler that it is about, if that isn't ours, or ""
	Server  []string // the addresses of the server that it is about, or none
	Source  string   // where it stands in a config file, or ""
	Refused bool     // nothing can work like this: a config with it is an error
}

// err returns the advice as the error about a config.
func (a Advice) err() error {
	err := fmt.Errorf("%s; write %s", a.Problem, a.Fix)
	if a.Zone != "" {
		err = fmt.Errorf("zone %q: %w", a.Zone, err)
	}
	return caddyconf.AtSource(err, a.Source)
}

// log writes a warning.
func (a Advice) log(log *zap.Logger) {
	var fields []zap.Field
	for _, f := range [][2]string{{"write", a.Fix}, {"zone", a.Zone}, {"handler", a.Handler}, {"at", a.Source}} {
		if f[1] != "" {
			fields = append(fields, zap.String(f[0], f[1]))
		}
	}
	if len(a.Server) > 0 {
		fields = append(fields, zap.Strings("server", a.Server))
	}
	log.Warn(a.Problem, fields...)
}

// give writes each advice to the log, or returns an error about the first one that is
// more than a warning.
func give(log *zap.Logger, all []Advice) error {
	if i := slices.IndexFunc(all, func(a Advice) bool { return a.Refused }); i >= 0 {
		return all[i].err()
	}
	for _, a := range all {
		a.log(log)
	}
	return nil
}

func (z *Zone) advice(problem, fix string) Advice {
	return Advice{Problem: problem, Fix: fix, Zone: z.Name, Source: z.Source}
}

func (h *Handler) advice(problem, fix string) Advice {
	return Advice{Problem: problem, Fix: fix, Source: h.Source}
}

// warn warns of something in the zone.
func (z *Zone) warn(log *zap.Logger, problem, write string) { z.advice(problem, write).log(log) }

// warn warns of something in the handler that belongs to no zone.
func (h *Handler) warn(problem, write string) { h.advice(problem, write).log(h.log) }

// warn warns of something in the global option.
func (a *App) warn(problem, write string) {
	Advice{Problem: problem, Fix: write, Source: a.Source}.log(a.log)
}
