package config

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-tally/caddy-tally/internal/advice"
	"github.com/caddy-tally/caddy-tally/internal/caddyconf"
	"github.com/caddy-tally/caddy-tally/internal/matcher"
)

// loadMatchers loads the matchers of a struct with a field MatcherSetsRaw.
func loadMatchers(ctx caddy.Context, owner any) (sets caddyhttp.MatcherSets, err error) {
	if sets, err = loadSets(ctx, owner, "MatcherSetsRaw"); err != nil {
		err = fmt.Errorf("match: %w", err)
	}
	return sets, err
}

// loadSets loads the matcher sets in a field of a struct. Matchers of placeholders come last: a
// body that is too long for them is of no interest if another one doesn't match.
func loadSets(ctx caddy.Context, owner any, field string) (sets caddyhttp.MatcherSets, err error) {
	loaded, err := ctx.LoadModule(owner, field)
	if err == nil {
		err = sets.FromInterface(loaded)
	}
	for _, set := range sets {
		slices.SortStableFunc(set, func(a, b any) int { return readsPlaceholders(a) - readsPlaceholders(b) })
	}
	return sets, err
}

// readsPlaceholders returns 1 for a matcher of any placeholders' values, and 0 for others.
func readsPlaceholders(m any) int {
	switch m.(type) {
	case *caddyhttp.MatchExpression, *caddyhttp.VarsMatcher, *caddyhttp.MatchVarsRE, *caddyhttp.MatchNot:
		return 1
	}
	return 0
}

func (z *zoneCompiler) loadMatchers() (err error) {
	if z.run.Matchers, err = loadMatchers(z.ctx, z.Zone); err != nil {
		return err
	}
	z.noteSpellings("match", z.run.Matchers)
	matcher.ForLimit(z.run.Matchers)
	return nil
}

func (h *handlerCompiler) loadExempt(ctx caddy.Context) error {
	err := matcher.CheckSets(h.ExemptRaw)
	h.run.ExemptReads = readsOf(h.ExemptRaw) // before loading, which discards it
	if err == nil {
		h.run.Exempt, err = loadSets(ctx, h.Handler, "ExemptRaw")
	}
	if err != nil {
		return fmt.Errorf("exempt: %w", err)
	}
	h.found = append(h.found, h.checkExemptions()...)
	matcher.ForExemption(h.run.Exempt)
	return nil
}

// noteSpellings notes matchers of the zone that miss spellings of their paths, before they are
// adapted to their purpose.
func (z *zoneCompiler) noteSpellings(option string, sets caddyhttp.MatcherSets) {
	for _, set := range sets {
		if problem, words := matcher.Safer(option, set); words != "" {
			z.note(option+": "+problem, words)
		}
	}
}

// checkExemptions finds exempt extensions: a backend may derive the format of its answer from the
// extension, and offer the same action under each.
func (h *handlerCompiler) checkExemptions() (found []advice.Advice) {
	for _, set := range h.run.Exempt {
		for _, m := range set {
			var paths []string
			switch m := m.(type) {
			case *caddyhttp.MatchPath:
				paths = *m
			case *matcher.Endpoint:
				paths = m.Paths
			}
			isExtension := func(path string) bool { return strings.HasPrefix(strings.TrimPrefix(path, "/"), "*.") }
			if i := slices.IndexFunc(paths, isExtension); i >= 0 {
				found = append(found, h.Advice("exempt: "+alsoExempts(paths[i]), inFolder))
			}
		}
	}
	return found
}

// inFolder is what to write for an exempt extension.
const inFolder = "exempt /static/*; with the folder that the files are in"

func alsoExempts(extension string) string {
	return extension + " also exempts /login" + extension[strings.Index(extension, "."):] + ", which some backends take for /login"
}

// unmarshalMatchers reads a matcher set: an endpoint, a matcher token, client addresses, one
// matcher in the line, or a block of matchers.
func unmarshalMatchers(d *caddyfile.Dispenser, token MatcherToken) (caddy.ModuleMap, error) {
	if matcher.NextIsEndpoint(d) {
		return matcher.UnmarshalEndpoint(d)
	}
	if nextIsMatcherToken(d) {
		return parseMatcherToken(d, token)
	}
	if nextAreAddresses(*d) {
		return parseAddresses(d)
	}
	if err := checkMatcherWords(*d); err != nil {
		return nil, err
	}
	return caddyhttp.ParseCaddyfileNestedMatcherSet(d)
}

// requiredMatchers reads the matcher set of an option that needs one, such as the example.
func requiredMatchers(d *caddyfile.Dispenser, token MatcherToken, option, example string) (caddy.ModuleMap, error) {
	if d.NextArg() {
		if option == "exempt" && strings.HasPrefix(d.Val(), "*.") {
			return nil, d.Errf("exempt: %s: write %s", alsoExempts(d.Val()), inFolder)
		}
		d.Prev()
	}
	set, err := unmarshalMatchers(d, token)
	if err != nil {
		return nil, caddyconf.InLine(d, option, err)
	}
	if len(set) == 0 {
		return nil, d.Errf("%s: a matcher is missing: write %s", option, example)
	}
	return set, nil
}

// nextAreAddresses reports whether all remaining arguments are addresses or networks. They can only
// be meant to be clients'.
func nextAreAddresses(d caddyfile.Dispenser) bool {
	args := d.RemainingArgs()
	isNone := func(arg string) bool { return arg != "private_ranges" && !isAddress(arg) && !isNetwork(arg) }
	return len(args) > 0 && !slices.ContainsFunc(args, isNone)
}

func isNetwork(s string) bool {
	_, err := netip.ParsePrefix(s)
	return err == nil
}

// parseAddresses reads addresses and networks like the matcher client_ip.
func parseAddresses(d *caddyfile.Dispenser) (caddy.ModuleMap, error) {
	d.NextArg()
	name := d.Token().Clone()
	name.Text = "client_ip"
	m := new(caddyhttp.MatchClientIP)
	if err := m.UnmarshalCaddyfile(
		caddyfile.NewDispenser(append([]caddyfile.Token{name}, d.NextSegment()...))); err != nil {
		return nil, err
	}
	return caddy.ModuleMap{"client_ip": caddyconfig.JSON(m, nil)}, nil
}

// checkMatcherWords returns an error if a line, or one of the following block, doesn't begin with a
// matcher, or with one behind "not".
func checkMatcherWords(d caddyfile.Dispenser) error {
	for nesting := d.Nesting(); d.NextArg() || d.NextBlock(nesting); d.NextSegment() {
		if d.Token().Quoted() { // an expression
			return nil
		}
		not := ""
		if d.Val() == "not" && d.NextArg() {
			not = "not "
		}
		if word := d.Val(); !d.Token().Quoted() && !matcher.IsMatcher(word) {
			return d.Errf("getting matcher module '%s': module not registered: http.matchers.%[1]s: %s", word,
				insteadOfMatcher(not, append([]string{word}, d.RemainingArgs()...)))
		}
	}
	return nil
}

// insteadOfMatcher returns what to write for words that begin with no matcher, or what is expected there. not is
// "not " in a negation, and otherwise empty. What is written loads (decision 182).
func insteadOfMatcher(not string, words []string) string {
	isOther := func(word string) bool { return !strings.HasPrefix(word, "/") && !strings.HasPrefix(word, "*.") }
	isNoMethod := func(word string) bool { return !matcher.IsMethod(word) }
	switch line := strings.Join(words, " "); {
	case !slices.ContainsFunc(words, isOther):
		return "write " + not + "path " + line
	case !slices.ContainsFunc(words, isNoMethod):
		return "write " + not + "method " + strings.ToUpper(line)
	case not != "", strings.HasPrefix(line, "!"):
		return "expected not path /login, or not and another matcher"
	}
	return cmp.Or(caddyconf.DidYouMean(words[0], moduleNames("http.matchers")),
		"expected a path, such as /login, a network, such as 192.0.2.0/24, or a matcher")
}

// nextIsMatcherToken reports whether the next argument is a matcher token. Its first character is
// unambiguous: no name of a matcher and no expression begins with it.
func nextIsMatcherToken(d *caddyfile.Dispenser) bool {
	if !d.NextArg() {
		return false
	}
	next := d.Val()
	d.Prev()
	return next == "*" || strings.HasPrefix(next, "@")
}

func parseMatcherToken(d *caddyfile.Dispenser, token MatcherToken) (caddy.ModuleMap, error) {
	set, _, err := token()
	if err != nil {
		return nil, err
	}
	if first := d.Val(); d.NextArg() {
		return nil, d.Errf("wrong argument count or unexpected line ending after '%s': expected nothing behind %s: write a block of matchers, or another line for an alternative", d.Val(), first)
	}
	if set == nil { // `*`
		set = caddy.ModuleMap{}
	}
	return set, nil
}

// MatcherToken reads the next argument if it is a whole matcher: `*`, a path or the name of a
// matcher. If it is something else, the result is false, and the argument is consumed nevertheless.
type MatcherToken func() (caddy.ModuleMap, bool, error)
