package proposal

import (
	_ "embed" // for the programs
	"fmt"
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
	name   string
	why    string
	lines  []string // of its block
	match  string   // those of them before what it counts per, before its host was added
	exempt string   // a line of the handler, or ""
}

// unknown stands for the amount of a limit that only a log can tell. Without a log there is no such limit. No other
// limit has this amount.
const unknown = 9_999

// maxPatterns bounds the patterns of a zone that is made from a log.
const maxPatterns = 8

// enough is how many requests or clients are something to go by.
const enough = 20

// What clients want differs: nobody who wants up to farAbove times as much as most of the people, or notFar, is
// left aside. A limit of all kinds is at least leastRequests: pages have pictures, styles and scripts.
const (
	farAbove      = 4
	notFar        = 20
	leastRequests = 60
)

// limitLine is a limit, with the reason for its number.
var limitLine = regexp.MustCompile(`^limit (\d+)/(\w+) #(.*)$`)

// program is an application with zones of its recipe.
type program struct {
	name, recipe        string
	words, ports, paths []string // of upstreams, folders and addresses; of upstreams; in logs, or methods
	zones               []zone
}

//go:embed programs.txt
var programsText string

// programs are the applications of the recipes that people sign in to.
var programs = parsePrograms(programsText)

func parsePrograms(text string) (list []program) {
	for section := range strings.SplitSeq(strings.TrimSpace(text), "\n\n") {
		head, body, _ := strings.Cut(section, "\n")
		title, signs, _ := strings.Cut(head, ":")
		var p program
		p.name, p.recipe, _ = strings.Cut(title, ", ")
		for _, sign := range strings.Fields(signs) {
			switch {
			case strings.HasPrefix(sign, ":"):
				p.ports = append(p.ports, sign[1:])
			case strings.HasPrefix(sign, "/") || strings.ToUpper(sign) == sign:
				p.paths = append(p.paths, sign)
			default:
				p.words = append(p.words, sign)
			}
		}
		for line := range strings.SplitSeq(body, "\n") {
			if name, ok := strings.CutPrefix(line, "zone "); ok {
				p.zones = append(p.zones, zone{name: name})
			} else {
				z := &p.zones[len(p.zones)-1]
				z.lines = append(z.lines, strings.TrimPrefix(line, "\t"))
			}
		}
		list = append(list, p)
	}
	return list
}

// has reports whether a request is one that the program has.
func (p *program) has(method, path string) bool {
	path = strings.ToLower(path)
	return slices.ContainsFunc(p.paths, func(sign string) bool {
		if end, ok := strings.CutPrefix(sign, "/*"); ok {
			return strings.HasSuffix(path, end)
		}
		return sign == method || path == sign || strings.HasPrefix(path, sign+"/")
	})
}

// sign returns what tells that a site is of the program, or "", and whether its log makes that doubtful. A name
// is doubtful if the log shows many people and nothing that the program has; a port, which others use as well,
// unless the log shows that people use the program; and paths count if many do.
func (p *program) sign(s *site, log *people) (sign string, doubtful bool) {
	in := func(list []string) func(string) bool {
		return func(sign string) bool { return slices.Contains(list, sign) }
	}
	word, port := slices.IndexFunc(p.words, in(s.words)), slices.IndexFunc(p.ports, in(s.ports))
	t := &s.traffic
	if log == nil {
		log = new(people)
	}
	used, deep := t.programs[p.name].crowd(log, nil), t.deep.crowd(log, nil)
	usual := len(p.paths) > 0 && !used.isFew(t.all.crowd(log, nil))
	switch {
	case word >= 0:
		return p.words[word], len(p.paths) > 0 && deep[0] >= manyPeople && used[0] == 0
	case port >= 0:
		return "port " + p.ports[port], deep[0] > 0 && !usual
	case usual:
		return p.paths[slices.IndexFunc(p.paths, func(sign string) bool { return sign[0] == '/' })], false
	}
	return "", false
}

// propose adds the zones for the site, with amounts that a log may correct.
func (s *site) propose(log *people) {
	known, found := false, false // by a recipe; by one whose zones are all that it needs
	for _, p := range programs {
		sign, doubtful := p.sign(s, log)
		// no crowd knows it
		if doubtful && !slices.ContainsFunc(s.zones,
			func(z zone) bool { return strings.HasSuffix(z.why, "/"+p.recipe+".md") }) {
			s.notes = append(s.notes,
				fmt.Sprintf("may be %s, by %s in the config, but the log shows nothing of that: if it is, see docs/recipes/%s.md", p.name, sign, p.recipe))
		} else if sign != "" {
			known, found = known || p.recipe != basicAuth, true
			for _, z := range p.zones {
				if !z.isForCrowds() {
					s.add(z, p.recipe, fmt.Sprintf("%s, by %s: docs/recipes/%s.md", p.name, sign, p.recipe))
				}
			}
		}
	}
	if !found && !s.files {
		s.proposeSignIn(log)
	}
	if s.traffic.requests > 0 {
		s.proposeTraffic(known, log)
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

// proposeSignIn proposes a zone for the sign-in of an unknown program: the usual paths, and those that many of
// the people use by the log.
func (s *site) proposeSignIn(log *people) {
	t, all := &s.traffic, s.traffic.all.crowd(log, nil)
	var paths, rare []string
	for _, path := range byUse(t.posts) {
		failed := t.posts[path].crowd(log, func(sh share) bool { return 2*sh.failed > sh.requests })
		used := t.posts[path].crowd(log, nil)
		switch signs := signIn.MatchString(path); {
		case slices.Contains(strings.Fields(usualPaths), path):
		case signs && !used.isFew(all), 2*failed[0] > used[0] && !failed.isFew(all):
			paths = append(paths, path)
		case signs || 2*failed[0] > used[0]:
			rare = append(rare, path)
		}
	}
	s.leaveOut("what few sign in at, or fail at, by the log: write it into the zone if it takes passwords", rare)
	lines, why := []string{"match POST " + usualPaths},
		"the usual paths, since the program is unknown: write its own here"
	if len(paths) > 0 {
		lines = append([]string{"match POST " + strings.Join(s.most("login", paths), " ")}, lines...)
		why = "what takes passwords by the log: its name, or mostly 401 and 403; and the usual paths"
	}
	s.add(zone{name: "login",
		lines: append(lines, "per ip",
			"limit 10/5m # people who mistype need fewer, and guessers want as many as they get")}, "", why)
}

// most returns the first patterns of a zone, as many as it may have, in the order of the alphabet.
func (s *site) most(zone string, patterns []string) []string {
	if len(patterns) > maxPatterns {
		s.leaveOut("of the zone "+zone, patterns[maxPatterns:])
	}
	return slices.Sorted(slices.Values(patterns[:min(len(patterns), maxPatterns)]))
}

// leaveOut notes paths that are in no zone.
func (s *site) leaveOut(why string, paths []string) {
	if len(paths) > 0 {
		more := ""
		if len(paths) > maxPatterns {
			more = fmt.Sprintf(" and %d more", len(paths)-maxPatterns)
		}
		s.notes = append(s.notes,
			fmt.Sprintf("has paths that are left out, %s: %s%s", why,
				strings.Join(paths[:min(len(paths), maxPatterns)], " "), more))
	}
}

// proposeTraffic proposes zones for what the log has: crawlers, and unless the program is known, heavy folders,
// APIs, everything.
func (s *site) proposeTraffic(known bool, log *people) {
	t, all := &s.traffic, s.traffic.all.crowd(log, nil)
	for peer, p := range t.proxies {
		if len(p.clients) == manyClients && 10*p.requests >= 9*t.requests {
			s.notes = append(s.notes, fmt.Sprintf("gets nearly all requests from %s, which isn't trusted and says that they are of many clients. Is that your proxy? Then its visitors share each count: write trusted_proxies and trusted_proxies_strict first: docs/clients.md#behind-a-proxy", peer))
		}
	}
	crawled := int64(0)
	for _, sh := range t.crawled.by {
		crawled += sh.requests
	}
	switch why := fmt.Sprintf("crawlers for AI, %s: docs/recipes/ai-crawlers.md",
		wording.Counted(crawled, "request")); {
	case crawled < enough:
	case t.crawled.crowd(log, nil).isFew(all):
		s.notes = append(s.notes, "has a few clients that say that they are "+why)
	default:
		s.add(zone{name: "crawlers",
			lines: []string{"match header_regexp User-Agent " + crawlerNames, "per everyone",
				"limit 30/1m # all of them together; lower it to slow them"}}, "", why)
	}
	if known {
		return
	}
	fitted := func(name, why string, match ...string) {
		s.add(zone{name: name, lines: append(match, "per ip", fmt.Sprintf("limit %d/1m #", unknown))}, "", why)
	}
	if heavy := s.used(t.folders, all, log, share.isHeavy); len(heavy) > 0 {
		fitted("heavy", "what takes a second or a megabyte on average, for most who ask for it",
			"match "+strings.Join(s.most("heavy", heavy), " "))
	}
	if apis := s.used(t.apis, all, log, nil); len(apis) > 0 {
		fitted("api", "an API", "match "+strings.Join(s.most("api", apis), " "))
	}
	fitted("all", "any request")
}

// isHeavy reports whether a client's requests took long, or much, on average.
func (sh share) isHeavy() bool {
	return sh.took/time.Duration(sh.requests) >= time.Second || sh.bytes/sh.requests >= 1<<20
}

// used returns the patterns that many of the people use, and most of them as wanted; the most used ones first.
func (s *site) used(all map[string]*use, people crowd, log *people, wanted func(share) bool) (patterns []string) {
	for _, pattern := range byUse(all) {
		requests := int64(0)
		for _, sh := range all[pattern].by {
			requests += sh.requests
		}
		users, as := all[pattern].crowd(log, nil), all[pattern].crowd(log, wanted)
		if pattern != "/*" && requests >= enough && !as.isFew(people) && 2*as[0] > users[0] && 2*as[1] > users[1] {
			patterns = append(patterns, pattern)
		}
	}
	return patterns
}

// add adds a zone, unless the site has one for the same requests. Of several programs' zones of a kind, the
// later ones are named for their recipes, too.
func (s *site) add(z zone, recipe, why string) {
	kind := z.name
	z.match, _, _ = strings.Cut(strings.Join(z.lines, "\n"), "per ")
	if slices.ContainsFunc(s.zones, func(other zone) bool { return other.match == z.match }) {
		return
	}
	if z.name = s.zone(kind); slices.ContainsFunc(s.zones, func(other zone) bool { return other.name == z.name }) {
		z.name = s.zone(notWord.ReplaceAllString(recipe, "_") + "_" + kind)
	}
	if strings.HasPrefix(z.lines[0], "exempt ") {
		z.exempt = "\t" + strings.Join(s.within(z.lines[:1]), "\n\t\t")
		z.lines = z.lines[1:]
	}
	if z.lines = s.within(z.lines); len(s.hosts) > 1 { // perhaps in several servers
		z.lines = append(slices.Clone(z.lines), "scope shared")
	}
	z.name, z.why = s.names.unused(z.name), why
	s.zones = append(s.zones, z)
}

// within returns the lines of a zone, for the part of a site that is for some hosts: each match also asks for
// the host.
func (s *site) within(lines []string) (all []string) {
	if s.only == "" {
		return lines
	}
	if !strings.HasPrefix(lines[0], "match ") && !strings.HasPrefix(lines[0], "exempt ") {
		return append([]string{"match " + s.only}, lines...)
	}
	for _, line := range lines {
		option, matcher, _ := strings.Cut(line, " ")
		if option != "match" && option != "exempt" {
			all = append(all, line)
			continue
		}
		if matcher == "{" {
			all = append(all, line, "\t"+s.only)
			continue
		}
		if first, _, _ := strings.Cut(matcher, " "); strings.HasPrefix(first, "/") || strings.ToUpper(first) == first {
			matcher = "endpoint " + matcher
		}
		all = append(all, option+" {", "\t"+s.only, "\t"+matcher, "}")
	}
	return all
}

// fit corrects the limits of the zone by what people want, and removes those that nobody is known to want.
func (z *zone) fit(wants map[limit]peaks, log *people) {
	var lines []string
	for _, line := range z.lines {
		found := limitLine.FindStringSubmatch(line)
		if found == nil {
			lines = append(lines, line)
			continue
		}
		amount, _ := strconv.ParseInt(found[1], 10, 64)
		amount, why := z.fitted(amount, found[2], wants[limit{z.name, amount}].demand(log))
		if amount == 0 {
			continue
		}
		lines = append(lines, fmt.Sprintf("limit %d/%s # %s", amount, found[2], strings.Trim(found[3]+"; "+why, " ;")))
	}
	z.lines = lines
}

// fitted returns an amount, and why: that of the recipe, or for a limit of unknown, one that fits what people
// want; 0 if nobody is known to want anything.
func (z *zone) fitted(amount int64, window string, d demand) (fitting int64, why string) {
	switch {
	case slices.Contains(z.lines, "per everyone"): // crawlers
		return amount, ""
	case len(d.honest) == 0 && amount == unknown:
		return 0, ""
	case len(d.honest) == 0:
		return amount, "the log shows no honest client that wants this"
	}
	most := d.honest[len(d.honest)-1]
	why = fmt.Sprintf("of %s in the log, the most wanted %s in %s", wording.Counted(len(d.honest), "honest client"),
		wording.Number(most), window)
	if len(d.honest) < enough {
		why = "few clients to go by: " + why
	}
	if d.others > 0 {
		why += fmt.Sprintf(" (%s left aside)", wording.Counted(d.others, "other"))
	}
	if amount != unknown {
		if most > amount {
			why += "; if that was a person, raise this"
		}
		return amount, why
	}
	lowest := int64(0)
	if !slices.ContainsFunc(z.lines, func(line string) bool {
		return strings.Contains(line, "endpoint ") || strings.HasPrefix(line, "match /")
	}) {
		lowest = leastRequests
	}
	if bound := replay.RoundUp(float64(d.bound)); bound >= lowest {
		return bound, why + fmt.Sprintf("; this is at least %d times what all but %d wanted", farAbove,
			few(len(d.honest)))
	}
	return lowest, why + "; a busier day may bring several times as much"
}
