package lint

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/netip"
	"regexp"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"golang.org/x/net/http/httpguts"

	"github.com/caddy-tally/caddy-tally/internal/advice"
	"github.com/caddy-tally/caddy-tally/internal/config"
	"github.com/caddy-tally/caddy-tally/internal/matcher"
	"github.com/caddy-tally/caddy-tally/internal/routing"
	"github.com/caddy-tally/caddy-tally/internal/typo"
)

// methods are those that programs of today send: of HTTP, WebDAV with calendars and versions, UPnP and caches.
var methods = strings.Fields("GET HEAD POST PUT PATCH DELETE OPTIONS TRACE CONNECT QUERY " +
	"PROPFIND PROPPATCH MKCOL COPY MOVE LOCK UNLOCK REPORT SEARCH ACL MKCALENDAR BIND UNBIND REBIND ORDERPATCH " +
	"CHECKIN CHECKOUT UNCHECKOUT MERGE MKACTIVITY MKWORKSPACE VERSION-CONTROL BASELINE-CONTROL " +
	"NOTIFY SUBSCRIBE UNSUBSCRIBE M-SEARCH PURGE BAN REFRESH LINK UNLINK")

// common is the number of methods of HTTP itself, which come first.
const common = 10

// segmentPattern is how other programs write any segment of a path, and pathPattern also what else isn't in paths.
var (
	segmentPattern = regexp.MustCompile(`/(:\w[^/]*|<[^/>]+>|\{\w+\})`)
	pathPattern    = regexp.MustCompile(segmentPattern.String() + `|\||\$$|\\[dws]|[\])]\+`)
)

// anything matches the end of a path in the syntax of other programs: here it matches only paths with a dot.
var anything = regexp.MustCompile(`/\w+\.\*$`)

// parts are values that are only a part of what is in a field: of a program's name its version and address are missing,
// of a scheme the token, of a type the boundary, of a cookie the value, of a page the scheme or the path.
var parts = map[string]*regexp.Regexp{
	"User-Agent":    regexp.MustCompile(`^\w*[A-Z][\w-]+$|^(curl|wget|python-requests|python-httpx|okhttp|libwww-perl|scrapy|aiohttp)$`),
	"Authorization": regexp.MustCompile(`^\w+$`),
	"Content-Type":  regexp.MustCompile(`^(multipart/[\w-]+|application/json)$`),
	"Cookie":        regexp.MustCompile(`^[^=*]+$`),
	"Referer":       regexp.MustCompile(`^[^:*]+$|^[^*]*[^/*]:/*[^/*]+$`),
	"Origin":        regexp.MustCompile(`^[^:*]+\.[^:*]+$`),
	"Location":      regexp.MustCompile(`^[^/:.?*][^:*]*$`),
	"Set-Cookie":    regexp.MustCompile(`^[^*]+$`),
}

// spelled are values of fields, or parts of them, in the only case in which programs send them.
var spelled = map[string][]string{"Upgrade": {"websocket"}, "X-Requested-With": {"XMLHttpRequest"}, "Sec-Fetch-Mode": {"navigate"},
	"User-Agent": strings.Fields("GPTBot ChatGPT-User OAI-SearchBot ClaudeBot CCBot Bytespider Amazonbot PerplexityBot meta-externalagent " +
		"facebookexternalhit PetalBot Googlebot bingbot YandexBot Baiduspider AhrefsBot SemrushBot MJ12bot DotBot Applebot DuckDuckBot")}

// ofForms are names of fields that forms of sign-ins send, and no query.
var ofForms = strings.Fields("user username login log email account password pwd")

// checkSent asks whether anybody sends what a matcher waits for.
func checkSent(p *config.Place) (found []advice.Advice) {
	sets := p.Sets()
	for _, z := range p.Zones {
		for _, answer := range cmp.Or(z.Count, new(config.Count)).When {
			fields, _ := json.Marshal(answer.Header)
			sets = append(sets, config.OptionSet{ModuleMap: caddy.ModuleMap{"header": fields}, Option: "count", Zone: z, Source: z.Source})
		}
	}
	for _, o := range sets {
		give := func(problem, fix string) { found = append(found, o.Advice(o.Option+": "+problem, fix)) }
		for _, set := range config.WithNegated(o.ModuleMap) {
			r := routing.NewRequests(set)
			for _, method := range r.Methods {
				if !slices.Contains(methods, method) {
					give(fmt.Sprintf("no client sends the method %s", method), likelyMethod(method))
				}
			}
			for _, path := range r.Paths {
				fix := segmentPattern.ReplaceAllString(path, "/*") + " in the place of " + path
				switch {
				case strings.Contains(path, `"`):
					give(path+" has a quotation mark in it, and no page has", strings.ReplaceAll(path, `"`, "")+" in the place of "+path)
				case pathPattern.MatchString(path):
					if pathPattern.MatchString(segmentPattern.ReplaceAllString(path, "/*")) {
						fix = "a path for each, with * for any text; or path_regexp in a block of matchers"
					}
					give(fmt.Sprintf("%s is a pattern of other programs: here it is only the path that reads so", path), fix)
				case o.Option == "match" && r.Methods == nil && isOnlyTop(p, o.Zone, path):
					give(path+" is that page alone, and this site has a route for "+path+"/*", "match "+path+" and match "+path+"/*, each on a line of its own")
				case anything.MatchString(path) && (o.Option == "match" || o.Option == "cost"):
					give(path+" has only paths with a dot there, such as "+path[:len(path)-1]+"php", strings.TrimSuffix(path, ".*")+"* in the place of "+path)
				}
			}
			var e matcher.Endpoint
			_ = json.Unmarshal(set["endpoint"], &e)
			for _, name := range slices.Sorted(maps.Keys(e.Query)) {
				if slices.Contains(ofForms, strings.ToLower(name)) && slices.Equal(e.Methods, []string{"POST"}) {
					give(fmt.Sprintf("%s is a parameter of the query here, and no field of a form", name), fmt.Sprintf("%s {, endpoint %s, vars {http.rate_limit.form.%s} %s and }, each on a line of its own", o.Option, routing.NewRequests(set), name, e.Query[name]))
				}
			}
			for _, kind := range []string{"client_ip", "remote_ip"} {
				var m struct{ Ranges []string }
				_ = json.Unmarshal(set[kind], &m) // loading reports any error
				for _, word := range m.Ranges {
					network, err := netip.ParsePrefix(word)
					switch wide := isWide(word) && o.Option == "exempt" && network.Bits() > 0; {
					case wide:
						give(fmt.Sprintf("%s is a large part of the Internet, and all of it is exempt", word), fmt.Sprintf("%v/24 in the place of %s", network.Addr(), word))
					case err == nil && network != network.Masked() && !network.Addr().IsLoopback():
						give(fmt.Sprintf("%s is the whole network %v, and not the address %v", word, network.Masked(), network.Addr()), network.Masked().String()+" in the place of "+word+"; or "+network.Addr().String())
					}
				}
			}
			var fields map[string][]string
			_ = json.Unmarshal(set["header"], &fields) // loading reports any error
			for _, field := range slices.Sorted(maps.Keys(fields)) {
				if !strings.HasPrefix(field, "{") && !httpguts.ValidHeaderFieldName(field) {
					give(fmt.Sprintf("no client can send a field %q", field), "header "+strings.Trim(field, ": ")+" in the place of header "+field)
				}
				for _, value := range fields[field] {
					word := strings.Trim(value, "*")
					for _, usual := range spelled[http.CanonicalHeaderKey(field)] {
						if usual != word && strings.EqualFold(word, usual) {
							give(fmt.Sprintf("header compares the case of letters, and clients send %s in %s", usual, field), strings.Replace(value, word, usual, 1)+" in the place of "+value)
						}
					}
					if part := parts[http.CanonicalHeaderKey(field)]; part != nil && part.MatchString(value) && o.Option != "exempt" && (o.Option != "count" || field != "Content-Type") {
						give(fmt.Sprintf("header compares the whole %s, and there is more than %q in it", field, value), fmt.Sprintf("header %[1]s *%[2]s* in the place of header %[1]s %[2]s", field, value))
					}
				}
			}
		}
	}
	return found
}

// isOnlyTop reports whether a zone has a path and nothing below it, where a site has a route for what is below, and none
// for the path.
func isOnlyTop(p *config.Place, z *config.Zone, path string) (below bool) {
	var routes []routing.Requests
	for _, set := range z.MatcherSetsRaw {
		if slices.Contains(routing.NewRequests(set).Paths, path+"/*") {
			return false
		}
	}
	for _, other := range p.View.Places {
		if other.Site == p.Site {
			routes = slices.Concat(append(other.Around, routes)...)
		}
	}
	for _, r := range routes {
		if slices.Contains(r.Paths, path) || slices.Contains(r.Paths, path+"*") {
			return false
		}
		below = below || slices.Contains(r.Paths, path+"/*")
	}
	return below
}

// likelyMethod returns what to write for a word that is no method: the one that it is a misspelling of, if there is one.
func likelyMethod(word string) string {
	for _, m := range methods[:common] {
		if near := typo.Distance(strings.ToUpper(word), m); near <= 1 || near == 2 && len(word) == len(m) {
			return m + " in the place of " + word
		}
	}
	return "another method, or none for all"
}
