package caddytest

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddy-tally/caddy-tally/internal/testing/networkstest"
)

// networksFile is the file of the golden configs. It has two networks of clients: see from.
const networksFile = "testdata/networks.mmdb"

func networksOf(country string, asn uint32) []byte {
	type record = networkstest.Record
	return networkstest.File("Test-City-ASN", map[string]record{
		"192.0.2.0/28":  {"country": record{"iso_code": country}, "autonomous_system_number": asn},
		"192.0.2.16/28": {"country": record{"iso_code": "FR"}, "autonomous_system_number": uint32(64500)},
	})
}

// The committed file is the one that the helper writes.
func TestNetworksFile(t *testing.T) {
	want := networksOf("DE", 64496)
	if flag.Lookup("update").Value.String() == "true" {
		if err := os.WriteFile(networksFile, want, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(networksFile); err != nil || string(got) != string(want) {
		t.Errorf("%s isn't what -update writes (%v)", networksFile, err)
	}
}

// Clients of a provider or a country share a limit, others count by themselves, matchers and
// placeholders know the same, and a new file is in force after a reload at the latest.
func TestNetworks(t *testing.T) {
	t.Parallel()
	text := strings.Replace(config(`
		exempt country AT
		zone provider {
			per asn
			limit 10/1h
		}
		zone german {
			match asn 64496
			match country DE
			per country
			on_empty_key deny
			limit 6/1h
		}`), "rate_limit {", "rate_limit {\nnetworks {$FILE}", 1)
	text = strings.Replace(text, "respond hello", "respond {http.rate_limit.country}/{http.rate_limit.asn}", 1)
	s := newServer(t, text)
	file := filepath.Join(s.dir, "networks.mmdb")
	s.env = append(s.env, "FILE="+file)
	write := func(content []byte) {
		t.Helper()
		if err := os.WriteFile(file, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(networksOf("DE", 64496))
	s.start()
	if where := s.get("/", from(1)).body; where != "DE/AS64496" {
		t.Errorf("the placeholders say %q", where)
	}
	if where := s.get("/", "X-Forwarded-For: 192.0.2.1, 203.0.113.9").body; where != "/" {
		t.Errorf("an address that the client wrote is in %q", where)
	}
	s.wantPassed(5, 5, "/", from(2)) // with the first, all six of the country
	s.wantPassed(0, 2, "/", from(3))
	s.wantPassed(6, 6, "/", from(16))
	s.wantPassed(4, 6, "/", from(17)) // ten of the provider
	s.wantPassed(10, 12, "/", from(40))
	s.wantPassed(10, 12, "/", from(41)) // in no file: by itself
	s.wantCommand(t, 0, []string{"zones"}, "provider  asn ", "german    country ")
	s.wantCommand(t, 0, []string{"explain", "key:DE"}, "german")
	s.wantCommand(t, 0, []string{"explain", "192.0.2.17"}, "AS64500")
	s.wantCommand(t, 0, []string{"ban", "key:AS64500"})
	s.wantBannedByOperator(false, "/", from(18))
	s.wantCommand(t, 0, []string{"unban", "key:AS64500"})

	write([]byte("broken"))
	s.mustReload(text + "\n")
	if where := s.get("/", from(42)).body; where != "/" {
		t.Errorf("an address in no file is in %q", where)
	}
	s.wantPassed(0, 2, "/", from(1))
	if len(s.logLines("the file of networks can't be used; its last good version stays in force")) == 0 {
		t.Error("the log doesn't say that the file is broken")
	}
	write(networksOf("AT", 64497))
	s.mustReload(text)
	s.wantPassed(20, 20, "/", from(1))
	s.stop()
	write([]byte("broken"))
	if out, err := s.run("validate", "--config", filepath.Join(s.dir, "Caddyfile")); err == nil || !strings.Contains(out, "networks: "+file) {
		t.Errorf("Caddy takes a broken file: %v\n%s", err, out)
	}
}

// A ban of a provider, by a key or by its number, is in the explanation of its addresses; the audit names what is
// nobody's address; and rules may end at a date, and are for keys that nobody has only with a note.
func TestRulesAboutProviders(t *testing.T) {
	t.Parallel()
	file, err := filepath.Abs(networksFile)
	if err != nil {
		t.Fatal(err)
	}
	s := startCaddy(t, strings.Replace(config(`
		zone provider {
			per asn
			limit 10/1h
		}`), "rate_limit {", "rate_limit {\nnetworks "+file, 1))
	s.wantCommand(t, 0, []string{"ban", "key:AS64496"}, "is banned")
	s.wantPassed(0, 1, "/", from(1))
	s.wantCommand(t, 0, []string{"explain", "192.0.2.1"}, "an operator has banned the client")
	s.wantCommand(t, 0, []string{"explain", "192.0.2.17"}, "passes")
	s.wantCommand(t, 0, []string{"ban", "asn:64500", "country:FR", "--until", "2101-01-01"}, "asn:64500 is banned until 2101-01-01", "country:FR is banned")
	s.wantCommand(t, 0, []string{"audit"}, "asn:64500", "country:FR")
	s.wantCommand(t, 1, []string{"ban", "asn:64500", "--until", "2020-01-01"}, "--until: got \"2020-01-01\": expected a time to come")
	s.wantCommand(t, 0, []string{"raise", "5x", "api-key:nosuch", "--for", "1h"}, "No API key of that name is in force.")
}
