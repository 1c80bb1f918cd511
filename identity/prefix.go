package identity

import (
	"net/netip"

	"github.com/caddy-tally/caddy-tally/identity/carried"
)

// How many leading bits of an address tell clients apart by default: one IPv4
// address, and one IPv6 subnet, which is what a household or server commonly has
// to itself (RFC 6177).
const (
	DefaultIPv4Prefix = 32
	DefaultIPv6Prefix = 64
)

// Prefix returns the network that an address belongs to: its first ipv4 or ipv6
// bits, by its family. An IPv6 address that carries an IPv4 address counts as that
// ([carried.Of]), and a zone id is dropped. It returns false if text is not an IP
// address.
//
// A number of bits below 0 or beyond the family's leaves the address whole.
func Prefix(text string, ipv4, ipv6 int) (netip.Prefix, bool) {
	addr, err := netip.ParseAddr(text)
	if err != nil {
		return netip.Prefix{}, false
	}
	addr = carried.Of(addr)
	bits := ipv6
	if addr.Is4() {
		bits = ipv4
	}
	if bits < 0 || bits > addr.BitLen() {
		bits = addr.BitLen()
	}
	prefix, _ := addr.Prefix(bits) // cannot fail: bits are in range
	return prefix, true
}

// AppendPrefix appends a network in a form that is the same for the same
// network only: the length of the prefix and the bytes of the address.
func AppendPrefix(key []byte, prefix netip.Prefix) []byte {
	key = append(key, byte(prefix.Bits()))
	if addr := prefix.Addr(); addr.Is4() {
		b := addr.As4()
		return append(key, b[:]...)
	} else {
		b := addr.As16()
		return append(key, b[:]...)
	}
}

// PrefixOf returns the network that [AppendPrefix] appended.
func PrefixOf(key []byte) netip.Prefix {
	addr, ok := netip.AddrFromSlice(key[1:])
	if !ok {
		return netip.Prefix{}
	}
	return netip.PrefixFrom(addr, int(key[0]))
}
