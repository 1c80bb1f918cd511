package rules

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"
)

var now = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

func mustParse(t testing.TB, text string) *Set {
	t.Helper()
	set, err := Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// found describes a rule.
func found(s *Rule) string {
	if s == nil {
		return "none"
	}
	return s.String()
}

func TestLongestPrefixInForceCounts(t *testing.T) {
	set := mustParse(t, `
allow 10.0.0.0/8
ban 10.1.0.0/16
allow 10.1.2.0/24 until 2026-11-22T12:00:01Z
ban 10.1.2.3
allow 10.1.2.3
ban 10.1.2.4 until 2026-11-22T12:00:00Z
ban 2001:db8::/32
`)
	for addr, want := range map[string]string{
		"10.9.9.9":           "allow 10.0.0.0/8",
		"10.1.9.9":           "ban 10.1.0.0/16",
		"10.1.2.9":           "allow 10.1.2.0/24 until 2026-11-22T12:00:01Z",
		"10.1.2.3":           "allow 10.1.2.3",
		"10.1.2.4":           "allow 10.1.2.0/24 until 2026-11-22T12:00:01Z", // its ban has ended
		"::ffff:10.9.9.9":    "allow 10.0.0.0/8",
		"11.0.0.0":           "none",
		"2001:db8::1":        "ban 2001:db8::/32",
		"2001:db9::1":        "none",
		"2001:db8:ffff::%lo": "ban 2001:db8::/32",
	} {
		if got := found(set.FindAddress(netip.MustParseAddr(addr), true, now)); got != want {
			t.Errorf("%s: found %s, want %s", addr, got, want)
		}
	}
	if got := found(set.FindAddress(netip.MustParseAddr("10.1.2.9"), true, now.Add(time.Second))); got != "ban 10.1.0.0/16" {
		t.Errorf("when the allowance has ended: found %s", got)
	}
	for addr, want := range map[string]string{"10.9.9.9": "none", "10.1.2.9": "ban 10.1.0.0/16", "10.1.2.3": "ban 10.1.2.3"} {
		if got := found(set.FindAddress(netip.MustParseAddr(addr), false, now)); got != want {
			t.Errorf("%s, which may be somebody else's: found %s, want %s", addr, got, want)
		}
	}
	if got := found(set.FindAddress(netip.Addr{}, true, now)); got != "none" {
		t.Errorf("no address: found %s", got)
	}
}

func TestExceptions(t *testing.T) {
	set := mustParse(t, `
allow 10.0.0.0/8
ban 10.1.0.0/16
ban 10.1.2.3
allow 10.1.2.4
ban 10.1.2.5 until 2026-11-22T12:00:00Z
ban 10.1.2.6
allow 10.1.2.6
ban 11.0.0.0/8
`)
	for _, tt := range []struct {
		action  Action
		network string
		want    int
	}{
		{Allow, "10.0.0.0/8", 2}, {Ban, "10.1.0.0/16", 2}, {Allow, "10.1.2.3/32", 0}, {Ban, "10.1.2.0/24", 2}, {Allow, "2001:db8::/32", 0},
	} {
		if got := set.Exceptions(Rule{Action: tt.action, Target: NetworkOf(netip.MustParsePrefix(tt.network))}, now); got != tt.want {
			t.Errorf("%v %s has %d exceptions, want %d", tt.action, tt.network, got, tt.want)
		}
	}
	if got := mustParse(t, "ban key:a\n").Exceptions(Rule{Action: Allow, Target: NetworkOf(netip.MustParsePrefix("10.0.0.0/8"))}, now); got != 0 {
		t.Errorf("without networks: %d exceptions", got)
	}
}

func TestStatementThatEndsLastCounts(t *testing.T) {
	set := mustParse(t, `
ban key:a until 2026-11-23
ban key:a until 2026-11-25
ban key:a until 2026-11-24
ban key:b
ban key:b until 2026-11-24
allow api-key:a
`)
	for text, want := range map[string]string{"a": "ban key:a until 2026-11-25", "b": "ban key:b", "c": "none"} {
		if got := found(set.Find(Key, text, true, now)); got != want {
			t.Errorf("%s: found %s, want %s", text, got, want)
		}
	}
	if got := found(set.Find(APIKey, "a", false, now)); got != "none" {
		t.Errorf("an allowance that is not earned: found %s", got)
	}
	for kind, want := range map[Kind]bool{Address: false, APIKey: true, Key: true, Session: false} {
		if set.Has(kind) != want {
			t.Errorf("has rules about %v: %v", kind, !want)
		}
	}
}

func TestInForceCountsWhatHasNotEnded(t *testing.T) {
	set := mustParse(t, `
ban 203.0.113.1
ban 203.0.113.2 until 2026-11-22T12:00:00Z
ban 203.0.113.3 until 2026-11-22T12:00:01Z
allow 203.0.113.4 until 2026-11-21
`)
	for _, tt := range []struct {
		action Action
		at     time.Time
		want   int
	}{{Ban, now.Add(-time.Second), 3}, {Ban, now, 2}, {Ban, now.Add(time.Second), 1}, {Allow, now, 0}} {
		if got := set.InForce(tt.action, tt.at); got != tt.want {
			t.Errorf("%v at %v: %d in force, want %d", tt.action, tt.at, got, tt.want)
		}
	}
}

func TestSetWithoutRules(t *testing.T) {
	for _, set := range []*Set{nil, mustParse(t, ""), mustParse(t, "# only a comment\n")} {
		if !set.IsEmpty() || set.Has(Address) || set.InForce(Ban, now) != 0 ||
			set.FindAddress(netip.MustParseAddr("203.0.113.7"), true, now) != nil || set.Find(Key, "", true, now) != nil {
			t.Errorf("found something in %+v", set)
		}
	}
}

// The set finds the same rules as a search through all of them.
func TestSetAgainstOracle(t *testing.T) {
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	for range 200 {
		var rules []Rule
		for range random.IntN(20) {
			bits := random.IntN(9) + 24
			p, _ := netip.AddrFrom4([4]byte{10, 0, 0, byte(random.IntN(16))}).Prefix(bits)
			s := Rule{Action: Ban + Action(random.IntN(2)), Target: NetworkOf(p)}
			if ends := random.IntN(4); ends > 0 {
				s.Until = now.Add(time.Duration(ends-2) * time.Second)
			}
			rules = append(rules, s)
		}
		set := NewSet(rules)
		for last := range byte(16) {
			addr := netip.AddrFrom4([4]byte{10, 0, 0, last})
			got, want := set.FindAddress(addr, true, now), findSlowly(rules, addr)
			if (got == nil) != (want == nil) || got != nil && (got.Action != want.Action || got.Target != want.Target || !got.Until.Equal(want.Until)) {
				t.Fatalf("seed %d: %v: found %s, want %s among %v", seed, addr, found(got), found(want), rules)
			}
		}
	}
}

func findSlowly(rules []Rule, addr netip.Addr) (best *Rule) {
	for i := range rules {
		s := &rules[i]
		switch bits := s.Target.Network.Bits(); {
		case !s.Target.Network.Contains(addr) || !s.Until.IsZero() && !now.Before(s.Until):
		case best == nil || bits > best.Target.Network.Bits():
			best = s
		case bits < best.Target.Network.Bits():
		case s.Action == Allow && best.Action == Ban, s.Action == best.Action && s.Outlasts(best):
			best = s
		}
	}
	return best
}

// manyLines returns the text of a file with n rules about networks of all sizes.
func manyLines(n int) []byte {
	random := rand.New(rand.NewPCG(1, 2))
	var text []byte
	for i := range n {
		p := netip.PrefixFrom(netip.AddrFrom4([4]byte{byte(i >> 16), byte(i >> 8), byte(i), byte(random.IntN(256))}), 32)
		switch i % 4 {
		case 0:
			p = netip.PrefixFrom(p.Addr(), 24).Masked()
		case 1:
			var b [16]byte
			b[0], b[1], b[2], b[3], b[4], b[5] = 0x20, 1, byte(i>>16), byte(i>>8), byte(i), byte(random.IntN(256))
			p = netip.PrefixFrom(netip.AddrFrom16(b), 48)
		}
		text = fmt.Appendf(text, "ban %v until 2026-12-01 # scraper %d\n", p, i)
	}
	return text
}

func TestLookupsAllocateNothing(t *testing.T) {
	set := mustParse(t, string(manyLines(1000))+"allow api-key:acme\n")
	addr := netip.MustParseAddr("0.0.3.7")
	if n := testing.AllocsPerRun(100, func() {
		set.FindAddress(addr, true, now)
		set.Find(APIKey, "acme", true, now)
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkParse(b *testing.B) {
	text := manyLines(100_000)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Parse(text); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkFind(b *testing.B) {
	for _, n := range []int{1, 100_000} {
		set := mustParse(b, string(manyLines(n))+"ban api-key:acme\n")
		random := rand.New(rand.NewPCG(3, 4))
		addrs := make([]netip.Addr, 1<<14)
		for i := range addrs {
			j := random.IntN(1 << 17)
			addrs[i] = netip.AddrFrom4([4]byte{byte(j >> 16), byte(j >> 8), byte(j), byte(random.IntN(256))})
		}
		b.Run(fmt.Sprintf("address/rules=%d", n), func(b *testing.B) {
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				set.FindAddress(addrs[i%len(addrs)], true, now)
			}
		})
		b.Run(fmt.Sprintf("api-key/rules=%d", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				set.Find(APIKey, "acme", true, now)
			}
		})
	}
}

func TestRaises(t *testing.T) {
	set := mustParse(t, `
ban 203.0.113.0/24
raise 5x 203.0.113.0/24
raise 2x 203.0.113.7 until 2026-11-25
raise 0.5x 203.0.113.8
raise 3x 203.0.113.0/24 zone login
raise 6x 203.0.113.9 zone search/x
allow 198.51.100.7
raise 0.2x api-key:acme until 2026-11-25
raise 4x api-key:acme until 2026-11-23
raise 0.3x api-key:acme until 2026-11-24
`)
	at := func(text string) time.Time {
		end, err := time.Parse(time.DateOnly, text)
		if err != nil {
			t.Fatal(err)
		}
		return end
	}
	for _, tt := range []struct {
		zone, client string
		proved       bool
		now          time.Time
		want         string
	}{
		{"login", "203.0.113.7", true, now, "raise 3x 203.0.113.0/24 zone login"}, // the zone's own come first
		{"search", "203.0.113.7", true, now, "raise 2x 203.0.113.7 until 2026-11-25"},
		{"search", "203.0.113.7", true, at("2026-11-25"), "raise 5x 203.0.113.0/24"},
		{"search", "203.0.113.8", true, now, "raise 0.5x 203.0.113.8"},
		{"search", "203.0.113.9", true, now, "raise 6x 203.0.113.9 zone search/x"}, // the limit's own come first
		{"search", "203.0.113.7", false, now, "none"},
		{"search", "203.0.113.8", false, now, "raise 0.5x 203.0.113.8"}, // less needs no proof
		{"search", "198.51.100.7", true, now, "none"},
		{"search", "acme", true, at("2026-11-22"), "raise 4x api-key:acme until 2026-11-23"},
		{"search", "acme", true, at("2026-11-23"), "raise 0.2x api-key:acme until 2026-11-25"},
		{"search", "acme", true, at("2026-11-25"), "none"},
	} {
		got := "none"
		for _, raises := range set.Raises(tt.zone, "x") {
			if got != "none" {
				break
			}
			if addr, err := netip.ParseAddr(tt.client); err == nil {
				got = found(raises.FindAddress(addr, tt.proved, tt.now))
			} else {
				got = found(raises.Find(APIKey, tt.client, tt.proved, tt.now))
			}
		}
		if got != tt.want {
			t.Errorf("%s of %s at %v: found %s, want %s", tt.client, tt.zone, tt.now, got, tt.want)
		}
	}
	if got := found(set.FindAddress(netip.MustParseAddr("203.0.113.7"), true, now)); got != "ban 203.0.113.0/24" {
		t.Errorf("a raise lifts a ban: found %s", got)
	}
	if n := set.InForce(Raise, now); n != 8 {
		t.Errorf("%d raises are in force, want 8", n)
	}
	five := Rule{Action: Raise, Percent: 500, Target: network("203.0.113.0/24")}
	if n := set.Exceptions(five, now); n != 2 {
		t.Errorf("%d exceptions, want 2", n)
	}
}

func TestStronger(t *testing.T) {
	ban, allow, more, less := &Rule{Action: Ban}, &Rule{Action: Allow}, &Rule{Action: Raise, Percent: 500}, &Rule{Action: Raise, Percent: 20}
	short := &Rule{Action: Ban, Until: now}
	for _, tt := range []struct{ a, b, want *Rule }{
		{nil, nil, nil}, {ban, nil, ban}, {nil, ban, ban}, {ban, allow, allow}, {allow, ban, allow},
		{ban, short, ban}, {short, ban, ban}, {more, less, more}, {less, more, more},
	} {
		if got := Stronger(tt.a, tt.b); got != tt.want {
			t.Errorf("of %v and %v: %v, want %v", tt.a, tt.b, got, tt.want)
		}
	}
}

// Rules that have ended need no files of networks.
func TestKnowsRulesInForce(t *testing.T) {
	ended, err := ParseRule("ban country:DE until 2020-01-01")
	if err != nil {
		t.Fatal(err)
	}
	raise, err := ParseRule("raise 5x asn:64496")
	if err != nil {
		t.Fatal(err)
	}
	s := NewSet([]Rule{ended, raise})
	if now := time.Now(); s.Knows(Country, now) || !s.Knows(ASN, now) || (*Set)(nil).Knows(ASN, now) {
		t.Error("expected autonomous systems only to be in force")
	}
}
