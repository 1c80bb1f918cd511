package caddytest

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddy-tally/caddy-tally/internal/operator"
)

// What the requests of the last minutes share: their paths, programs, networks, countries, providers and clients, how
// many were refused of each, and how many let in; and the same of those that share one thing already.
func TestWhatRequestsShare(t *testing.T) {
	t.Parallel()
	file, err := filepath.Abs(networksFile)
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Replace(config(`
		exempt path /limits/*
		zone login {
			match /login
			limit 2/1h
		}`), "rate_limit {", "rate_limit {\nnetworks "+file, 1)
	text = strings.Replace(text, "respond hello", "handle_path /limits/* {\nrate_limit_dashboard {\nallow remote_ip 127.0.0.1\n}\n}\nrespond hello", 1)
	s := startCaddy(t, text)
	// At most ten of either kind, all of which are sampled however fast they come.
	for _, r := range []struct {
		client          int
		path, agent     string
		letIn, refusals int
	}{
		{1, "/login", "Bot/1", 2, 3}, {2, "/login", "Browser/2", 2, 1}, {17, "/login", "Bot/1", 2, 4}, {40, "/about/x/y/z", "Browser/2", 3, 0},
	} {
		s.wantPassed(r.letIn, r.letIn+r.refusals, r.path, from(r.client), "User-Agent: "+r.agent)
	}
	admin := operator.NewRemote("tcp", s.admin)
	for _, tt := range []struct {
		q    operator.RefusalsQuery
		want string // refusals/let in, then those of paths, agents, networks, countries, providers
	}{
		{operator.RefusalsQuery{}, "8/9 | /login 8/6, /about/x/y/… 0/3 | Bot/1 7/4, Browser/2 1/5 | 192.0.2.0/24 8/9 | DE 4/4, FR 4/2 | AS64496 4/4, AS64500 4/2"},
		{operator.RefusalsQuery{Zone: "login"}, "8/6 | /login 8/6 | Bot/1 7/4, Browser/2 1/2 | 192.0.2.0/24 8/6 | DE 4/4, FR 4/2 | AS64496 4/4, AS64500 4/2"},
		{operator.RefusalsQuery{Country: "DE", Agent: "Bot/1"}, "3/2 | /login 3/2 | Bot/1 3/2 | 192.0.2.0/24 3/2 | DE 3/2 | AS64496 3/2"},
		{operator.RefusalsQuery{Provider: "AS64500"}, "4/2 | /login 4/2 | Bot/1 4/2 | 192.0.2.0/24 4/2 | FR 4/2 | AS64500 4/2"},
		{operator.RefusalsQuery{Network: "192.0.2.0/24", Path: "/about/x/y/…"}, "0/3 | /about/x/y/… 0/3 | Browser/2 0/3 | 192.0.2.0/24 0/3 |  | "},
		{operator.RefusalsQuery{Client: "192.0.2.17"}, "4/2 | /login 4/2 | Bot/1 4/2 | 192.0.2.0/24 4/2 | FR 4/2 | AS64500 4/2"},
		{operator.RefusalsQuery{Client: "192.0.2.2", Path: "/login"}, "1/2 | /login 1/2 | Browser/2 1/2 | 192.0.2.0/24 1/2 | DE 1/2 | AS64496 1/2"},
		{operator.RefusalsQuery{Text: "browser"}, "1/5 | /login 1/2, /about/x/y/… 0/3 | Browser/2 1/5 | 192.0.2.0/24 1/5 | DE 1/2 | AS64496 1/2"},
		{operator.RefusalsQuery{Text: "192.0.2.17"}, "0/0 |  |  |  |  | "}, // addresses aren't in it
	} {
		got, err := admin.Refusals(t.Context(), tt.q)
		parts := []string{fmt.Sprintf("%d/%d", got.Sampled, got.LetIn)}
		for _, shares := range [][]operator.RefusedShare{got.Paths, got.Agents, got.Networks, got.Countries, got.Providers} {
			parts = append(parts, sharesText(shares))
		}
		if text := strings.Join(parts, " | "); err != nil || text != tt.want {
			t.Errorf("%+v: got %s (%v)\nwant %s", tt.q, text, err, tt.want)
		}
	}
	// From a path to its clients, and from a client, by its tag, back to its paths.
	all, err := admin.Refusals(t.Context(), operator.RefusalsQuery{Path: "/login"})
	if err != nil || len(all.Clients) != 3 {
		t.Fatalf("the clients of a path: got %+v, %v", all.Clients, err)
	}
	for i, want := range []operator.RefusedShare{{Refused: 4, LetIn: 2}, {Refused: 3, LetIn: 2}, {Refused: 1, LetIn: 2}} {
		c := all.Clients[i]
		if c.Refused != want.Refused || c.LetIn != want.LetIn || c.Text != "192.0.2.0/24" || c.Tag == "" {
			t.Errorf("client %d: got %+v, want %+v", i, c, want)
		}
		its, err := admin.Refusals(t.Context(), operator.RefusalsQuery{Client: "tag:" + c.Tag})
		if err != nil || its.Sampled != c.Refused || its.LetIn != c.LetIn || len(its.Clients) != 1 {
			t.Errorf("the requests of client %d: got %+v, %v", i, its, err)
		}
	}
	// The dashboard says the same.
	page := s.get("/limits/requests?country=FR").body
	for _, want := range []string{"<b>4</b>", "<b>2</b>", `4 <span class="muted">refused, 2 let in</span>`, "path=%2Flogin", "AS64500"} {
		if !strings.Contains(page, want) {
			t.Errorf("the dashboard lacks %s:\n%s", want, page)
		}
	}
	s.wantCommand(t, 0, []string{"refusals", "--country", "FR", "--path", "/login"}, "REFUSED  LET IN  COUNTRY\n      4       2  FR", "AS64500")
	s.wantCommand(t, 1, []string{"refusals", "--path", "/about/x/y/…"}, "Of 3 sampled requests like that in the last 15 minutes, all were let in.")
	s.wantCommand(t, 1, []string{"refusals", "--client", "tag:abcdef01"}, "no client with the tag")
}

// A client's requests are those that any zone counts for it, also where another refuses them and in shadow; a text that
// a client wrote isn't an address.
func TestRequestsOfAClientInSeveralZones(t *testing.T) {
	t.Parallel()
	s := startCaddy(t, config(`
		zone address {
			limit 2/1h
		}
		zone name {
			per key {http.request.header.X-Name}
			on_empty_key skip
			limit 100/1h
		}
		zone tried {
			shadow
			per key {http.request.header.X-Other}
			limit 1/1h
		}`))
	s.wantPassed(2, 5, "/", from(1), "X-Name: alice")
	s.wantPassed(2, 3, "/", from(2), "X-Name: 192.0.2.9", "X-Other: bob") // not that address
	admin := operator.NewRemote("tcp", s.admin)
	for _, tt := range []struct {
		q              operator.RefusalsQuery
		refused, letIn int
	}{
		{operator.RefusalsQuery{Client: "192.0.2.1"}, 3, 2},
		{operator.RefusalsQuery{Client: "key:alice"}, 3, 2},
		{operator.RefusalsQuery{Client: "key:alice", Zone: "address"}, 3, 2},
		{operator.RefusalsQuery{Client: "key:alice", Zone: "name"}, 0, 2},
		{operator.RefusalsQuery{Client: "192.0.2.9"}, 0, 0},
		{operator.RefusalsQuery{Client: "key:192.0.2.9"}, 1, 2},
		{operator.RefusalsQuery{Client: "key:bob", Zone: "tried"}, 0, 2},
		{operator.RefusalsQuery{Zone: "tried", Client: "192.0.2.2"}, 0, 2},
	} {
		got, err := admin.Refusals(t.Context(), tt.q)
		if err != nil || got.Sampled != tt.refused || got.LetIn != tt.letIn {
			t.Errorf("%+v: got %d refused and %d let in, %v, want %d and %d", tt.q, got.Sampled, got.LetIn, err, tt.refused, tt.letIn)
		}
	}
}

func sharesText(shares []operator.RefusedShare) string {
	var texts []string
	for _, s := range shares {
		texts = append(texts, fmt.Sprintf("%s %d/%d", s.Text, s.Refused, s.LetIn))
	}
	return strings.Join(texts, ", ")
}
