package identity

import (
	"net/netip"
	"testing"
)

func TestPrefix(t *testing.T) {
	for _, c := range []struct {
		text       string
		ipv4, ipv6 int
		want       string // "" if it is no address
	}{
		{"192.0.2.1", 32, 64, "192.0.2.1/32"},
		{"192.0.2.1", 24, 64, "192.0.2.0/24"},
		{"192.0.2.1", 0, 64, "0.0.0.0/0"},
		{"::ffff:192.0.2.1", 32, 64, "192.0.2.1/32"},
		{"::ffff:c000:201", 24, 64, "192.0.2.0/24"},
		{"64:ff9b::192.0.2.1", 32, 64, "192.0.2.1/32"},
		{"64:ff9b::c000:201%eth0", 24, 64, "192.0.2.0/24"},
		{"64:ff9b::1:c000:201", 32, 64, "64:ff9b::/64"},
		{"::ffff:192.0.2.1%eth0", 32, 64, "192.0.2.1/32"},
		{"2002:c000:201:1::1", 24, 64, "192.0.2.0/24"},
		{"2001:db8:1:2:3:4:5:6", 32, 64, "2001:db8:1:2::/64"},
		{"2001:db8:1:2:3:4:5:6", 32, 128, "2001:db8:1:2:3:4:5:6/128"},
		{"2001:db8:1:2:3:4:5:6", 32, 47, "2001:db8::/47"},
		{"fe80::1%eth0", 32, 64, "fe80::/64"},
		{"192.0.2.1", -1, 64, "192.0.2.1/32"},
		{"2001:db8::1", 32, 129, "2001:db8::1/128"},
		{"", 32, 64, ""},
		{"@", 32, 64, ""},
		{"192.0.2.1:80", 32, 64, ""},
		{"192.0.2.0/24", 32, 64, ""},
		{"example.com", 32, 64, ""},
	} {
		got, ok := Prefix(c.text, c.ipv4, c.ipv6)
		if ok != (c.want != "") || ok && got != netip.MustParsePrefix(c.want) {
			t.Errorf("Prefix(%q, %d, %d) = %v, %v; want %q", c.text, c.ipv4, c.ipv6, got, ok, c.want)
		}
	}
}

// Different networks have different keys, and a key contains its network.
func FuzzPrefixKey(f *testing.F) {
	f.Add("192.0.2.1", "192.0.2.2", 32, 64)
	f.Add("0.0.0.0", "::", 0, 0)
	f.Add("2001:db8::1", "2001:db8::2", 24, 64)
	f.Fuzz(func(t *testing.T, a, b string, ipv4, ipv6 int) {
		x, okX := Prefix(a, ipv4, ipv6)
		y, okY := Prefix(b, ipv4, ipv6)
		if !okX || !okY {
			return
		}
		keyX, keyY := AppendPrefix(nil, x), AppendPrefix(nil, y)
		if (x == y) != (string(keyX) == string(keyY)) {
			t.Errorf("%v and %v have keys %x and %x", x, y, keyX, keyY)
		}
		if back := PrefixOf(keyX); back != x {
			t.Errorf("the key of %v tells %v", x, back)
		}
	})
}
