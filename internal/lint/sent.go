package lint

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/caddy-tally/caddy-tally/internal/advice"
	"github.com/caddy-tally/caddy-tally/internal/config"
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
	segmentPattern = regexp.MustCompile(`/(:\w[^/]*|<[^/>]+>)`)
	pathPattern    = regexp.MustCompile(segmentPattern.String() + `|\([^/)]*\|[^/)]*\)|\$$|\\[dws]|[\])]\+`)
)

// programName matches the name of a program alone. Programs send versions, and crawlers addresses, with it.
var programName = regexp.MustCompile(`^\w*[A-Z][\w-]+$`)

// checkSent asks whether anybody sends what a matcher waits for.
func checkSent(p *config.Place) (found []advice.Advice) {
	for _, o := range p.Sets() {
		give := func(problem, fix string) { found = append(found, o.Advice(o.Option+": "+problem, fix)) }
		for _, set := range config.WithNegated(o.ModuleMap) {
			r := routing.NewRequests(set)
			for _, method := range r.Methods {
				if fix := "no method, for all of them"; !slices.Contains(methods, strings.ToUpper(method)) {
					if i := slices.IndexFunc(methods[:common], func(m string) bool { return 2*typo.Distance(strings.ToUpper(method), m) <= len(m) }); i >= 0 {
						fix = methods[i]
					}
					give(fmt.Sprintf("no client sends the method %s", method), fix)
				}
			}
			for _, path := range r.Paths {
				if fix := segmentPattern.ReplaceAllString(path, "/*"); pathPattern.MatchString(path) {
					if pathPattern.MatchString(fix) {
						fix = "a path for each, with * for any text; or path_regexp in a block of matchers"
					}
					give(fmt.Sprintf("%s is a pattern of other programs: here it is only the path that reads so", path), fix)
				}
			}
			var fields map[string][]string
			_ = json.Unmarshal(set["header"], &fields) // loading reports any error
			for _, field := range slices.Sorted(maps.Keys(fields)) {
				if !strings.HasPrefix(field, "{") && !httpguts.ValidHeaderFieldName(field) {
					give(fmt.Sprintf("no client can send a field %q", field), "header "+strings.Trim(field, ": ")+", without anything behind the name")
				}
				for _, value := range fields[field] {
					if strings.EqualFold(field, "User-Agent") && programName.MatchString(value) && o.Option != "exempt" {
						give(fmt.Sprintf("header is a whole User-Agent, and that of a program has more than %q in it", value), "header User-Agent *"+value+"*")
					}
				}
			}
		}
	}
	return found
}
