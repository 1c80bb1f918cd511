package config

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/caddy-tally/caddy-tally/internal/caddyconf"

	"github.com/caddy-tally/caddy-tally/internal/grammar"
)

// offOr returns the rules for a word with `off` or a block behind it. set is called before the block.
func offOr(word string, set func(off bool), b grammar.Block) grammar.Rules {
	then := func(off bool) func() error {
		return func() error { set(off); return nil }
	}
	return grammar.Rules{grammar.Line(word + " off").Then(then(true)), grammar.Line(word).Then(then(false)).With(b)}
}

// subdirective is what errors call an unknown word, as mholt/caddy-ratelimit does.
func subdirective(word string) string { return "unrecognized subdirective '" + word + "'" }

// mistakes are lines that people write as other programs have them, or from memory, and ours, which are
// valid where these stand.
var mistakes = []struct {
	form  *regexp.Regexp
	write string
}{
	{regexp.MustCompile(`^limit (\d[\d_]*)(?:/| per )1? ?month$`), "limit $1/month fixed"},
	{regexp.MustCompile(`^limit (\d[\d_]*)/1?M$`), "limit $1/month fixed; or limit $1/1m, a minute"},
	{regexp.MustCompile(`^limit (\d{1,3})(?:\.(000)|,(\d{3}))(/\S+)$`), "limit ${1}_$2$3$4"},
	{regexp.MustCompile(`^(?:windowMs|max) \d+$`), "limit 100/15m; one line in the place of windowMs and max"},
	{regexp.MustCompile(`^limit (\d\S*/\S+) burst=(\d+)(?: nodelay)?$`), "limit $1 burst $2"},
	{regexp.MustCompile(`^limit (\d[\d_]* concurrent) .*?block (\d+\S+)$`), "limit $1; and a rate such as limit 60/1m block $2 beside it"},
	{regexp.MustCompile(`^limit (\d\S*/\S+) (?:ban|ban_?time|ban for|block for|for|penalty|timeout) (\d+\S+)$`), "limit $1 block $2"},
	{regexp.MustCompile(`^(?:block|block_for|ban_?time|timeout)[= ](\d+[smhd])$`), "it behind a limit, as in limit 60/1m block $1"},
	{regexp.MustCompile(`^limit (?:concurrent (\d+)|(\d+) connections)$`), "limit $1$2 concurrent"},
	{regexp.MustCompile(`^zone[=:](\w+)`), "zone $1 {"},
	{regexp.MustCompile(`^rate[= ](\d+r?/\d*[smhd])$`), "limit $1"},
	{
		regexp.MustCompile(
			`^per \{?(?:remote_ip|remote_host|client_ip|http\.request\.remote\.host|http\.vars\.client_ip)\}?$`),
		"per ip"},
	{regexp.MustCompile(`^per (\{\w+\.\S+\})$`), "per key $1"},
}

// perUnit is an amount that isn't whole, per second, minute or hour.
var perUnit = regexp.MustCompile(`^limit (\d*)\.(\d{1,4}) ?r?(?:/| per )1?(s|m|h)(?:ec|econd|in|inute|our)?$`)

// wholeRate returns the limit that an amount that isn't whole means, such as 30/1m for 0.5/1s, or "".
func wholeRate(line string) string {
	m := perUnit.FindStringSubmatch(line)
	if m == nil {
		return ""
	}
	n, err := strconv.Atoi(m[1] + m[2])
	digits := int(math.Pow10(len(m[2])))
	longer := map[string]struct {
		times int
		unit  string
	}{"s": {60, "1m"}, "m": {60, "1h"}, "h": {24, "1d"}}[m[3]]
	if err != nil || n == 0 || n*longer.times%digits != 0 || len(m[2]) == 3 && strings.Trim(m[1], "0") != "" { // 1.500 may be 1500
		return ""
	}
	return fmt.Sprintf("limit %d/%s", n*longer.times/digits, longer.unit)
}

// mistake returns the line to write for a frequent mistake, or "".
func mistake(line string) string {
	if rate := wholeRate(line); rate != "" {
		return rate
	}
	for _, m := range mistakes {
		if found := m.form.FindStringSubmatchIndex(line); found != nil {
			return string(m.form.ExpandString(nil, m.write, line, found))
		}
	}
	return ""
}

// misplaced returns where a word belongs that a block doesn't have, or "".
func misplaced(word string) string {
	var places []string
	if slices.Contains(new(Zone).block(nil).Words(), word) {
		places = append(places, "a zone of the directive rate_limit")
	}
	if slices.Contains(new(Handler).block(nil).Words(), word) {
		places = append(places, "the directive rate_limit of a site, beside its zones")
	}
	if slices.Contains(new(App).block().Words(), word) {
		places = append(places, "the global option rate_limit at the top of the file")
	}
	switch {
	case len(places) > 0:
		return "write it into " + caddyconf.OrList(places)
	case isModule("http.handlers." + word):
		return word + " is a directive of the site; is a } missing above?"
	}
	return ""
}

func isModule(id string) bool {
	_, err := caddy.GetModule(id)
	return err == nil
}

// guestStores are the stores that exist only in a Caddy that was built with their packages, which
// are in the folder storage.
var guestStores = []string{"redis", "postgres"}

// unknownStore returns an error about the name of a store that this Caddy doesn't have.
func unknownStore(d *caddyfile.Dispenser, name string) error {
	if slices.Contains(guestStores, name) {
		return d.Errf(
			"store: this Caddy was built without %q: build it with xcaddy build --with %s --with %[2]s/storage/%[1]s", name, caddyconf.ModulePath)
	}
	if scheme, _, isURL := strings.Cut(name, "://"); isURL {
		// A URL may contain a password, which mustn't get into messages.
		return d.Errf("store: the name of a store comes first, got a URL: write %s", ofScheme(scheme))
	}
	if strings.Contains(name, "/") {
		return d.Errf("store: the name of a store comes first, got %q: write store sqlite %[1]s", name)
	}
	return d.Errf("store: there is no %q: write %s", name, caddyconf.OrList(moduleNames("rate_limit.stores")))
}

// ofScheme returns how to write a store whose URLs have a scheme.
func ofScheme(scheme string) string {
	for _, store := range guestStores {
		if strings.HasPrefix(scheme, store) {
			return fmt.Sprintf("store %s %s://…", store, scheme)
		}
	}
	return "store redis redis://… or store postgres postgres://…"
}

// moduleNames returns the names of all modules in a namespace, in ascending order.
func moduleNames(namespace string) (names []string) {
	for _, m := range caddy.GetModules(namespace) {
		names = append(names, m.ID.Name())
	}
	return names
}
