// Package lint finds what a config does other than it seems to: it gives advice, and changes nothing. The
// checks of a whole config ask five questions, each in a file of its own and in a part of docs/advice.md.
package lint

import (
	"slices"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddytls"

	"github.com/caddy-tally/caddy-tally/internal/advice"
	"github.com/caddy-tally/caddy-tally/internal/config"
	"github.com/caddy-tally/caddy-tally/internal/enforce"
)

// configChecks are the checks of the whole config, each a function of the survey alone: the five
// questions, and the files that are served.
var configChecks = []struct {
	check func(*config.Survey) []advice.Advice
	kind  advice.Kind
}{
	{checkReach, advice.Reach},
	{checkChoice, advice.Choice},
	{checkSet, advice.Set},
	{checkEffect, advice.Effect},
	{checkAddress, advice.Address},
	{checkMatchers, advice.Other},
	{checkServed, advice.Other},
}

// zoneChecks are the checks of a compiled zone.
var zoneChecks = []func(compiled) []advice.Advice{compiled.checkStaticKey, compiled.checkShadow, compiled.checkCosts,
	compiled.checkShortWindows}

// compiled is a zone with what it was compiled to.
type compiled struct {
	*config.Zone
	app *config.App
	run *enforce.Zone
}

// Config checks the whole config, once: before its first handler is compiled, since loading modules discards
// their raw JSON. It returns an error if the config can't work.
func Config(ctx caddy.Context, c *config.Compiler) error {
	survey, isNew := c.Survey(ctx)
	if !isNew {
		return nil
	}
	var found []advice.Advice
	for _, question := range configChecks {
		for _, a := range question.check(survey) {
			a.Kind = question.kind
			found = append(found, a)
		}
	}
	return c.Run.Advice.Give(ctx.Logger(), found...)
}

// Handler checks a handler that has been compiled. Survey is nil if no requests of sites come to it.
func Handler(ctx caddy.Context, c *config.Compiler, survey *config.Survey, h *config.Handler,
	run *enforce.Handler) error {
	var found []advice.Advice
	zones, _ := h.Ordered() // compiling reports any error
	for i, z := range zones {
		for _, check := range zoneChecks {
			found = append(found, check(compiled{z, c.App, run.Zones[i]})...)
		}
	}
	if obeys := survey != nil && obeyed(survey) != "" && len(survey.Zones) > 0; len(zones)+len(h.Traps) == 0 &&
		c.Session == nil && !obeys {
		found = append(found, h.Advice("this handler has no zone, and limits nothing",
			"zone login {, limit 5/1m and }, each on a line of its own"))
	}
	return c.Run.Advice.Give(ctx.Logger(), found...)
}

// Permission checks a permission for certificates that has been compiled, and whether it has another one to ask.
func Permission(ctx caddy.Context, c *config.Compiler, p *config.Permission, asks bool, run *enforce.Handler) error {
	var found []advice.Advice
	for _, z := range p.Zones {
		if z.Per == enforce.PerEveryone && !asks {
			found = append(found, z.Advice("per everyone: a stranger who invents names uses up the certificates of all others", "permission http http://127.0.0.1:9123/ask beside it; or per domain"))
		}
	}
	for _, m := range ctx.Modules() {
		app, ok := m.(*caddytls.TLS)
		if onDemand := func(policy *caddytls.AutomationPolicy) bool { return policy.OnDemand }; ok && app.Automation != nil && !slices.ContainsFunc(app.Automation.Policies, onDemand) {
			found = append(found, p.Advice("permission: no site obtains certificates on demand, so that nothing asks", "tls {, on_demand and }, each on a line of its own, in a site"))
		}
	}
	if err := c.Run.Advice.Give(ctx.Logger(), found...); err != nil {
		return err
	}
	return Handler(ctx, c, nil, &p.Handler, run)
}

// Dashboard checks a dashboard before it is compiled.
func Dashboard(ctx caddy.Context, whole *config.Survey, dash *config.Dashboard) error {
	places := dash.Places(whole)
	var found []advice.Advice
	for _, p := range places {
		found = append(found, checkOwnPages(p)...)
	}
	return config.AdviceOf(ctx).Give(ctx.Logger(),
		slices.Concat(found, checkShut(dash, places), checkOpen(dash, places))...)
}
