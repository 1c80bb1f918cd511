package proposal

import (
	_ "embed" // for the programs
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/replay"
	"github.com/caddy-tally/caddy-tally/internal/wording"
)

// zone is a proposed zone.
type zone struct {
	name  string
	why   string
	lines []string // of its block
}

// A limit of unknown is what honest clients want, and no limit without a log. It differs from all others.
const unknown = 9_999

// maxPatterns bounds the patterns of a zone that is made from a log.
const maxPatterns = 8

// The least limits that are made from a log.
const (
	leastRequests = 60 // of all kinds: pages have pictures, styles and scripts
	least         = 10
)

// limitLine is a limit, with the reason for its number.
var limitLine = regexp.MustCompile(`^limit (\d+)/(\w+) #(.*)$`)

// program is an application with zones of its recipe.
type program struct {
	name, recipe string
	signs, paths []string // in what proxies ask and in addresses; in logs
	zones        []zone
}

//go:embed programs.txt
var programsText string

// programs are the applications of the recipes that people sign in to.
var programs = parsePrograms(programsText)

func parsePrograms(text string) (list []program) {
	for section := range strings.SplitSeq(strings.TrimSpace(text), "\n\n") {
		head, body, _ := strings.Cut(section, "\n")
		title, signs, _ := strings.Cut(head, ": ")
		var p program
		p.name, p.recipe, _ = strings.Cut(title, ", ")
		for _, sign := range strings.Fields(signs) {
			if strings.HasPrefix(sign, "/") {
				p.paths = append(p.paths, sign)
			} else {
				p.signs = append(p.signs, sign)
			}
		}
		for line := range strings.SplitSeq(body, "\n") {
			if name, ok := strings.CutPrefix(line, "zone "); ok {
				p.zones = append(p.zones, zone{name: name})
			} else {
				z := &p.zones[len(p.zones)-1]
				z.lines = append(z.lines, strings.TrimSpace(line))
			}
		}
		list = append(list, p)
	}
	return list
}

// sign returns what tells that a site is of the program, or "".
func (p *program) sign(s *site) string {
	for _, sign := range p.signs {
		if strings.Contains(s.signs, sign) {
			return sign
		}
	}
	for path := range s.traffic.posts {
		for _, sign := range p.paths {
			if lower := strings.ToLower(path); lower == sign || strings.HasPrefix(lower, sign+"/") {
				return sign
			}
		}
	}
	return ""
}

// propose adds the zones for the site, with amounts that a log may correct.
func (s *site) propose() {
	known := false // by its recipe, whose zones are all that it needs
	for _, p := range programs {
		if sign := p.sign(s); sign != "" {
			known = known || p.recipe != basicAuth
			for _, z := range p.zones {
				s.add(z.name, p.recipe, fmt.Sprintf("%s, by %s: docs/recipes/%s.md", p.name, sign, p.recipe), z.lines...)
			}
		}
	}
	if len(s.zones) == 0 && s.serves && !s.files {
		s.proposeSignIn()
	}
	if s.traffic.requests > 0 {
		s.proposeTraffic(known)
	}
}

// basicAuth is the recipe that is of no program: any site may have it.
const basicAuth = "basic-auth"

var (
	signIn = regexp.MustCompile(`(?i)/[\w.-]*(log-?_?in|sign-?_?in|authenticate|session|token|password|otp)[\w.-]*/?$`)
	api    = regexp.MustCompile(`^(/(?:api|graphql|rest|rpc|v\d+))(?:/|$)`)
)

// usualPaths are those at which programs take passwords.
const usualPaths = "/login /signin /api/login /api/auth/login /auth/login /user/login /users/sign_in"

// proposeSignIn proposes a zone for the sign-in of an unknown program: by the paths in the log, or the usual ones.
func (s *site) proposeSignIn() {
	var paths []string
	for _, path := range slices.Sorted(maps.Keys(s.traffic.posts)) {
		if w := s.traffic.posts[path]; len(paths) < maxPatterns && (signIn.MatchString(path) || w.failed >= enough && 2*w.failed > w.requests) {
			paths = append(paths, path)
		}
	}
	why := "what takes passwords by the log: its name, or mostly 401 and 403"
	if s.traffic.requests == 0 {
		paths, why = []string{usualPaths}, "the usual paths, since the program is unknown: write its own here"
	}
	if len(paths) > 0 {
		s.add("login", "", why, "match POST "+strings.Join(paths, " "), "per ip", "limit 10/5m # people who mistype need fewer, and guessers want as many as they get")
	}
}

// proposeTraffic proposes zones for what the log has: crawlers, and unless the program is known, heavy folders,
// APIs, everything.
func (s *site) proposeTraffic(known bool) {
	t := &s.traffic
	if 2*t.hidden > t.requests {
		s.notes = append(s.notes, fmt.Sprintf("is behind %s, a proxy that isn't trusted: its visitors share each count. Write trusted_proxies and trusted_proxies_strict first: docs/clients.md#behind-a-proxy", t.forwarder))
	}
	if t.crawled >= enough {
		s.add("crawlers", "", fmt.Sprintf("crawlers for AI, %s: docs/recipes/ai-crawlers.md", wording.Counted(t.crawled, "request")),
			"match header_regexp User-Agent "+crawlerNames, "per everyone", "limit 30/1m # all of them together; lower it to slow them")
	}
	if known {
		return
	}
	var apis, heavy, reasons []string
	for _, folder := range slices.Sorted(maps.Keys(t.folders)) {
		w := t.folders[folder]
		if w.requests < enough || folder == "/*" {
			continue
		}
		if found := api.FindStringSubmatch(folder); found != nil && !slices.Contains(apis, found[1]+"/*") {
			apis = append(apis, found[1]+"/*")
		}
		took, size := w.took/time.Duration(w.requests), w.bytes/w.requests
		if (took >= time.Second || size >= 1<<20) && len(heavy) < maxPatterns {
			heavy = append(heavy, folder)
			reasons = append(reasons, fmt.Sprintf("%s takes %v and %d KB", folder, took.Round(10*time.Millisecond), size>>10))
		}
	}
	limit := fmt.Sprintf("limit %d/1m #", unknown)
	if len(heavy) > 0 {
		s.add("heavy", "", strings.Join(reasons, ", ")+" on average", "match "+strings.Join(heavy, " "), "per ip", limit)
	}
	if len(apis) > 0 {
		s.add("api", "", "an API", "match "+strings.Join(apis, " "), "per ip", limit)
	}
	s.add("all", "", "any request", "per ip", limit)
}

// add adds a zone, unless the site has one for the same requests. Of several programs' zones of a kind, the
// later ones are named for their recipes, too.
func (s *site) add(kind, recipe, why string, lines ...string) {
	if slices.ContainsFunc(s.zones, func(z zone) bool { return z.lines[0] == lines[0] }) {
		return
	}
	name := s.zone(kind)
	if slices.ContainsFunc(s.zones, func(z zone) bool { return z.name == name }) {
		name = s.zone(notWord.ReplaceAllString(recipe, "_") + "_" + kind)
	}
	if len(s.hosts) > 1 { // perhaps in several servers
		lines = append(slices.Clone(lines), "scope shared")
	}
	s.zones = append(s.zones, zone{name, why, lines})
}

// fit corrects the limits of the zone by the demand of honest clients, and reports whether any is left.
func (z *zone) fit(limits []replay.LimitReport) (left bool) {
	var lines []string
	before := int64(0)
	for _, line := range z.lines {
		found := limitLine.FindStringSubmatch(line)
		if found == nil {
			lines = append(lines, line)
			continue
		}
		amount, _ := strconv.ParseInt(found[1], 10, 64)
		fit := new(replay.Fit)
		for _, l := range limits {
			if l.Zone == z.name && l.Amount == amount && l.Fit != nil {
				fit = l.Fit
			}
		}
		amount, why := z.fitted(amount, found[2], fit)
		if amount == 0 {
			continue
		}
		if left && before >= amount { // the limit before would never be reached
			lines = lines[:len(lines)-1]
		}
		lines = append(lines, fmt.Sprintf("limit %d/%s # %s", amount, found[2], strings.Trim(found[3]+"; "+why, " ;")))
		before, left = amount, true
	}
	z.lines = lines
	return left
}

// fitted returns an amount that refuses no honest client, or 0, and why.
func (z *zone) fitted(amount int64, window string, fit *replay.Fit) (fitting int64, why string) {
	if slices.Contains(z.lines, "per everyone") { // crawlers
		return amount, ""
	}
	if fit.Honest == 0 {
		if amount == unknown {
			return 0, ""
		}
		return amount, "the log shows no honest client that wants this"
	}
	seen := fmt.Sprintf("of %s in the log, the most wanted %s in %s", wording.Counted(fit.Honest, "honest client"), wording.Number(fit.Most), window)
	if fit.Honest < enough {
		seen = "few clients to go by: " + seen
	}
	if fit.Others > 0 {
		seen += fmt.Sprintf(" (%s left aside)", wording.Counted(fit.Others, "other"))
	}
	lowest := int64(least)
	if !slices.ContainsFunc(z.lines, func(line string) bool { return strings.HasPrefix(line, "match ") }) {
		lowest = leastRequests
	}
	switch {
	case amount == unknown && fit.Amount < lowest:
		return lowest, seen + "; a busier day may bring more than half as much again"
	case amount == unknown || fit.Most > amount:
		return fit.Amount, seen + "; this is at least half as much again"
	}
	return amount, seen
}
