package proposal

import (
	"cmp"
	"context"
	"io"
	"net/http"
	"regexp"
	"strings"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/accesslog"
)

// traffic is what a log says of a site.
type traffic struct {
	requests  int64
	hidden    int64            // through a proxy that isn't trusted, so that its clients look like one
	crawled   int64            // by crawlers that collect text for AI
	posts     map[string]*work // by path; never GET
	folders   map[string]*work // by pattern
	forwarder string           // the address of such a proxy
}

// work is what requests took.
type work struct {
	requests, failed, bytes int64
	took                    time.Duration
}

const (
	maxPaths = 2000 // of each kind, per site
	enough   = 20   // requests from which they count as traffic
)

var (
	crawlers = regexp.MustCompile(crawlerNames)
	plain    = regexp.MustCompile(`^/[\w./-]{0,100}$`) // a path that a Caddyfile can have as a word
)

// item matches what is of one thing in a pattern, from its number or its hexadecimal name on.
var item = regexp.MustCompile(`/(?:\d+|[0-9A-Fa-f-]{16,})/.*`)

// crawlerNames are those of the recipe ai-crawlers.
const crawlerNames = `(?i)GPTBot|ChatGPT|OAI-SearchBot|Claude|anthropic|CCBot|Bytespider|Amazonbot|Perplexity|meta-external|Diffbot|PetalBot|TikTokSpider|AI2Bot`

// readTraffic reads logs, and returns the number of requests of none of the sites, and of those without a host.
func (d *draft) readTraffic(ctx context.Context, log *accesslog.Merger) (others, nameless int64, err error) {
	defer log.Close()
	for {
		r, err := log.Next()
		if err == io.EOF {
			return others, nameless, nil
		}
		if err = cmp.Or(err, ctx.Err()); err != nil {
			return others, nameless, err
		}
		switch s := siteOf(d.sites, cmp.Or(r.Host, d.host)); {
		case s != nil:
			s.traffic.note(r)
		case r.Host == "":
			nameless++
		default:
			others++
		}
	}
}

// siteOf returns the site of a host: one that serves something rather than one that redirects, and one with a
// name rather than one for all.
func siteOf(sites []*site, host string) (found *site) {
	for _, s := range sites {
		if s.has(host) && (found == nil || s.serves && (!found.serves || found.hosts[0] == "")) {
			found = s
		}
	}
	return found
}

// isCrawled reports whether a request is a crawler's for AI, whose demand no limit is made for.
func isCrawled(r *accesslog.Record) bool { return crawlers.MatchString(r.Value("User-Agent")) }

func (t *traffic) note(r *accesslog.Record) {
	t.requests++
	if r.ClientIP == r.RemoteIP && (r.Value("X-Forwarded-For") != "" || r.Value("Cf-Connecting-Ip") != "") {
		t.hidden++
		t.forwarder = strings.Clone(r.RemoteIP)
	}
	if isCrawled(r) {
		t.crawled++
	}
	path, _, _ := strings.Cut(r.URI, "?")
	if !plain.MatchString(path) || r.Status == http.StatusNotFound || r.Status == http.StatusMethodNotAllowed {
		return // also what attackers look for and the site doesn't have
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead && r.Method != http.MethodOptions {
		t.posts = add(t.posts, path, r)
	}
	t.folders = add(t.folders, item.ReplaceAllString(r.Folder(), "/*"), r)
}

// add adds a request to the work of a path.
func add(all map[string]*work, path string, r *accesslog.Record) map[string]*work {
	w := all[path]
	if w == nil {
		if len(all) >= maxPaths {
			return all
		}
		if all == nil {
			all = make(map[string]*work)
		}
		w = new(work)
		all[strings.Clone(path)] = w
	}
	w.requests++
	if r.Status == http.StatusUnauthorized || r.Status == http.StatusForbidden {
		w.failed++
	}
	if r.Status != http.StatusSwitchingProtocols { // which lasts as long as its client wants
		w.bytes += r.Size
		w.took += time.Duration(r.Duration)
	}
	return all
}
