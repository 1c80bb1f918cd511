package proposal

import (
	"cmp"
	"context"
	"net/http"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/accesslog"
)

// traffic is what a log says of a site. Crowds are of its people.
type traffic struct {
	requests int64
	crawled  use             // by crawlers that collect text for AI
	all      use             // of anything
	deep     use             // of anything but the first page
	programs map[string]*use // by name: of their paths
	posts    map[string]*use // by path, for what isn't GET
	apis     map[string]*use // by pattern
	folders  map[string]*use // by pattern
	proxies  map[string]*proxy
}

// use is who asked for something.
type use struct{ by map[int]share }

// share is what a client's requests for something took.
type share struct {
	requests, failed, bytes int64
	took                    time.Duration
}

// proxy is the peer of requests that say whom they are for.
type proxy struct {
	requests int64
	clients  map[string]bool // at most manyClients
}

const (
	maxPaths    = 5000 // of each kind, per site
	manyClients = 10   // of a proxy
	manyPeople  = 5    // who would know a program's paths
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
	err = eachRecord(ctx, log, func(r *accesslog.Record) {
		switch s := siteOf(d.sites, cmp.Or(r.Host, d.host)); {
		case s != nil:
			s.traffic.note(r, d.people)
		case r.Host == "":
			nameless++
		default:
			others++
		}
	})
	return others, nameless, err
}

// siteOf returns the site of a host: one that serves something rather than one that redirects, and one with a
// name rather than one for all.
func siteOf(sites []*site, host string) (found *site) {
	for _, s := range sites {
		if n := s.has(host); n > 0 && (found == nil || s.serves && (!found.serves || n > found.has(host))) {
			found = s
		}
	}
	return found
}

// isCrawled reports whether a request is a crawler's for AI, whose demand no limit is made for.
func isCrawled(r *accesslog.Record) bool { return crawlers.MatchString(r.Value("User-Agent")) }

func (t *traffic) note(r *accesslog.Record, p *people) {
	t.requests++
	if client := cmp.Or(r.Value("X-Forwarded-For"), r.Value("Cf-Connecting-Ip")); client != "" &&
		r.ClientIP == r.RemoteIP {
		t.forwarded(strings.Clone(r.RemoteIP), strings.Clone(client))
	}
	if isCrawled(r) {
		t.crawled.add(p.id(r), r)
	}
	id, ok := p.of(r)
	if !ok {
		return
	}
	t.all.add(id, r)
	uri, _, _ := strings.Cut(r.URI, "?")
	if !plain.MatchString(uri) || r.Status == http.StatusNotFound || r.Status == http.StatusMethodNotAllowed {
		return // also what attackers look for and the site doesn't have
	}
	if uri = path.Clean(uri); uri != "/" {
		t.deep.add(id, r)
	}
	for i := range programs {
		if programs[i].has(r.Method, uri) {
			add(&t.programs, programs[i].name, id, r)
		}
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead && r.Method != http.MethodOptions {
		add(&t.posts, uri, id, r)
	}
	if found := api.FindStringSubmatch(uri); found != nil {
		add(&t.apis, found[1]+"/*", id, r)
	}
	folder := accesslog.Record{URI: uri}
	add(&t.folders, item.ReplaceAllString(folder.Folder(), "/*"), id, r)
}

func (t *traffic) forwarded(peer, client string) {
	p := t.proxies[peer]
	if p == nil {
		if t.proxies == nil {
			t.proxies = make(map[string]*proxy)
		}
		if len(t.proxies) == maxPaths {
			return
		}
		p = &proxy{clients: make(map[string]bool)}
		t.proxies[peer] = p
	}
	if p.requests++; len(p.clients) < manyClients {
		p.clients[client] = true
	}
}

// add adds a request to what a path is used for. If there are too many paths, those of the fewest clients are
// dropped: who invents paths must not hide what people use.
func add(all *map[string]*use, path string, id int, r *accesslog.Record) {
	u := (*all)[path]
	if u == nil {
		if *all == nil {
			*all = make(map[string]*use)
		}
		if len(*all) == maxPaths {
			order := byUse(*all)
			for _, rare := range order[len(order)/2:] {
				delete(*all, rare)
			}
		}
		u = new(use)
		(*all)[strings.Clone(path)] = u
	}
	u.add(id, r)
}

// byUse returns the keys, those of the most clients first.
func byUse(all map[string]*use) (keys []string) {
	for key := range all {
		keys = append(keys, key)
	}
	slices.SortFunc(keys,
		func(a, b string) int { return cmp.Or(cmp.Compare(len(all[b].by), len(all[a].by)), cmp.Compare(a, b)) })
	return keys
}

func (u *use) add(id int, r *accesslog.Record) {
	if u.by == nil {
		u.by = make(map[int]share)
	}
	s := u.by[id]
	s.requests++
	if r.Status == http.StatusUnauthorized || r.Status == http.StatusForbidden {
		s.failed++
	}
	if r.Status != http.StatusSwitchingProtocols { // which lasts as long as its client wants
		s.bytes += r.Size
		s.took += time.Duration(r.Duration)
	}
	u.by[id] = s
}

// crowd counts the clients of a use whose share is as wanted, all if wanted is nil; none of those that crawl as a
// crowd.
func (u *use) crowd(p *people, wanted func(share) bool) crowd {
	if u == nil {
		return crowd{}
	}
	return p.crowd(func(yield func(int) bool) {
		for id, s := range u.by {
			if !p.known[id].crawls && (wanted == nil || wanted(s)) {
				yield(id)
			}
		}
	})
}
