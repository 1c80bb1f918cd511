package identity

import (
	"net/netip"

	"github.com/caddy-tally/caddy-tally/identity/carried"
)

// The default prefix lengths that distinguish clients: one IPv4 address, and one IPv6 subnet, which a household
// or server commonly has to itself (RFC 6177).
const (
	DefaultIPv4Prefix = 32
	DefaultIPv6Prefix = 64
)

// Prefix returns the network of an address: its first ipv4 or ipv6 bits, depending on the family. An IPv6
// address that carries an IPv4 address counts as the latter ([carried.Of]), and a zone ID is dropped. It
// returns false if text is not an IP address.
//
// A number of bits that is negative or too large keeps the whole address.
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

// AppendPrefix appends a unique form of a network: the length of the prefix and the bytes of the address.
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
