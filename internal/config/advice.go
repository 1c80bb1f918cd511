package config

import (
	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-tally/caddy-tally/internal/advice"
	"github.com/caddy-tally/caddy-tally/internal/enforce"
	"github.com/caddy-tally/caddy-tally/internal/names"
)

// AdviceOf returns the advice about the config of a context; without the app, an empty list of its own.
func AdviceOf(ctx caddy.Context) *advice.List {
	if app, err := ctx.AppIfConfigured(names.App); err == nil {
		return &app.(interface{ Enforcer() *enforce.Config }).Enforcer().Advice
	}
	return new(advice.List)
}

// Advice returns advice about the zone.
func (z *Zone) Advice(problem, fix string) advice.Advice {
	return advice.Advice{Problem: problem, Fix: fix, Zone: z.Name, Source: z.Source}
}

// Advice returns advice about the handler.
func (h *Handler) Advice(problem, fix string) advice.Advice {
	return advice.Advice{Problem: problem, Fix: fix, Source: h.Source}
}

// note keeps advice that is found while the zone is compiled.
func (z *zoneCompiler) note(problem, fix string) { z.found = append(z.found, z.Advice(problem, fix)) }
