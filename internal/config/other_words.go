package config

import (
	"cmp"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/caddy-tally/caddy-tally/internal/caddyconf"
	"github.com/caddy-tally/caddy-tally/internal/networks"
	"github.com/caddy-tally/caddy-tally/internal/wording"
)

// leaveOut is the hint for options of other programs that have no counterpart.
const leaveOut = "leave it out: there is nothing like it here"

// otherWords maps the first words of other programs' lines to our lines. A name in <> is the value
// behind that name in the other line; <n> is its last number, <time> its last duration (without a unit
// in seconds), <rest> all behind the word, <rate> and <key> the same as a rate or behind `per`. A name
// without a value stays, to say which one is missing.
var otherWords = []struct{ words, line string }{
	{"rate limits quota", "limit <rate>"},
	{"rps qps second", "limit <n>/1s"},
	{"rpm minute", "limit <n>/1m"},
	{"rph hour hourly", "limit <n>/1h"},
	{"day daily", "limit <n>/1d"},
	{"month monthly", "limit <n>/30d"},
	{"year yearly", "limit <n>/365d"},
	{"requests max_events max_requests", "events <n>"},
	{"interval", "window <time>"},
	{"zones", "zone <rest>"},
	{"matcher matches match_path location", "match <rest>"},
	{"by limit_by characteristics sourcecriterion", "per <key>"},
	{"except ignore skip allow whitelist allowlist bypass ignoreip", "exempt <rest>"},
	{"database db", "store sqlite <rest>"},
	{"tokens", "api_keys <rest>"},
	{"sessions", "session <rest>"},
	{"bans block deny blacklist blocklist banip", "ban <rest>"},
	{"dry_run dryrun report_only log_only limit_req_dry_run limit_conn_dry_run", "shadow"},
	{"honeypot traps", "trap <rest>"},
	{"concurrent connections max_connections maxconn conn_cur inflightreq max_in_flight limit_conn limit_conn_zone", "limit <n> concurrent"},
	{"wait", "limit <requests> concurrent wait <time>"},
	{"queue", "limit <requests> concurrent wait <duration> queue <n>"},
	// nginx
	{"limit_req limit_req_zone", "limit <rate> burst <burst+1>"},
	{"limit_req_status limit_conn_status limit_req_log_level limit_conn_log_level limit_rate limit_rate_after", leaveOut},
	// fail2ban
	{"maxretry", "limit <n>/<findtime>"},
	{"findtime", "limit <maxretry>/<time>"},
	{"bantime", "ban after 1 violation in <findtime> for <time>"},
	{"failregex filter", "match <path>"},
	{"logpath enabled backend bantime.increment bantime.factor", leaveOut},
	// Traefik, Cloudflare, Kong, Azure, AWS
	{"average", "limit <n>/<period> burst <burst>"},
	{"period window_size renewal-period evaluationwindowsec interval_sec", "limit <amount>/<time>"},
	{"requests_per_period threshold calls", "limit <n>/<period>"},
	{"mitigation_timeout ban_duration_sec dosblockingperiod blackhole", "ban after 1 violation in <period> for <time>"},
	{"counting_expression", "count status <status>"},
	{"fault_tolerant hide_client_headers requests_to_origin", leaveOut},
	// Envoy
	{"requests_per_unit", "limit <n>/<unit>"},
	{"unit", "limit <requests_per_unit>/<time>"},
	{"tokens_per_fill", "limit <n>/<fill_interval> burst <max_tokens>"},
	{"fill_interval", "limit <tokens_per_fill>/<time> burst <max_tokens>"},
	{"max_tokens", "limit <tokens_per_fill>/<fill_interval> burst <n>"},
	// HAProxy
	{"stick-table http-request tcp-request", "limit <requests>/<http_req_rate>"},
	{"http_req_rate", "limit <requests>/<time>"},
	{"track-sc0 track-sc1 track-sc2", "per ip"},
	// Spring, express-rate-limit, mod_evasive, CrowdSec
	{"replenishrate", "limit <n>/1s burst <burstCapacity>"},
	{"burstcapacity", "limit <replenishRate>/1s burst <n>"},
	{"windowms", "limit <max>/<time>"},
	{"max", "limit <n>/<windowMs>"},
	{"dospagecount dossitecount", "limit <n>/<interval>"},
	{"dospageinterval dossiteinterval", "limit <count>/<time>"},
	{"leakspeed", "limit 1/<time> burst <capacity>"},
	{"capacity", "limit 1/<leakspeed> burst <n>"},
}

var valueName = regexp.MustCompile(`<[^>]+>`)

// translate returns our line for a line of another program, or "".
func translate(line string) string {
	words := strings.FieldsFunc(line, func(r rune) bool { return strings.ContainsRune(" \t=:;,()[]\"'", r) })
	if len(words) == 0 {
		return ""
	}
	word := strings.TrimPrefix(strings.ToLower(words[0]), "config.")
	if word == "zone" && strings.HasPrefix(line, "zone=") {
		word = "limit_req_zone"
	}
	for _, other := range otherWords {
		if slices.Contains(strings.Fields(other.words), word) {
			values := valuesOf(word, words, strings.TrimLeft(strings.TrimPrefix(line, words[0]), " =:"))
			return strings.TrimSpace(valueName.ReplaceAllStringFunc(other.line, func(name string) string {
				if value, ok := values[strings.Trim(name, "<>")]; ok {
					return value
				}
				return name
			}))
		}
	}
	return ""
}

// valuesOf returns the values of a line in other words, by their names in [otherWords].
func valuesOf(word string, words []string, rest string) map[string]string {
	values := map[string]string{"rest": rest}
	for i, w := range words[1:] {
		name := strings.ToLower(words[i])
		if n, err := caddyconf.ParseCount(w); err == nil && n >= 0 {
			values["n"] = w
			values[name+"+1"] = strconv.FormatInt(n+1, 10)
			unit := "s"
			if strings.HasSuffix(word, "ms") {
				unit = "ms"
			}
			w += unit
		}
		if window, ok := parseWindow(strings.ToLower(w)); ok && window > 0 {
			values["time"] = wording.Duration(window)
			values[name] = values["time"]
		}
		if name == "rate" {
			values["rate"] = cmp.Or(guessRate([]string{w}), "<rate>")
		}
	}
	if rest == "-1" { // for ever
		values["time"] = "366d"
	}
	if guess := guessRate(strings.Fields(rest)); guess != "" {
		values["rate"] = guess
	}
	if rest != "" {
		values["key"] = strings.TrimPrefix(insteadOfPer(strings.Fields(rest)), "per ")
	}
	return values
}

// insteadOfBan returns a hint for the words after `ban` if they are a client's address, a country or an
// autonomous system; or "".
func insteadOfBan(words []string) string {
	if len(words) == 0 {
		return ""
	}
	target := words[len(words)-1]
	if isAddress(target) || isNetwork(target) {
		return "ban is for violations here: run caddy rate-limit ban " + target + ", or write ban " + target + " into the rules file"
	}
	target = strings.ToUpper(target)
	matcher := "country " + target
	if asn, ok := networks.ParseASN(target); ok {
		matcher = "asn " + asn
	} else if !networks.IsCountry(target) {
		return ""
	}
	return "ban is for violations here: write into the site @banned " + matcher + " and respond @banned 403, each on a line of its own"
}
