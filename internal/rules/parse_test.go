package rules

import (
	"net/netip"
	"strings"
	"testing"
	"time"
)

func network(text string) Target { return NetworkOf(netip.MustParsePrefix(text)) }

func TestLines(t *testing.T) {
	at := func(text string) time.Time {
		end, err := time.Parse(time.RFC3339, text)
		if err != nil {
			t.Fatal(err)
		}
		return end
	}
	for line, want := range map[string]*Rule{
		"":                  nil,
		" \t":               nil,
		"# ban 203.0.113.7": nil,
		"  # indented":      nil,

		"ban 203.0.113.7":                                     {Action: Ban, Target: network("203.0.113.7/32")},
		"\tallow\t203.0.113.7 ":                               {Action: Allow, Target: network("203.0.113.7/32")},
		"ban address:203.0.113.0/24":                          {Action: Ban, Target: network("203.0.113.0/24")},
		"ban 2001:db8::/32":                                   {Action: Ban, Target: network("2001:db8::/32")},
		"ban address:2001:db8::1":                             {Action: Ban, Target: network("2001:db8::1/128")},
		"ban ::ffff:203.0.113.7":                              {Action: Ban, Target: network("203.0.113.7/32")},
		"ban ::ffff:203.0.113.0/120":                          {Action: Ban, Target: network("203.0.113.0/24")},
		"ban 0.0.0.0/0":                                       {Action: Ban, Target: network("0.0.0.0/0")},
		"allow api-key:vendor/product":                        {Action: Allow, Target: Target{Kind: APIKey, Text: "vendor/product"}},
		"ban key:user-17":                                     {Action: Ban, Target: Target{Kind: Key, Text: "user-17"}},
		"ban key:a#b":                                         {Action: Ban, Target: Target{Kind: Key, Text: "a#b"}},
		"ban key:203.0.113.0/24":                              {Action: Ban, Target: Target{Kind: Key, Text: "203.0.113.0/24"}},
		"ban key:a:b":                                         {Action: Ban, Target: Target{Kind: Key, Text: "a:b"}},
		`ban key:"a # \"b\"\n\xff" # c`:                       {Action: Ban, Target: Target{Kind: Key, Text: "a # \"b\"\n\xff"}, Reason: "c"},
		`ban key:"until"`:                                     {Action: Ban, Target: Target{Kind: Key, Text: "until"}},
		"ban key:Jürgen":                                      {Action: Ban, Target: Target{Kind: Key, Text: "Jürgen"}},
		"ban session:1f0c9a2b7d4e6f80":                        {Action: Ban, Target: Target{Kind: Session, Text: "1f0c9a2b7d4e6f80"}},
		"ban 203.0.113.7 until 2026-12-01":                    {Action: Ban, Target: network("203.0.113.7/32"), Until: at("2026-12-01T00:00:00Z")},
		"ban 203.0.113.7 until 2026-12-01 # x #":              {Action: Ban, Target: network("203.0.113.7/32"), Until: at("2026-12-01T00:00:00Z"), Reason: "x #"},
		"ban 203.0.113.7 until 2026-11-22T14:00:00.9+02:00 #": {Action: Ban, Target: network("203.0.113.7/32"), Until: at("2026-11-22T12:00:00Z")},
		"ban asn:64496":                                       {Action: Ban, Target: Target{Kind: ASN, Text: "64496"}},
		"allow country:DE until 2026-12-01":                   {Action: Allow, Target: Target{Kind: Country, Text: "DE"}, Until: at("2026-12-01T00:00:00Z")},
		"raise 5x api-key:acme":                               {Action: Raise, Percent: 500, Target: Target{Kind: APIKey, Text: "acme"}},
		"raise 0.2x 203.0.113.0/24 zone login # less":         {Action: Raise, Percent: 20, Target: network("203.0.113.0/24").In("login"), Reason: "less"},
		"raise 1000x key:a zone login until 2026-12-01":       {Action: Raise, Percent: 100_000, Target: Target{Kind: Key, Text: "a", Zone: "login"}, Until: at("2026-12-01T00:00:00Z")},
		"raise 0.01x key:a until 2026-12-01 zone login":       {Action: Raise, Percent: 1, Target: Target{Kind: Key, Text: "a", Zone: "login"}, Until: at("2026-12-01T00:00:00Z")},
		`raise 1.50x country:DE zone "a # b"`:                 {Action: Raise, Percent: 150, Target: Target{Kind: Country, Text: "DE", Zone: "a # b"}},
		`raise 2x asn:1 zone until`:                           {Action: Raise, Percent: 200, Target: Target{Kind: ASN, Text: "1", Zone: "until"}},
		"ban 203.0.113.7 #scraper\tof prices":                 {Action: Ban, Target: network("203.0.113.7/32"), Reason: "scraper\tof prices"},
	} {
		got, err := parseLine(line)
		switch {
		case err != nil:
			t.Errorf("%q: %v", line, err)
		case (got == nil) != (want == nil), got != nil && *got != *want:
			t.Errorf("%q is %+v, want %+v", line, got, want)
		}
	}
}

func TestBadLines(t *testing.T) {
	for line, want := range map[string]string{
		"permit 203.0.113.7":                   `got "permit", expected ban, allow or raise`,
		"Ban 203.0.113.7":                      `got "Ban", expected ban, allow or raise`,
		"203.0.113.7":                          `got "203.0.113.7", expected ban, allow or raise`,
		"ban":                                  "nothing follows ban, expected an address or network such as",
		"ban # 203.0.113.7":                    "nothing follows ban, expected an address or network such as",
		"ban 203.0.113.256":                    `got "203.0.113.256", expected an address or network such as`,
		"ban 203.0.113.0/33":                   `got "203.0.113.0/33", expected an address or network such as`,
		"ban 203.0.113.7/24":                   `got "203.0.113.7/24", which is an address in a network: expected 203.0.113.0/24 for the network, or 203.0.113.7 for the address`,
		"ban fe80::1%eth0":                     `got "fe80::1%eth0", expected an address or network`,
		"ban example.com":                      `got "example.com", expected an address or network`,
		"ban user:17":                          `got "user:17", expected an address or network`,
		"ban address:":                         `got "", expected an address or network`,
		"ban key:":                             `got "key:", expected a text behind it`,
		`ban key:""`:                           `got "key:", expected a text behind it`,
		"ban api-key:":                         `got "api-key:", expected a text behind it`,
		"ban key:a b":                          `got "b", expected until and a date, # and a comment, or the end of the line`,
		`ban key:"a b`:                         "a quote has no end",
		`ban key:"a"b`:                         `got "b", expected a blank behind the quote`,
		`ban key:a\b`:                          `expected a text between quotes: write key:"a\\b"`,
		"ban key:a\x00":                        `expected a text between quotes: write key:"a\x00"`,
		"ban key:\xff":                         `expected a text between quotes: write key:"\xff"`,
		`ban key:"\q"`:                         "a quote has no end", // as strconv has it
		`ban x"y z"`:                           "expected an address or network",
		"ban session:1f0c":                     `got "1f0c", expected the 16 hexadecimal digits`,
		"ban session:1F0C9A2B7D4E6F80":         "expected the 16 hexadecimal digits",
		`ban api-key:"\xff"`:                   "not valid UTF-8",
		"ban 203.0.113.7 until":                `until: got "", expected a date`,
		"ban 203.0.113.7 until # later":        `until: got "", expected a date`,
		"ban 203.0.113.7 until tomorrow":       `until: got "tomorrow", expected a date such as 2026-12-01 (00:00 UTC), or a time such as 2026-12-01T14:00:00Z`,
		"ban 203.0.113.7 until 2026-13-01":     `until: got "2026-13-01", expected a date`,
		"ban 203.0.113.7 until 0001-01-01":     `until: got "0001-01-01", expected a date`,
		"ban 203.0.113.7 until 1969-12-31":     "expected a date",
		"ban 203.0.113.7 until 2026-12-01 now": `got "now", expected until and a date`,
		"ban 203.0.113.7 for 24h":              `got "for", expected until and a date, # and a comment, or the end of the line`,
		"ban 203.0.113.7 203.0.113.8":          `got "203.0.113.8", expected until and a date`,
		"ban asn:AS64496":                      `got "AS64496", expected the number of an autonomous system, such as asn:64496`,
		"ban asn:0":                            `got "0", expected the number of an autonomous system`,
		"ban asn:064496":                       `got "064496", expected the number of an autonomous system`,
		"ban asn:4294967296":                   `got "4294967296", expected the number of an autonomous system`,
		"ban country:de":                       `got "de", expected a code of two capital letters (ISO 3166-1), such as country:DE`,
		"ban country:Germany":                  `got "Germany", expected a code of two capital letters`,
		"raise":                                `got "", expected a factor such as 5x, or 0.2x for less`,
		"raise 5x":                             "nothing follows raise, expected an address or network such as",
		"raise api-key:acme 5x":                `got "api-key:acme", expected a factor such as 5x, or 0.2x for less`,
		"raise 5 api-key:acme":                 `got "5", expected a factor such as 5x, or 0.2x for less`,
		"raise 5 x api-key:acme":               `got "5", expected a factor such as 5x, or 0.2x for less`,
		"raise x5 api-key:acme":                `got "x5", expected a factor such as 5x, or 0.2x for less`,
		"raise 5X api-key:acme":                `got "5X", expected a factor such as 5x, or 0.2x for less`,
		"raise -5x api-key:acme":               `got "-5x", expected a factor such as 5x, or 0.2x for less`,
		"raise +5x api-key:acme":               `got "+5x", expected a factor such as 5x, or 0.2x for less`,
		"raise NaNx api-key:acme":              `got "NaNx", expected a factor such as 5x, or 0.2x for less`,
		"raise 1e3x api-key:acme":              `got "1e3x", expected a factor such as 5x, or 0.2x for less`,
		"raise 0x10x api-key:acme":             `got "0x10x", expected a factor such as 5x, or 0.2x for less`,
		"raise 1,5x api-key:acme":              `got "1,5x", expected a factor such as 5x, or 0.2x for less`,
		"raise x api-key:acme":                 `got "x", expected a factor such as 5x, or 0.2x for less`,
		"raise 0x api-key:acme":                `got "0x", expected a factor from 0.01x to 1000x; to admit nothing, write ban`,
		"raise 0.009x api-key:acme":            `got "0.009x", expected a factor from 0.01x to 1000x`,
		"raise 1000.01x api-key:acme":          `got "1000.01x", expected a factor from 0.01x to 1000x`,
		"raise " + strings.Repeat("9", 400) + "x key:a":     "expected a factor such as 5x",
		"raise 0.125x api-key:acme":                         `got "0.125x", expected a factor with at most two digits after the point, such as 0.12x`,
		"raise 5x acme":                                     `got "acme", expected an address or network such as`,
		"raise 5x api-key:acme zone":                        "zone: expected the name of a zone behind it",
		`raise 5x api-key:acme zone ""`:                     "zone: expected the name of a zone behind it",
		"raise 5x api-key:acme zone # login":                "zone: expected the name of a zone behind it",
		"raise 5x api-key:acme zone a\\b":                   `expected a text between quotes: write zone "a\\b"`,
		"raise 5x api-key:acme zone a zone b":               `got "zone", expected zone and a name, until and a date, # and a comment, or the end of the line`,
		"raise 5x api-key:acme in login":                    `got "in", expected zone and a name, until and a date`,
		"ban 203.0.113.7 zone login":                        `got "zone", expected until and a date, # and a comment, or the end of the line`,
		"ban 203.0.113.7 until 2026-12-01 until 2026-12-02": `got "until", expected until and a date`,
		"ban 203.0.113.7 # \x1b[2J":                         "the reason has a character that can't be printed",
		"ban 203.0.113.7 # a\u202eb":                        "the reason has a character that can't be printed",
		"ban 203.0.113.7 # \xff":                            "the reason is not valid UTF-8",
		"# " + strings.Repeat("x", maxLine):                 "has 8194 bytes, expected at most 8192",
	} {
		if _, err := parseLine(line); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error is %v, want %q in it", line, err, want)
		} else if strings.ContainsAny(err.Error(), "\n\x1b") {
			t.Errorf("%q: error is %q", line, err)
		}
	}
}

func TestParseRule(t *testing.T) {
	if s, err := ParseRule("ban 203.0.113.7 # x"); err != nil || s.String() != "ban 203.0.113.7 # x" {
		t.Errorf("got %v, %v", s, err)
	}
	for line, want := range map[string]string{
		"":                            `got "", expected ban, allow or raise`,
		"# ban 203.0.113.7":           "expected ban, allow or raise",
		"ban":                         "nothing follows ban",
		"ban key:a # x\nban key:b":    "a character that can't be printed",
		"ban key:a\nban key:b":        "expected a text between quotes",
		"ban 203.0.113.7\nban key:b ": "expected an address or network",
	} {
		if s, err := ParseRule(line); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, %v, want %q", line, s, err, want)
		}
	}
}

func TestParseNamesTheLine(t *testing.T) {
	_, err := Parse([]byte("# head\r\n\r\nban 203.0.113.7\r\nban 203.0.113.8 until soon\r\n"))
	if err == nil || !strings.HasPrefix(err.Error(), `line 4: until: got "soon", expected`) {
		t.Errorf("error is %v", err)
	}
	set, err := Parse([]byte("\ufeffban 203.0.113.7\r\nban 203.0.113.8"))
	if err != nil || set.InForce(Ban, time.Now()) != 2 {
		t.Errorf("with a byte order mark and without an end of the last line: %v", err)
	}
}

func TestParseBoundsTheRules(t *testing.T) {
	text := strings.Repeat("ban 203.0.113.7\n", maxRules+1)
	if _, err := Parse([]byte(text)); err == nil || err.Error() != "line 1000001: there are more than 1000000 rules" {
		t.Errorf("error is %v", err)
	}
}

// Every rule that passes Check is one line, and is read as the same rule.
func FuzzRule(f *testing.F) {
	f.Add(int8(Ban), 0, int8(Key), "a \"b\" # c\n", "", int64(1764547200), "scraper", []byte{203, 0, 113, 7}, uint8(24))
	f.Add(int8(Allow), 0, int8(Address), "", "", int64(0), "", make([]byte, 16), uint8(64))
	f.Add(int8(Allow), 0, int8(APIKey), "acme", "", int64(1764547201), "a\nban 0.0.0.0/0", []byte(nil), uint8(0))
	f.Add(int8(Ban), 0, int8(Session), "1f0c9a2b7d4e6f80", "", int64(0), "# x", []byte(nil), uint8(0))
	f.Add(int8(Raise), 12345, int8(Country), "DE", "#login \"x", int64(1764547200), "", []byte(nil), uint8(0))
	f.Add(int8(Raise), 1, int8(ASN), "64496", "until", int64(0), "", []byte(nil), uint8(0))
	f.Fuzz(func(t *testing.T, action int8, percent int, kind int8, text, zone string, until int64, reason string, addr []byte, bits uint8) {
		s := Rule{Action: Action(action), Percent: percent, Target: Target{Kind: Kind(kind), Text: text, Zone: zone}, Reason: reason}
		if until != 0 {
			s.Until = time.Unix(until, 0).UTC()
		}
		if a, ok := netip.AddrFromSlice(addr); ok && s.Target.Kind == Address {
			if p, err := a.Prefix(int(bits)); err == nil {
				s.Target = NetworkOf(p).In(zone)
			}
		}
		if s.check() != nil {
			return
		}
		line := s.String()
		if strings.ContainsAny(line, "\n\r") {
			t.Fatalf("%+v is more than a line: %q", s, line)
		}
		if got, err := parseLine(line); err != nil || got == nil || *got != s {
			t.Fatalf("%q is read as %+v, %v, want %+v", line, got, err, s)
		}
	})
}

// Every line is rejected, or its rule is written as a line with the same meaning.
func FuzzLine(f *testing.F) {
	for _, line := range []string{
		"ban 203.0.113.0/24 until 2026-12-01 # scraper", "allow api-key:acme until 2026-11-22T14:00:00Z # reason",
		`ban key:"a\x00 # b" # c`, "ban session:1f0c9a2b7d4e6f80", "raise 0.29x asn:64496 zone \"#a b\" until 2026-12-01 # x", "raise 5x country:DE until 2026-12-01 zone b", "ban ::ffff:1.2.3.0/120", "# comment", "ban key:a\u200bb", `ban key:"` + "\u00a0" + `"`,
	} {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, line string) {
		if strings.ContainsAny(line, "\n") {
			return
		}
		s, err := parseLine(line)
		if err != nil || s == nil {
			return
		}
		again, err := parseLine(s.String())
		if err != nil || again == nil || *again != *s {
			t.Fatalf("%q is %+v, and written as %q it is %+v, %v", line, s, s.String(), again, err)
		}
	})
}
