package replay

import (
	"fmt"
	"hash/maphash"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/caddy-tally/caddy-tally/identity"
	"github.com/caddy-tally/caddy-tally/internal/accesslog"
	"github.com/caddy-tally/caddy-tally/limiter"
)

// survey counts all requests of a log, regardless of the config, for zones that the config might
// add.
type survey struct {
	seed  maphash.Seed
	key   []byte // of the request
	all   *series
	paths map[string]*series // by path that answers POST with 401 or 403
	fails map[string]int64
}

const (
	maxSurveyed = 16  // paths
	manyFails   = 100 // failures of a path that justify a suggestion
)

// aTrial returns a limit per address that refuses nothing.
func aTrial(zone string, window time.Duration) *Limit {
	l, err := limiter.New(limiter.Params{Amount: limiter.MaxAmount, Window: window})
	if err != nil {
		panic(err) // the window is a constant
	}
	return &Limit{Zone: zone, Name: zone, Rate: l, Counts: true}
}

func newSurvey(seed maphash.Seed) *survey {
	s := &survey{seed: seed, paths: make(map[string]*series), fails: make(map[string]int64)}
	s.all = s.series(aTrial("all", time.Minute))
	return s
}

func (s *survey) series(l *Limit) *series {
	sr := newSeries(l, s.seed)
	sr.demand.amounts, sr.demand.refused = nil, nil
	return sr
}

func (s *survey) note(r *accesslog.Record, now int64) {
	s.key = appendAddress(s.key[:0], r.ClientIP)
	c := Count{Key: s.key, Cost: 1}
	s.all.count(&c, r, now)
	if r.Method != http.MethodPost {
		return
	}
	path, _, _ := strings.Cut(r.URI, "?")
	trial := s.paths[path]
	if failed := r.Status == http.StatusUnauthorized || r.Status == http.StatusForbidden; failed {
		if trial == nil && len(s.paths) < maxSurveyed && len(path) <= maxAgent && isPlain(path) {
			path = strings.Clone(path)
			trial = s.series(aTrial(path, 10*time.Minute))
			s.paths[path] = trial
		}
		if trial != nil {
			s.fails[path]++
		}
	}
	if trial != nil {
		trial.count(&c, r, now)
	}
}

// appendAddress appends the key that a zone per ip has for a client by default, or any other text as it is.
func appendAddress(key []byte, client string) []byte {
	addr, err := netip.ParseAddr(client)
	if err != nil {
		return append(key, client...)
	}
	addr = addr.Unmap().WithZone("")
	network, _ := addr.Prefix(min(addr.BitLen(), 64)) // the address has as many bits
	return identity.AppendPrefix(append(key, identity.TagNetwork), network)
}

// isPlain reports whether a path can be written into a Caddyfile unquoted.
func isPlain(path string) bool {
	return strings.HasPrefix(path, "/") && strings.IndexFunc(path, func(c rune) bool {
		return c != '/' && c != '-' && c != '_' && c != '.' && (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z')
	}) < 0
}

// zoneName makes a zone's name from a path: wp-login.php from /wp-login.php.
func zoneName(path string) string {
	name := strings.Trim(path, "/")
	if i := strings.LastIndexByte(name, '/'); i >= 0 {
		name = name[i+1:]
	}
	if name == "" {
		return "posts"
	}
	return name
}

// suggestions returns zones for traffic in the log that no zone of the config covers.
func (s *survey) suggestions(zones map[string]bool, reveal bool) (list []Suggestion) {
	if sg := s.all.suggest(reveal); sg.Amount > 0 && len(zones) == 0 {
		sg.Now = 0
		sg.Reason = "Any request, per address: " + sg.Reason
		sg.Lines = lines("all", "", []Suggestion{*sg})
		list = append(list, *sg)
	}
	var paths []string
	for path, fails := range s.fails {
		if fails >= manyFails && !zones[zoneName(path)] {
			paths = append(paths, path)
		}
	}
	slices.Sort(paths)
	for _, path := range paths {
		sg := s.paths[path].suggest(reveal)
		if sg.Amount == 0 {
			sg = s.paths[path].suggestion(amountForPeople, "Too few clients pass to see what they want, so this is what people need who mistype.")
		}
		sg.Zone = nameAmong(paths, path, list)
		sg.Now, sg.Limit = 0, sg.Zone
		sg.Reason = fmt.Sprintf("POST %s was answered with 401 or 403 %d times. ", path, s.fails[path]) + sg.Reason
		sg.Lines = fmt.Sprintf("zone %s {\n\tmatch POST %s\n\tlimit %d/%s\n}\n", sg.Zone, path, sg.Amount, sg.Window)
		list = append(list, *sg)
	}
	return list
}

// amountForPeople is how often a person who forgot a password tries to log in within ten minutes.
const amountForPeople = 5

// nameAmong returns a zone's name for a path that differs from those of other paths and of the
// zones suggested so far.
func nameAmong(paths []string, path string, suggested []Suggestion) string {
	name := zoneName(path)
	if slices.ContainsFunc(paths, func(other string) bool { return other != path && zoneName(other) == name }) {
		name = strings.ReplaceAll(strings.Trim(path, "/"), "/", "-")
	}
	for slices.ContainsFunc(suggested, func(sg Suggestion) bool { return sg.Zone == name }) {
		name += "-2"
	}
	return name
}
