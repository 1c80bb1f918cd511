package networks

import (
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/testing/bubble"
	"github.com/caddy-tally/caddy-tally/internal/testing/networkstest"
)

type record = networkstest.Record

func write(t *testing.T, path string, text []byte) string {
	t.Helper()
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func acquired(t *testing.T, paths ...string) Files {
	t.Helper()
	f, err := Acquire(paths)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Release)
	return f
}

// Files of several publishers name the values differently. The first file with a value counts.
func TestFilesOfSeveralPublishers(t *testing.T) {
	folder := t.TempDir()
	maxMind := write(t, filepath.Join(folder, "maxmind"), networkstest.File("GeoLite2-Country", map[string]record{
		"192.0.2.0/24":    {"country": record{"iso_code": "DE"}, "registered_country": record{"iso_code": "US"}},
		"2001:db8::/32":   {"country": record{"iso_code": "AT"}},
		"198.51.100.0/24": {"registered_country": record{"iso_code": "US"}},
	}))
	maxMindASN := write(t, filepath.Join(folder, "asn"), networkstest.File("GeoLite2-ASN", map[string]record{
		"192.0.2.0/24": {"autonomous_system_number": uint32(64496), "autonomous_system_organization": "Example"},
	}))
	ipinfo := write(t, filepath.Join(folder, "ipinfo"), networkstest.File("ipinfo lite", map[string]record{
		"192.0.2.0/24":   {"country": "France", "country_code": "FR", "asn": "AS64511"},
		"203.0.113.0/24": {"country": "Switzerland", "country_code": "CH", "asn": "AS64500"},
	}))
	old := write(t, filepath.Join(folder, "old"), networkstest.File("ipinfo country", map[string]record{"192.0.2.0/24": {"country": "NL"}}))
	for _, test := range []struct {
		files              []string
		addr, country, asn string
	}{
		{[]string{maxMind}, "192.0.2.77", "DE", ""},
		{[]string{maxMind}, "::ffff:192.0.2.77", "DE", ""},
		{[]string{maxMind}, "2001:db8::1%eth0", "AT", ""},
		{[]string{maxMind}, "2002:c000:24d::1", "DE", ""},  // 6to4
		{[]string{maxMind}, "64:ff9b::c000:24d", "DE", ""}, // NAT64
		{[]string{maxMindASN}, "2002:c000:24d::1", "", "AS64496"},
		{[]string{maxMind}, "198.51.100.1", "", ""}, // where it is registered says little
		{[]string{maxMind}, "203.0.113.1", "", ""},
		{[]string{maxMindASN}, "192.0.2.77", "", "AS64496"},
		{[]string{ipinfo}, "192.0.2.77", "FR", "AS64511"},
		{[]string{maxMind, ipinfo, maxMindASN}, "192.0.2.77", "DE", "AS64511"},
		{[]string{maxMind, ipinfo}, "203.0.113.5", "CH", "AS64500"},
		{[]string{old}, "192.0.2.1", "NL", ""},
	} {
		f := acquired(t, test.files...)
		addr := netip.MustParseAddr(test.addr)
		if country, asn := f.Country(addr), f.ASN(addr); country != test.country || asn != test.asn {
			t.Errorf("%s in %v: got %q and %q, want %q and %q", addr, test.files, country, asn, test.country, test.asn)
		}
	}
	if f := acquired(t, maxMind); !f.HaveCountries() || f.HaveASNs() {
		t.Error("a file of countries has something else")
	}
	if f := acquired(t, maxMindASN); f.HaveCountries() || !f.HaveASNs() {
		t.Error("a file of autonomous systems has something else")
	}
}

// A file that can't be used is an error, and leaves nothing open.
func TestFilesThatCannotBeUsed(t *testing.T) {
	folder := t.TempDir()
	good := networkstest.File("GeoLite2-Country", map[string]record{"192.0.2.0/24": {"country": record{"iso_code": "DE"}}})
	for _, test := range []struct {
		name, text string
		says       string
	}{
		{"empty", "", "no file in the format of MaxMind"},
		{"text", "192.0.2.0/24 DE\n", "no file in the format of MaxMind"},
		{"half", string(good[:len(good)/2]), "no file in the format of MaxMind"},
		{"anonymous", string(networkstest.File("GeoIP2-Anonymous-IP", map[string]record{"192.0.2.0/24": {"is_anonymous": "yes"}})), "neither countries nor autonomous systems: its type is \"GeoIP2-Anonymous-IP\""},
	} {
		path := write(t, filepath.Join(folder, test.name), []byte(test.text))
		first := write(t, filepath.Join(folder, "good"), good)
		if f, err := Acquire([]string{first, path}); err == nil || !strings.Contains(err.Error(), test.says) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: got %v, %v, want an error with the path and %q", test.name, f, err, test.says)
		}
		if n, inUse := files.References(first); inUse {
			t.Errorf("%s: the first file is still in use %d times", test.name, n)
		}
	}
	if _, err := Acquire([]string{filepath.Join(folder, "missing")}); err == nil || !strings.Contains(err.Error(), "there is no file") {
		t.Errorf("a missing file: %v", err)
	}
}

// A changed file is in force soon; a broken one never, also not after a reload.
func TestTheLastGoodFileStays(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		path, addr := filepath.Join(t.TempDir(), "file"), netip.MustParseAddr("192.0.2.1")
		file := func(code string) []byte {
			return networkstest.File(strings.Repeat("Country", len(code)), map[string]record{"192.0.2.0/24": {"country": record{"iso_code": code}}})
		}
		f := acquired(t, write(t, path, file("DE")))
		want := func(code string) {
			t.Helper()
			if got := f.Country(addr); got != code {
				t.Errorf("the country is %q, want %q", got, code)
			}
		}
		want("DE")
		write(t, path, []byte("broken"))
		time.Sleep(lookEvery + time.Second)
		want("DE")
		acquired(t, path) // as a reload does
		want("DE")
		write(t, path, append(file("FR"), 0)) // of another size
		want("DE")
		time.Sleep(lookEvery + time.Second)
		want("FR")
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		time.Sleep(lookEvery + time.Second)
		want("FR")
		write(t, path, file("NL"))
		acquired(t, path) // a reload reads it at once
		want("NL")
	})
}

// However a file is broken, looking up an address neither panics nor runs on for ever.
func FuzzFiles(f *testing.F) {
	f.Add(networkstest.File("GeoLite2-Country", map[string]record{"192.0.2.0/24": {"country": record{"iso_code": "DE"}}, "2001:db8::/32": {"country_code": "FR", "asn": "AS1"}}))
	f.Fuzz(func(t *testing.T, text []byte) {
		table, err := parse(text)
		if err != nil {
			return
		}
		for _, addr := range []string{"192.0.2.1", "2001:db8::1", "255.255.255.255", "::"} {
			network := table.reader.Lookup(netip.MustParseAddr(addr))
			if code := countryOf(network); code != "" && !IsCountry(code) {
				t.Errorf("the country of %s is %q", addr, code)
			}
			asnOf(network)
		}
	})
}
