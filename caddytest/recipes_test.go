package caddytest

import (
	"path/filepath"
	"strings"
	"testing"
)

// Addresses of clients.
const (
	person   = "203.0.113.10"
	neighbor = "203.0.113.20"
	attacker = "203.0.113.66"
)

// answersOf has header fields of answers that the software gives, by pattern of a
// standIn.
var answersOf = map[string]map[string]string{}

var recipes = []recipe{{
	name: "jellyfin",
	backends: map[string]standIn{"127.0.0.1:8096": {
		"POST /Users/AuthenticateByName":           password(200, 401),
		"POST /emby/Users/AuthenticateByName":      password(200, 401),
		"POST /Users/AuthenticateWithQuickConnect": password(200, 401),
		"GET /QuickConnect/Connect":                always(200),
		"GET /web/":                                always(200),
		"GET /System/Info/Public":                  always(200),
		"GET /Users/{user}/Items":                  always(200),
		"GET /Items/{item}/Images/Primary":         always(200),
		"GET /videos/{item}/hls1/main/{segment}":   always(200),
		"POST /Sessions/Playing/Progress":          always(204),
	}},
	traffic: []wave{
		send(person, 60, "GET https://jellyfin.example.com/web/{n}.chunk.js", 200),
		send(person, 1, "GET https://jellyfin.example.com/System/Info/Public", 200),
		send(person, 2, `POST https://jellyfin.example.com/Users/AuthenticateByName {"Username":"alice","Pw":"mistyped"}`, 401),
		send(person, 1, `POST https://jellyfin.example.com/Users/AuthenticateByName {"Username":"alice","Pw":"wonderland"}`, 200),
		send(person, 60, "GET https://jellyfin.example.com/QuickConnect/Connect?secret=a", 200), // a television asks until the code is accepted
		send(person, 600, "GET https://jellyfin.example.com/Items/{n}/Images/Primary?maxHeight=300", 200),
		send(person, 300, "GET https://jellyfin.example.com/videos/a/hls1/main/{n}.ts", 200),
		send(person, 60, "POST https://jellyfin.example.com/Sessions/Playing/Progress {}", 204),
		send(attacker, 10, `POST https://jellyfin.example.com/Users/AuthenticateByName {"Username":"alice","Pw":"guess {n}"}`, 401),
		send(attacker, 20, `POST https://jellyfin.example.com/Users/AuthenticateByName {"Username":"alice","Pw":"wonderland"}`, 429),
		send(attacker, 5, `POST https://jellyfin.example.com/users/authenticatebyname {"Username":"alice","Pw":"wonderland"}`, 429),
		send(attacker, 5, `POST https://jellyfin.example.com/emby/Users/AuthenticateByName {"Username":"alice","Pw":"wonderland"}`, 429),
		send(attacker, 10, "GET https://jellyfin.example.com/Items/{n}/Images/Primary", 200),
		send(neighbor, 1, `POST https://jellyfin.example.com/Users/AuthenticateByName {"Username":"bob","Pw":"wonderland"}`, 200),
	},
}}

// Every recipe lets normal use through entirely, and refuses what its page says. The
// commands on the page show what it says they show.
func TestRecipes(t *testing.T) {
	if testing.Short() {
		t.Skip("builds a Caddy")
	}
	for _, r := range recipes {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			k := cook(t, r)
			k.try(readSample(t, "../docs/recipes/"+r.name+".md"))
			for _, w := range r.traffic {
				k.send(w)
			}
			if r.after != nil {
				r.after(k)
			}
		})
	}
}

// Every Caddyfile of examples/recipes has a page that shows it, a line in the index of
// recipes, and traffic.
func TestRecipesHavePages(t *testing.T) {
	index := readSample(t, "../docs/recipes/README.md")
	cooked := make(map[string]bool)
	for _, r := range recipes {
		cooked[r.name] = true
	}
	for _, path := range glob(t, "../examples/recipes/*.Caddyfile") {
		name := strings.TrimSuffix(filepath.Base(path), ".Caddyfile")
		if !cooked[name] {
			t.Errorf("%s: there is no recipe %q in the test", path, name)
		}
		if !strings.Contains(index, "]("+name+".md)") {
			t.Errorf("docs/recipes/README.md doesn't list %s.md", name)
		}
		page := readSample(t, "../docs/recipes/"+name+".md")
		if shown, want := firstBlock(page), withoutHead(readSample(t, path)); shown != want {
			t.Errorf("docs/recipes/%s.md: the first block must be examples/recipes/%[1]s.Caddyfile, got\n%s\nwant\n%s", name, shown, want)
		}
		if !strings.Contains(page, "](../../examples/recipes/"+name+".Caddyfile)") {
			t.Errorf("docs/recipes/%s.md: there is no link to the Caddyfile", name)
		}
	}
	if files := glob(t, "../examples/recipes/*.Caddyfile"); len(files) != len(recipes) {
		t.Errorf("there are %d recipes in the test, and %d files", len(recipes), len(files))
	}
}

func firstBlock(page string) string {
	if m := sampleFence.FindStringSubmatch(page); m != nil {
		return m[1]
	}
	return ""
}

// withoutHead returns a Caddyfile without the comment it begins with.
func withoutHead(text string) string {
	for strings.HasPrefix(text, "#") {
		_, text, _ = strings.Cut(text, "\n")
	}
	return text
}
