package caddytest

import (
	"slices"
	"strings"
	"testing"

	"github.com/caddy-tally/caddy-tally/internal/operator"
)

// Clients of one network looked alike wherever addresses are masked: now each has a tag, the same in
// all lists, in the API and on the dashboard, and in the placeholder.
func TestClientsOfOneNetworkAreToldApart(t *testing.T) {
	t.Parallel()
	s := startCaddy(t, options("rate_limit {\nstore_timeout 10s\n}"+trusting)+site(`
		handle_path /limits/* {
			rate_limit_dashboard {
				allow client_ip 127.0.0.1
			}
		}
		rate_limit {
			zone login {
				match /login
				limit 2/1h
				limit 5/24h name daily
			}
			zone client {
				match /login
				per client
				limit 100/1h
			}
		}
		respond {http.rate_limit.client}`))
	addresses := []string{"203.0.113.7", "203.0.113.77"}
	var names []string
	for _, address := range addresses {
		from := "X-Forwarded-For: " + address
		answer := s.get("/login", from, "User-Agent: Probe/1.0")
		names = append(names, answer.body)
		s.wantPassed(1, 3, "/login?password=hunter2", from, "User-Agent: Probe/1.0")
	}
	admin := operator.NewRemote("tcp", s.admin)
	tags := tagsOf(t, admin, addresses)

	refusals, err := admin.Refusals(t.Context(), operator.RefusalsQuery{Zone: "login"})
	if err != nil || refusals.Sampled != 4 || refusals.LetIn != 4 || len(refusals.Latest) != 2 {
		t.Fatalf("got %+v, %v", refusals, err)
	}
	for i, r := range refusals.Latest { // the last one first
		if r.Tag != tags[1-i] || r.Times != 2 || r.Text != "203.0.113.0/24" || r.Path != "/login" {
			t.Errorf("got %+v, want a refusal of %s", r, tags[1-i])
		}
	}
	if len(refusals.Paths) != 1 || refusals.Paths[0] != (operator.RefusedShare{Text: "/login", Refused: 4, LetIn: 4}) || refusals.Agents[0].Text != "Probe/1.0" {
		t.Errorf("got %+v", refusals)
	}
	pages := s.get("/limits/").body + s.get("/limits/clients").body
	if strings.Contains(pages, addresses[1]) || strings.Contains(pages, "hunter2") {
		t.Error("the dashboard shows an address or a query")
	}
	for _, tag := range tags {
		if strings.Count(pages, tag) < 3 {
			t.Errorf("the dashboard shows the tag %s %d times", tag, strings.Count(pages, tag))
		}
		s.wantCommand(t, 0, words("top login"), tag)
		s.wantCommand(t, 0, words("blocked"), tag)
		s.wantCommand(t, 0, words("refusals"), tag, "Probe/1.0", "/login")
	}

	s.wantCommand(t, 0, words("explain tag:"+tags[0]), addresses[0], "Tag: "+tags[0])
	s.wantCommand(t, 1, words("explain tag:abcdef01"), "no client with the tag")
	s.wantCommand(t, 0, words("ban tag:"+tags[1]), addresses[1]+" is banned")
	s.wantCommand(t, 0, words("bans"), tags[1], addresses[1])
	s.wantCommand(t, 0, words("explain tag:"+strings.ToUpper(tags[0])), addresses[0])
	if !slices.ContainsFunc(names, func(name string) bool { return len(name) == 32 }) {
		t.Fatalf("the placeholder is %q", names)
	}
	s.wantCommand(t, 0, words("explain tag:"+names[0]), addresses[0])
}

// tagsOf returns the tags that lists have for addresses, which must be the same in all limits, and
// different ones.
func tagsOf(t *testing.T, s operator.Service, addresses []string) []string {
	t.Helper()
	keys, err := s.Keys(t.Context(), operator.KeysQuery{Zone: "login"})
	if err != nil {
		t.Fatal(err)
	}
	tags := make([]string, len(addresses))
	for _, k := range keys {
		i := slices.Index(addresses, k.Client)
		if i < 0 || len(k.Tag) != 6 || tags[i] != "" && tags[i] != k.Tag {
			t.Fatalf("got %+v after the tags %q", k, tags)
		}
		tags[i] = k.Tag
	}
	if len(keys) != 4 || tags[0] == tags[1] {
		t.Fatalf("%d keys have the tags %q", len(keys), tags)
	}
	return tags
}

// Undoing a ban by an operator leaves what the client's conduct has earned, which unban forgives.
func TestUndoOfABanKeepsViolations(t *testing.T) {
	t.Parallel()
	s := startCaddy(t, options("rate_limit {\nstore_timeout 10s\n}"+trusting)+site(`
		rate_limit {
			trap ban 1h path /wp-login.php
			zone login {
				match /login
				limit 1/1h
			}
		}
		respond hello`))
	const visitor = "203.0.113.9"
	s.get("/wp-login.php", "X-Forwarded-For: "+visitor)
	admin := operator.NewRemote("tcp", s.admin)
	command := operator.Command{Client: visitor, For: 7200}
	if done, err := admin.Do(t.Context(), operator.Ban, command); err != nil || len(done.Notes) != 0 {
		t.Fatalf("got %+v, %v", done, err)
	}
	if done, err := admin.Do(t.Context(), operator.Ban, command); err != nil || len(done.Notes) != 1 || !strings.Contains(done.Notes[0], "in the place of an earlier one that had 2 hours left") {
		t.Errorf("got %+v, %v, want a note about the earlier ban", done, err)
	}
	command.KeepViolations = true
	if _, err := admin.Do(t.Context(), operator.Unban, command); err != nil {
		t.Fatal(err)
	}
	bans, err := admin.Bans(t.Context())
	if err != nil || len(bans) != 1 || bans[0].By != "conduct" || bans[0].Client != visitor {
		t.Errorf("after undoing got %+v, %v, want the ban for its conduct", bans, err)
	}
	if _, err := admin.Do(t.Context(), operator.Unban, command); err == nil || !strings.Contains(err.Error(), "isn't banned by an operator") {
		t.Errorf("undoing it again: %v", err)
	}
	command.KeepViolations = false
	if _, err := admin.Do(t.Context(), operator.Unban, command); err != nil {
		t.Error(err)
	}
	s.wantCommand(t, 1, words("bans"), "Nobody is banned")
}
