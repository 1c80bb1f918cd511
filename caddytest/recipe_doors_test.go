package caddytest

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
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
	Method, Target string
	Wrong          int    // the status that answers a guess
	basic          bool   // by the field Authorization
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
			doors = append(doors, door{cell[1], cell[2], wrong, strings.HasPrefix(row[2], "`Authorization`: "), row[4]})
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
		backends[address] = behind(doors)
	}
	r.backends, r.doors, r.inside = backends, doors, len(doors) > 0 && hasInside()
	return r
}

// behind is software that answers guesses at doors.
func behind(doors []door) standIn {
	return standIn{"/": func(w http.ResponseWriter, r *http.Request) { password(http.StatusOK, wrongAt(doors, r))(w, r) }}
}

// wrongAt returns the status that answers a guess by a request. `forward_auth` asks with the URL of
// the request in a field.
func wrongAt(doors []door, r *http.Request) int {
	for _, d := range doors {
		app, isApp := strings.CutPrefix(d.Target, "https://app.example.com")
		if d.Method == r.Method && d.Target == r.URL.RequestURI() || isApp && r.Header.Get("X-Forwarded-Uri") == app {
			return d.Wrong
		}
	}
	return http.StatusTeapot
}

// tryDoor guesses at a door from an address until the limit is reached.
func (s *recipeServer) tryDoor(from, name string, d door) {
	s.t.Helper()
	zone := regexp.MustCompile(`(?s)zone ` + d.zone + ` \{.*?limit (\d+)/.*?\n\t\t\}`).FindStringSubmatch(readSample(s.t, "../examples/recipes/"+name+".Caddyfile"))
	if zone == nil {
		s.t.Errorf("%s %s: the recipe has no zone %q", d.Method, d.Target, d.zone)
		return
	}
	limit, _ := strconv.Atoi(zone[1])
	target := d.Target
	if strings.HasPrefix(target, "/") {
		target = "https://" + s.hosts[0] + target
	}
	try := func(from string, n, want int, secret string) {
		if d.basic {
			s.send(send(from, n, d.Method+" "+target, want, signedIn("alice", secret)))
		} else {
			s.send(send(from, n, d.Method+" "+target+" secret="+secret, want))
		}
	}
	try(from, limit, d.Wrong, "guess")
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

// rowOf returns the row of a page's table that begins with a cell, as it is read.
func rowOf(t *testing.T, page, cell string) string {
	t.Helper()
	row := regexp.MustCompile(`(?m)^\| ` + cell + `.*\|$`).FindString(readSample(t, "../docs/recipes/"+page+".md"))
	if row == "" {
		t.Fatalf("docs/recipes/%s.md has no row that begins with %q", page, cell)
	}
	return strings.ReplaceAll(row, `\|`, "|")
}

var codeIn = regexp.MustCompile("`([^`]+)`")

// Every door of the servers of language models counts, also those that the page doesn't know, except those that it
// calls free.
func TestRecipeOfLanguageModelsCountsEveryDoor(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("builds a Caddy")
	}
	page := readSample(t, "../docs/recipes/llm.md")
	_, section, _ := strings.Cut(page, "\n## Doors\n")
	section, _, _ = strings.Cut(section, "\n## ")
	i := slices.IndexFunc(recipes, func(r recipe) bool { return r.name == "llm" })
	r := recipes[i]
	r.backends = map[string]standIn{"127.0.0.1:8000": {"/": func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(section, "`"+r.Method+" "+r.URL.Path+"`") && strings.HasPrefix(r.URL.Path, "/v1/") && r.Header.Get("Told") != "" {
			tokens(1000)(w, r)
		} else {
			always(http.StatusOK)(w, r)
		}
	}}}
	s := startRecipe(t, r)
	doors, free := 0, 0
	try := func(line, counts string) {
		from := fmt.Sprintf("198.18.40.%d", doors)
		doors++
		fields := []string{inJSON}
		if strings.HasPrefix(counts, "`usage") {
			fields = append(fields, "Told: yes")
		}
		if strings.Contains(line, "realtime") || strings.Contains(line, "socket") {
			fields = append(fields, "Connection: Upgrade", "Upgrade: websocket")
			transport := newClient().Transport.(*http.Transport)
			transport.TLSClientConfig = &tls.Config{InsecureSkipVerify: true}
			transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) { return s.connect(ctx, from, "443") }
			s.clients[from] = &http.Client{Transport: transport} // by HTTP/1.1, as WebSockets are
		}
		method, path, _ := strings.Cut(line, " ")
		line = method + " https://llm.example.com" + path + " {}"
		if method == http.MethodGet || method == http.MethodHead || method == http.MethodOptions {
			line = strings.TrimSuffix(line, " {}")
		}
		if counts == "nothing" {
			free++
			s.send(send(from, 25, line, http.StatusOK, fields...))
			return
		}
		s.send(send(from, 10, line, http.StatusOK, fields...))
		s.send(send(from, 2, line, http.StatusTooManyRequests, fields...))
	}
	for _, row := range regexp.MustCompile("(?m)^\\| (`[A-Z].*?) \\| (.*) \\|$").FindAllStringSubmatch(section, -1) {
		for _, cell := range doorsCell.FindAllStringSubmatch(row[1], -1) {
			try(cell[1]+" "+cell[2], row[2])
		}
	}
	if doors < 30 || free < 8 {
		t.Errorf("the page has %d doors, %d of them free", doors, free)
	}
	for _, line := range []string{
		"POST /", "POST /v9/unknown", "PUT /v1/responses/1", "DELETE /api/delete", "PATCH /x", "POST /v1/models", "POST /TOKENIZE", "POST /v1/messages/count_tokens/x",
		"POST /tokenize;/v1/completions", "GET /v1/chat/completions?_method=POST", "GET /api/socket", "PROPFIND /v1/completions",
	} {
		try(line, "the estimate")
	}
}

// The tokens of Anthropic's cached prompts count with the line that the page has for its API, in whole answers and in
// streams.
func TestRecipeOfLanguageModelsCountsCachedPrompts(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("builds a Caddy")
	}
	const usage = `"usage":{"input_tokens":3,"cache_creation_input_tokens":1200,"cache_read_input_tokens":700,"output_tokens":1}`
	backend := standIn{"POST /v1/messages": func(w http.ResponseWriter, r *http.Request) {
		if body, _ := io.ReadAll(r.Body); strings.Contains(string(body), "stream") {
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprint(w, "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{"+usage+"}}\n\n"+
				"event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{},\"usage\":{\"output_tokens\":97}}\n\n")
			return
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"type":"message",`+strings.Replace(usage, `"output_tokens":1`, `"output_tokens":97`, 1)+`}`)
	}}
	settle := codeIn.FindStringSubmatch(rowOf(t, "llm", "Anthropic's API"))
	if settle == nil {
		t.Fatal("the row has no line")
	}
	text := regexp.MustCompile(`settle \{.*\}`).ReplaceAllLiteralString(readSample(t, "../examples/recipes/llm.Caddyfile"), settle[1])
	text = strings.Replace(replaceInExample(t, text, "127.0.0.1:8000", backend.start(t)), "llm.example.com", "http://:{$PORT}", 1)
	s := startCaddy(t, options(patient)+text)
	for i, body := range []string{"{}", `{"stream":true}`, "{}"} {
		r, err := http.NewRequest(http.MethodPost, "http://127.0.0.1:"+s.port+"/v1/messages", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		a, err := do(s.client, r, inJSON)
		if left := fmt.Sprintf(`"tokens";r=%d;`, 10_000-2000*i-1000); err != nil || !strings.HasPrefix(a.header.Get("RateLimit"), left) {
			t.Errorf("question %d: %v, %d, %q, want %s", i, err, a.status, a.header.Get("RateLimit"), left)
		}
	}
}

// With the row of the page a batch of sign-ins is refused, and a sign-in isn't.
func TestRecipeOfAccountsRefusesBatches(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("builds a Caddy")
	}
	var zone string
	for _, code := range codeIn.FindAllStringSubmatch(rowOf(t, "accounts", "it takes batches"), -1) {
		zone += code[1] + "\n"
	}
	text := replaceInExample(t, readSample(t, "../examples/recipes/accounts.Caddyfile"), "http.rate_limit.form.user", "http.rate_limit.json.user")
	text = replaceInExample(t, text, "\trate_limit {\n", "\trate_limit {\n"+zone)
	text = replaceInExample(t, text, "127.0.0.1:3000", standIn{"POST /login": password(303, 401)}.start(t))
	s := startCaddy(t, options(patient)+strings.Replace(text, "app.example.com", "http://:{$PORT}", 1))
	for body, want := range map[string]int{
		`{"user":"a","password":"guess"}`: 401, `{"user":"b","password":"wonderland"}`: 303, `{"user":"c","roles":[1]}`: 401,
		`[{"user":"d","password":"1"},{"user":"d","password":"2"}]`: 403, ` [{"user":"e"}]`: 403, "\n\t[{}, {\"user\":\"g\"}]": 403, "\ufeff[{\"user\":\"f\"}]": 403,
	} {
		r, err := http.NewRequest(http.MethodPost, "http://127.0.0.1:"+s.port+"/login", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		if a, err := do(s.client, r, inJSON); err != nil || a.status != want {
			t.Errorf("%s: got %d, %v, want %d", body, a.status, err, want)
		}
	}
}
