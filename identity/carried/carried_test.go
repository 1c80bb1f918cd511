package carried

import (
	"encoding/binary"
	"net/netip"
	"testing"
)

func TestOf(t *testing.T) {
	for text, want := range map[string]string{
		"192.0.2.1":                         "192.0.2.1",
		"::ffff:192.0.2.1":                  "192.0.2.1",
		"::ffff:192.0.2.1%eth0":             "192.0.2.1",
		"2002:c000:201::":                   "192.0.2.1", // 6to4
		"2002:c000:201:ffff:1:2:3:4":        "192.0.2.1",
		"2003:c000:201::":                   "2003:c000:201::",
		"2001:0:cb00:7101:0:fbff:3fff:fdfe": "192.0.2.1", // Teredo: server 203.0.113.1, port 1024
		"2001:0:1:2:3:4:3fff:fdfe":          "192.0.2.1",
		"2001:1:1:2:3:4:3fff:fdfe":          "2001:1:1:2:3:4:3fff:fdfe",
		"64:ff9b::192.0.2.1":                "192.0.2.1",
		"64:ff9b::c000:201%eth0":            "192.0.2.1",
		"64:ff9b::1:c000:201":               "64:ff9b::1:c000:201",
		"64:ff9b:1::192.0.2.1":              "192.0.2.1", // a prefix of 96 bits
		"64:ff9b:1:a:b:c:192.0.2.1":         "192.0.2.1",
		"64:ff9b:1:0:0:c:192.0.2.0":         "192.0.2.0",
		"64:ff9b:1:a:c0:2:100::":            "192.0.2.1", // 64 bits
		"64:ff9b:1:ac0:0:201::":             "192.0.2.1", // 56 bits
		"64:ff9b:1:c000:2:100::":            "192.0.2.1", // 48 bits
		"64:ff9b:2::192.0.2.1":              "64:ff9b:2::c000:201",
		"::192.0.2.1":                       "192.0.2.1",
		"::ffff:0:192.0.2.1":                "192.0.2.1",
		"::":                                "::",
		"::1":                               "::1",
		"2001:db8::192.0.2.1":               "2001:db8::c000:201",
		"2001:db8::5efe:192.0.2.1":          "2001:db8::5efe:c000:201",     // ISATAP: chosen by who has the network
		"2001:db8::200:5efe:192.0.2.1":      "2001:db8::200:5efe:c000:201", // likewise
		"fe80::1%eth0":                      "fe80::1",
	} {
		if got := Of(netip.MustParseAddr(text)); got != netip.MustParseAddr(want) {
			t.Errorf("%s carries %v, want %s", text, got, want)
		}
	}
}

// A host remains one client, however it embeds its IPv4 address.
func FuzzOf(f *testing.F) {
	f.Add(uint32(0xc0000201), uint64(0), uint16(0))
	f.Add(uint32(0x7f000001), ^uint64(0), ^uint16(0))
	f.Add(uint32(0), uint64(1)<<32, uint16(1))
	f.Fuzz(func(t *testing.T, host uint32, rest uint64, more uint16) {
		want := netip.AddrFrom4([4]byte(binary.BigEndian.AppendUint32(nil, host)))
		address := func(head []byte, parts ...any) netip.Addr {
			for _, part := range parts {
				head, _ = binary.Append(head, binary.BigEndian, part)
			}
			return netip.AddrFrom16([16]byte(head))
		}
		all := map[string]netip.Addr{
			"mapped": address(make([]byte, 10), uint16(0xffff), host),
			"6to4":   address([]byte{0x20, 0x02}, host, rest, more),
			"Teredo": address([]byte{0x20, 0x01, 0, 0}, rest, ^host),
			"NAT64":  address([]byte{0, 0x64, 0xff, 0x9b, 0, 0, 0, 0, 0, 0, 0, 0}, host),
		}
		if host > 1 {
			all["compatible"] = address(make([]byte, 12), host)
		}
		if host&0xffffff != 0 {
			all["local NAT64"] = address([]byte{0, 0x64, 0xff, 0x9b, 0, 1}, uint32(rest), more, host)
		}
		for name, addr := range all {
			if got := Of(addr); got != want {
				t.Errorf("%s: %v carries %v, want %v", name, addr, got, want)
			}
			if got := Of(Of(addr)); got != want {
				t.Errorf("%s: %v carries another address the second time", name, addr)
			}
		}
	})
}

func TestOfAllocatesNothing(t *testing.T) {
	addr := netip.MustParseAddr("2001:db8::1")
	if n := testing.AllocsPerRun(100, func() { Of(addr) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
