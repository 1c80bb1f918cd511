package tally

import "github.com/caddyserver/caddy/v2"

// configChecks are the checks of the whole config. Each is a function of the survey alone.
var configChecks = []func(*survey) []Advice{
	checkOrder, checkOutcomes, checkPeers, checkLooseProxies, checkPlainHTTP, checkIdleBan, checkNames, checkMentions,
	checkReach, checkEverything, checkLimits, checkChallenges, checkUntrusted, checkCase,
}

// checkConfig surveys and checks the whole config, once: when its first handler is provisioned,
// before anything of ours is loaded, since texts are given up then.
func (h *Handler) checkConfig(ctx caddy.Context) error {
	if h.app.survey != nil {
		return nil
	}
	h.app.survey = newSurvey(ctx, h.app)
	var found []Advice
	for _, check := range configChecks {
		found = append(found, check(h.app.survey)...)
	}
	return give(h.app.log, found)
}
