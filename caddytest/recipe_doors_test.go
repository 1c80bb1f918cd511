package caddytest

import (
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// A door is a request of a recipe's page that tries a password, a code or a token.
type door struct {
	method, target string
	basic          bool   // by the field Authorization
	wrong          int    // the status that answers a guess
	zone           string // that counts it
}

// protected are the recipes whose pages have a table of doors.
var protected = []string{"authelia", "authentik", "basic-auth", "caldav", "forgejo", "git", "immich", "jellyfin", "nextcloud", "vaultwarden", "wordpress"}

var (
	doorsRow  = regexp.MustCompile("(?m)^\\| (`[A-Z]+ .*?`) \\| ([^|]*) \\| (\\d+) \\| `(\\w+)` \\|$")
	doorsCell = regexp.MustCompile("`([A-Z]+) (.*?)`")
)

// doorsOf returns the doors in the table of a page, and how many rows it has.
func doorsOf(page string) (doors []door, rows int) {
	_, section, _ := strings.Cut(page, "\n## Doors\n")
	section, _, _ = strings.Cut(section, "\n## ")
	for _, row := range doorsRow.FindAllStringSubmatch(section, -1) {
		wrong, _ := strconv.Atoi(row[3])
		for _, cell := range doorsCell.FindAllStringSubmatch(row[1], -1) {
			doors = append(doors, door{cell[1], cell[2], strings.HasPrefix(row[2], "`Authorization`: "), wrong, row[4]})
		}
	}
	return doors, max(strings.Count(section, "\n|")-2, 0)
}

// A guess after the other at each door that a recipe's page names is refused at the limit of the zone
// that it names. Where only wrong ones count, right ones pass.
func TestRecipesCountEveryDoor(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("builds a Caddy")
	}
	for _, name := range protected {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			doors, rows := doorsOf(readSample(t, "../docs/recipes/"+name+".md"))
			if found := doorsRow.FindAllString(readSample(t, "../docs/recipes/"+name+".md"), -1); len(doors) == 0 || len(found) != rows {
				t.Fatalf("the page has %d doors in %d of %d rows", len(doors), len(found), rows)
			}
			s := startRecipe(t, guarded(t, name, doors))
			for i, d := range doors {
				s.tryDoor(fmt.Sprintf("198.18.%d.1", i), name, d)
			}
		})
	}
}

// guarded returns a recipe, with software that answers guesses as the page says.
func guarded(t *testing.T, name string, doors []door) recipe {
	i := slices.IndexFunc(recipes, func(r recipe) bool { return r.name == name })
	if i < 0 {
		t.Fatalf("there is no recipe %q", name)
	}
	r := recipes[i]
	backends := make(map[string]standIn)
	for address := range r.backends {
		backends[address] = standIn{"/": func(w http.ResponseWriter, r *http.Request) { password(http.StatusOK, wrongAt(doors, r))(w, r) }}
	}
	r.backends = backends
	return r
}

// wrongAt returns the status that answers a guess by a request. `forward_auth` asks with the URL of
// the request in a field.
func wrongAt(doors []door, r *http.Request) int {
	for _, d := range doors {
		app, isApp := strings.CutPrefix(d.target, "https://app.example.com")
		if d.method == r.Method && d.target == r.URL.RequestURI() || isApp && r.Header.Get("X-Forwarded-Uri") == app {
			return d.wrong
		}
	}
	return http.StatusTeapot
}

// tryDoor guesses at a door from an address until the limit is reached.
func (s *recipeServer) tryDoor(from, name string, d door) {
	s.t.Helper()
	zone := regexp.MustCompile(`(?s)zone ` + d.zone + ` \{.*?limit (\d+)/.*?\n\t\t\}`).FindStringSubmatch(readSample(s.t, "../examples/recipes/"+name+".Caddyfile"))
	if zone == nil {
		s.t.Errorf("%s %s: the recipe has no zone %q", d.method, d.target, d.zone)
		return
	}
	limit, _ := strconv.Atoi(zone[1])
	target := d.target
	if strings.HasPrefix(target, "/") {
		target = "https://" + s.hosts[0] + target
	}
	try := func(from string, n, want int, secret string) {
		if d.basic {
			s.send(send(from, n, d.method+" "+target, want, signedIn("alice", secret)))
		} else {
			s.send(send(from, n, d.method+" "+target+" secret="+secret, want))
		}
	}
	try(from, limit, d.wrong, "guess")
	try(from, 3, http.StatusTooManyRequests, "guess")
	try(from, 3, http.StatusTooManyRequests, rightPassword)
	if strings.Contains(zone[0], "count status") {
		try(strings.TrimSuffix(from, "1")+"2", limit+3, http.StatusOK, rightPassword)
	}
}

// Passwords that are tried at once, while no answer tells yet that they are wrong, are bounded as well:
// 60 are under way, 100 wait, and the rest is refused.
func TestRecipesBoundGuessesAtOnce(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("builds a Caddy")
	}
	var arrived, refused atomic.Int32
	release := make(chan struct{})
	r := guarded(t, "nextcloud", nil)
	r.backends = map[string]standIn{"127.0.0.1:11000": {"/": func(w http.ResponseWriter, r *http.Request) {
		arrived.Add(1)
		<-release
		w.WriteHeader(http.StatusUnauthorized)
	}}}
	s := startRecipe(t, r)
	client := s.client(attacker)
	var all sync.WaitGroup
	for n := range 200 {
		all.Go(func() {
			request, err := requestOf("GET https://cloud.example.com/ocs/v2.php/cloud/user", []string{signedIn("alice", fmt.Sprint(n))}, n)
			if err != nil {
				t.Error(err)
				return
			}
			if a, err := do(client, request); err != nil || a.status == http.StatusTooManyRequests {
				refused.Add(1)
			}
		})
	}
	waitFor(t, "guesses at once to be refused", func() bool { return refused.Load() >= 40 && arrived.Load() >= 60 || arrived.Load() > 60 })
	if n := arrived.Load(); n != 60 {
		t.Errorf("%d guesses are under way, want 60", n)
	}
	close(release)
	all.Wait()
	if n := arrived.Load(); n >= 120 {
		t.Errorf("%d guesses came through, want fewer than 120", n)
	}
}
