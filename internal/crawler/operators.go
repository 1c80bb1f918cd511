package crawler

import (
	"slices"
	"strings"
)

// Operator is an operator of crawlers.
type Operator struct {
	Name   string
	agents []string // in the User-Agent of its crawlers, in lower case
	names  []string // masks of the names of their addresses; none if they aren't confirmed by DNS
	List   string   // URL of its list of addresses, or ""
}

// operators are the known operators, by name. The comments cite their documentation.
var operators = []Operator{
	// https://support.apple.com/en-us/119829
	{"apple", []string{"applebot"}, []string{"*.applebot.apple.com"},
		"https://search.developer.apple.com/applebot.json"},
	// https://help.baidu.com/question?prod_id=99&class=0&id=3001
	{"baidu", []string{"baiduspider"}, []string{"*.baidu.com", "*.baidu.jp"}, ""},
	// https://www.bing.com/webmasters/help/how-to-verify-bingbot-3905dc26
	{"bing", []string{"bingbot", "adidxbot", "bingpreview"}, []string{"*.search.msn.com"},
		"https://www.bing.com/toolbox/bingbot.json"},
	// https://commoncrawl.org/ccbot
	{"commoncrawl", []string{"ccbot"}, []string{"*.crawl.commoncrawl.org"}, "https://index.commoncrawl.org/ccbot.json"},
	// https://duckduckgo.com/duckduckgo-help-pages/results/duckduckbot
	{"duckduckgo", []string{"duckduckbot"}, nil, "https://duckduckgo.com/duckduckbot.json"},
	// https://developers.google.com/search/docs/crawling-indexing/verifying-googlebot: the masks of its
	// crawlers. google-proxy-*.google.com and *.gae.googleusercontent.com fetch what users ask for.
	{"google", []string{"googlebot", "google-inspectiontool", "googleother", "storebot-google", "adsbot-google",
		"mediapartners-google", "apis-google"},
		[]string{"crawl-*.googlebot.com", "geo-crawl-*.geo.googlebot.com", "rate-limited-proxy-*.google.com"},
		"https://developers.google.com/static/search/apis/ipranges/googlebot.json"},
	// https://platform.openai.com/docs/bots: ChatGPT-User fetches what users ask for
	{"openai", []string{"gptbot", "oai-searchbot"}, nil, "https://openai.com/gptbot.json"},
	// https://yandex.com/support/webmaster/en/robot-workings/check-yandex-robots.html
	{"yandex", []string{"yandex.com/bots"}, []string{"*.yandex.ru", "*.yandex.net", "*.yandex.com"}, ""},
}

// Names returns the names of the known operators.
func Names() (names []string) {
	for _, o := range operators {
		names = append(names, o.Name)
	}
	return names
}

// Find returns an operator by its name, or nil.
func Find(name string) *Operator {
	i := slices.IndexFunc(operators, func(o Operator) bool { return o.Name == name })
	if i < 0 {
		return nil
	}
	return &operators[i]
}

// HasNames reports whether reverse DNS can confirm the operator's addresses.
func (o *Operator) HasNames() bool { return len(o.names) > 0 }

// maxAgent bounds how much of a User-Agent is examined.
const maxAgent = 512

// IsClaimedBy reports whether a User-Agent claims to be one of the operator's crawlers.
func (o *Operator) IsClaimedBy(agent string) bool {
	agent = strings.ToLower(agent[:min(len(agent), maxAgent)])
	return slices.ContainsFunc(o.agents, func(part string) bool { return strings.Contains(agent, part) })
}

// has reports whether a DNS name fits one of the operator's masks. The star of a mask stands for one or
// more labels, and for part of one if there is text before it.
func (o *Operator) has(name string) bool {
	name = strings.ToLower(strings.TrimSuffix(name, "."))
	return slices.ContainsFunc(o.names, func(mask string) bool {
		before, after, _ := strings.Cut(mask, "*")
		middle, begins := strings.CutPrefix(name, before)
		middle, ends := strings.CutSuffix(middle, after)
		return begins && ends && middle != "" && (before == "" || !strings.Contains(middle, "."))
	})
}
