package identity

import (
	"net/netip"
	"testing"
)

func TestMaskedTextShowsNoAddress(t *testing.T) {
	network := func(text string) []byte {
		return AppendPrefix([]byte{TagNetwork}, netip.MustParsePrefix(text))
	}
	browser := network("198.51.100.9/32")
	browser[0] = TagFingerprint
	browser = append(browser, make([]byte, FingerprintSize)...)
	for want, key := range map[string][]byte{
		"203.0.113.0/24":  network("203.0.113.9/32"),
		"10.0.0.0/8":      network("10.0.0.0/8"),
		"2001:db8:1::/48": network("2001:db8:1:2::/64"),
		"198.51.100.0/24": browser,
		"192.0.2.0/24":    []byte("k192.0.2.1"),
		"2001:db8::/48":   []byte("k2001:db8::1"),
		"192.0.3.0/24":    []byte("k192.0.3.1/32"),
		"alice":           []byte("kalice"),
		"acme/web":        []byte("aacme/web"),
		"":                nil,
	} {
		if got := MaskedText(key); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
