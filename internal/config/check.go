package config

import (
	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-tally/caddy-tally/internal/advice"
	"github.com/caddy-tally/caddy-tally/internal/answer"
)

// The checks of a config return advice. The five questions that they ask are files of their own, and
// parts of docs/advice.md.

// Advice describes a problem in a config and its fix.
type Advice = advice.Advice

// configChecks are the checks of the whole config, each a function of the survey alone: the five
// questions, with the part of docs/advice.md about each, and the files that are served.
var configChecks = []struct {
	check func(*survey) []Advice
	see   string
}{
	{checkReach, "can-a-request-reach-it"},
	{checkChoice, "can-the-client-choose-it"},
	{checkSet, "will-it-ever-be-set-or-match"},
	{checkEffect, "can-it-do-what-it-says"},
	{checkAddress, "who-is-the-client"},
	{checkMatchers, ""},
	{checkServed, ""},
}

// zoneChecks are the checks of a compiled zone.
var zoneChecks = []func(*zoneCompiler) []Advice{
	(*zoneCompiler).checkStaticKey, (*zoneCompiler).checkShadow, (*zoneCompiler).checkCosts, (*zoneCompiler).checkShortWindows,
}

// checkConfig surveys and checks the whole config, once: when its first handler is compiled, before
// any of our modules is loaded, since loading discards the raw JSON.
func (h *handlerCompiler) checkConfig(ctx caddy.Context) error {
	if h.app.survey != nil {
		return nil
	}
	h.app.survey, h.app.Run.Used = newSurvey(ctx, h.app.App, h.app.Run), true
	var found []Advice
	for _, question := range configChecks {
		for _, a := range question.check(h.app.survey) {
			if question.see != "" {
				a.See = "docs/advice.md#" + question.see
			}
			found = append(found, a)
		}
	}
	for _, p := range h.app.survey.places {
		answer.KeepFields(p.view.Server.Routes, p.view.Server.Errors)
	}
	return h.app.Run.Advice.Give(h.app.log, found...)
}

func (z *Zone) advice(problem, fix string) Advice {
	return Advice{Problem: problem, Fix: fix, Zone: z.Name, Source: z.Source}
}

func (h *Handler) advice(problem, fix string) Advice {
	return Advice{Problem: problem, Fix: fix, Source: h.Source}
}

// note keeps advice that is found while the zone is compiled.
func (z *zoneCompiler) note(problem, fix string) { z.found = append(z.found, z.advice(problem, fix)) }
